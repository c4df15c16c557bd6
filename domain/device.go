package domain

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

var devicesAt = field.NewPath("spec", "domain", "devices")

func elementOf(kind string, alias *libvirtxml.DomainAlias) string {
	return fmt.Sprintf("devices/%s[alias/@name='%s']", kind, alias.Name)
}

// detailed adds a detail to an error of a kind that is created without one.
func detailed(err *field.Error, detail string) *field.Error {
	err.Detail = detail
	return err
}

// oneOf rejects a value that is neither empty nor known.
func (g *guest) oneOf(at *field.Path, value string, known []string) {
	if value != "" && !slices.Contains(known, value) {
		g.reject(field.NotSupported(at, value, known))
	}
}

// virtio is the model of the guest's virtio devices. The VMI overrides the profile; s390x has only
// one model.
func (g *guest) virtio() string {
	if ptr.Deref(g.spec.Domain.Devices.UseVirtioTransitional, g.settings.Virtio == v1alpha1.VirtioTransitional) {
		return g.arch.transitional
	}
	return g.arch.virtio
}

// vcpus is the number of CPUs that the guest starts with.
func (g *guest) vcpus() uint {
	switch v := g.domain.VCPU; {
	case v == nil:
		return 1
	case v.Current > 0:
		return v.Current
	default:
		return v.Value
	}
}

// What libvirt accepts as an alias that it has not chosen itself, and as the name of a host device.
// It renames host devices whose name contains a dot.
var (
	aliasForm     = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	hostAliasForm = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)
)

// alias is libvirt's name of a device. It is unique among all devices of a domain. Those of host
// devices have a prefix.
func (g *guest) alias(at *field.Path, prefix, name string) *libvirtxml.DomainAlias {
	form, allowed, reason := aliasForm, "letters, digits, - and _", "libvirt tells devices apart by it"
	if prefix != "" {
		form, allowed, reason = hostAliasForm, "letters, digits, -, _ and dots", "libvirt knows this one as "+prefix+name
	}
	alias := &libvirtxml.DomainAlias{Name: "ua-" + prefix + name}
	taken := g.aliases[alias.Name]
	g.aliases[alias.Name] = true
	switch {
	case name == "":
		g.reject(field.Required(at, "must be the name of the device"))
	case !form.MatchString(name):
		g.reject(field.Invalid(at, name, "must be "+allowed+": libvirt names the device after it"))
	case taken:
		g.reject(detailed(field.Duplicate(at, name), "must differ from the names of all other devices: "+reason))
	}
	return alias
}

func (g *guest) boot(at *field.Path, order *uint) *libvirtxml.DomainDeviceBoot {
	if order == nil {
		return nil
	}
	if *order == 0 {
		g.reject(field.Invalid(at, *order, "must be at least 1; leave it out where nothing boots"))
	}
	return &libvirtxml.DomainDeviceBoot{Order: *order}
}

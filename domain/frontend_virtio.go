package domain

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// virtio is the model of the guest's virtio devices. The instance's own word
// is stronger than the profile's; s390x knows one model only.
func (g *guest) virtio() string {
	if ptr.Deref(g.spec.Domain.Devices.UseVirtioTransitional, g.settings.Virtio == v1alpha1.VirtioTransitional) {
		return g.arch.transitional
	}
	return g.arch.virtio
}

// channelIO says that devices hang on s390x's channels: there is no USB, and
// no root complex of PCI.
func (a *architecture) channelIO() bool {
	return a.name == string(v1alpha1.ArchitectureS390X)
}

// vcpus is how many processors the guest starts with.
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

// devicesAt is the path of the devices of an instance.
var devicesAt = field.NewPath("spec", "domain", "devices")

// aliasForm is what libvirt takes for a name that is not its own.
var aliasForm = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// alias is libvirt's name of a device. Within a domain it is unique, whatever
// the device.
func (g *guest) alias(at *field.Path, name string) *libvirtxml.DomainAlias {
	alias := &libvirtxml.DomainAlias{Name: "ua-" + name}
	free := g.take(alias.Name)
	switch {
	case name == "":
		g.refuse(field.Required(at, "must be the name of the device"))
	case !aliasForm.MatchString(name):
		g.refuse(field.Invalid(at, name, "must be letters, digits, - and _: libvirt names the device after it"))
	case !free:
		err := field.Duplicate(at, name)
		err.Detail = "must differ from the names of all other devices: libvirt tells devices apart by it"
		g.refuse(err)
	}
	return alias
}

// take notes that a device has an alias, and says whether no other has it.
func (g *guest) take(alias string) bool {
	if g.named == nil {
		g.named = map[string]bool{}
	}
	free := !g.named[alias]
	g.named[alias] = true
	return free
}

// boot is the place of a device among those that the guest boots from.
func (g *guest) boot(at *field.Path, order *uint) *libvirtxml.DomainDeviceBoot {
	if order == nil {
		return nil
	}
	if *order == 0 {
		g.refuse(field.Invalid(at, *order, "must be at least 1; leave it out where nothing boots"))
	}
	return &libvirtxml.DomainDeviceBoot{Order: *order}
}

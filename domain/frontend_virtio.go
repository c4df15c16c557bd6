package domain

import (
	"regexp"
	"strconv"

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
	switch {
	case name == "":
		g.refuse(field.Required(at, "must be the name of the device"))
	case !aliasForm.MatchString(name):
		g.refuse(field.Invalid(at, name, "must be letters, digits, - and _: libvirt names the device after it"))
	case g.hasAlias(alias.Name):
		err := field.Duplicate(at, name)
		err.Detail = "must differ from the names of all other devices: libvirt tells devices apart by it"
		g.refuse(err)
	}
	return alias
}

func (g *guest) hasAlias(name string) bool {
	named := func(a *libvirtxml.DomainAlias) bool { return a != nil && a.Name == name }
	found := false
	for i := range g.devices.Disks {
		found = found || named(g.devices.Disks[i].Alias)
	}
	for i := range g.devices.Interfaces {
		found = found || named(g.devices.Interfaces[i].Alias)
	}
	for i := range g.devices.Inputs {
		found = found || named(g.devices.Inputs[i].Alias)
	}
	for i := range g.devices.Watchdogs {
		found = found || named(g.devices.Watchdogs[i].Alias)
	}
	return found
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

// pciForm is a PCI address, with a slot that buses have.
var pciForm = regexp.MustCompile(`^([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])$`)

// pciAddress is where on its PCI buses the guest finds a device; empty leaves
// that to libvirt.
func (g *guest) pciAddress(at *field.Path, text string) *libvirtxml.DomainAddress {
	if text == "" {
		return nil
	}
	parts := pciForm.FindStringSubmatch(text)
	if parts == nil {
		g.refuse(field.Invalid(at, text, "must be a PCI address such as 0000:81:01.0: domain, bus, slot (at most 1f) and function in hexadecimal"))
		return nil
	}
	number := func(i int) uint {
		n, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil { // pciForm lets nothing through that is no number
			return 0
		}
		return uint(n)
	}
	return pciAddress(number(1), number(2), number(3), number(4))
}

func pciAddress(domain, bus, slot, function uint) *libvirtxml.DomainAddress {
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function}}
}

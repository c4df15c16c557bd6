package domain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A pciLayout is where devices can be on the PCI buses of a machine. Slots are
// first and last ones.
type pciLayout struct {
	// own are the slots of bus 0 that are not the machine's, behind those of all
	// other buses, which libvirt adds up to a last one.
	own, behind [2]uint
	lastBus     uint
	// example is a good address.
	example string
}

// The layouts, as libvirt has them. On machines with PCI Express each bus is
// behind a port of its own, and bus 0 has room for that many ports; elsewhere
// buses are behind bridges.
var (
	pciOfQ35    = pciLayout{own: [2]uint{0x01, 0x1e}, lastBus: 0xe0, example: "0000:05:00.0"}
	pciOfI440FX = pciLayout{own: [2]uint{0x02, 0x1f}, behind: [2]uint{0x01, 0x1f}, lastBus: 0xff, example: "0000:00:05.0"}
	pciOfVirt   = pciLayout{own: [2]uint{0x01, 0x1f}, lastBus: 0xe0, example: "0000:05:00.0"}
	pciOfS390X  = pciLayout{own: [2]uint{0x01, 0x1f}, behind: [2]uint{0x01, 0x1f}, lastBus: 0xff, example: "0000:00:05.0"}
)

func (g *guest) pciLayout() *pciLayout {
	switch {
	case g.arch.channelIO():
		return &pciOfS390X
	case g.arch.name != "amd64":
		return &pciOfVirt
	case g.onI440FX():
		return &pciOfI440FX
	default:
		return &pciOfQ35
	}
}

// pciForm is a PCI address, with a slot that buses have.
var pciForm = regexp.MustCompile(`^([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])$`)

// pciAddress is where on its PCI buses the guest finds a device; empty leaves
// that to libvirt.
func (g *guest) pciAddress(at *field.Path, text string) *libvirtxml.DomainAddress {
	if text == "" {
		return nil
	}
	layout := g.pciLayout()
	parts := pciForm.FindStringSubmatch(text)
	if parts == nil {
		g.refuse(field.Invalid(at, text, fmt.Sprintf("must be a PCI address such as %s: domain, bus, slot (at most 1f) and function in hexadecimal", layout.example)))
		return nil
	}
	var numbers [4]uint
	for i, part := range parts[1:] {
		n, err := strconv.ParseUint(part, 16, 16)
		if err != nil { // pciForm lets nothing through that is no number
			return nil
		}
		numbers[i] = uint(n)
	}
	domain, bus, slot := numbers[0], numbers[1], numbers[2]
	slots := layout.behind
	if bus == 0 {
		slots = layout.own
	}
	switch {
	case domain != 0:
		g.refuse(field.Invalid(at, text, fmt.Sprintf("must be in the PCI domain 0000, the only one of a guest, such as %s", layout.example)))
	case bus > layout.lastBus:
		g.refuse(field.Invalid(at, text, fmt.Sprintf("must be on a bus up to %02x, such as %s", layout.lastBus, layout.example)))
	case slot < slots[0] || slot > slots[1]:
		g.refuse(field.Invalid(at, text, fmt.Sprintf("must be %s, such as %s", slotsText(bus, slots), layout.example)))
	}
	return pciAddress(domain, bus, slot, numbers[3])
}

// slotsText says in which slots of a bus a device can be.
func slotsText(bus uint, slots [2]uint) string {
	if slots[0] == slots[1] {
		return fmt.Sprintf("in slot %02x, the only one of bus %02x", slots[0], bus)
	}
	return fmt.Sprintf("in a slot from %02x to %02x of bus %02x: others are the machine's own", slots[0], slots[1], bus)
}

func pciAddress(domain, bus, slot, function uint) *libvirtxml.DomainAddress {
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function}}
}

// refuseSharedAddresses refuses a PCI address that an earlier device has.
func (g *guest) refuseSharedAddresses() {
	taken := map[string]bool{}
	note := func(at *field.Path, text string) {
		key := strings.ToLower(text)
		if text != "" && taken[key] {
			err := field.Duplicate(at.Child("pciAddress"), text)
			err.Detail = "must be the address of one device only"
			g.refuse(err)
		}
		taken[key] = true
	}
	devices := &g.spec.Domain.Devices
	for i := range devices.Disks {
		if d := devices.Disks[i].Disk; d != nil {
			note(devicesAt.Child("disks").Index(i).Child("disk"), d.PciAddress)
		}
	}
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; nic.State != kubevirtv1.InterfaceStateAbsent {
			note(devicesAt.Child("interfaces").Index(i), nic.PciAddress)
		}
	}
}

package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// A pciLayout says where devices can be on the PCI buses of a machine type. Slots are ranges.
type pciLayout struct {
	// root are the slots of bus 0 that the board does not use, behind those of all other buses,
	// which libvirt adds up to lastBus.
	root, behind [2]uint
	lastBus      uint
	example      string // a valid address
}

// The layouts of libvirt. With PCI Express each bus is behind a port of its own, and bus 0 has room
// for that many ports; otherwise buses are behind bridges.
var (
	pciOfQ35    = pciLayout{root: [2]uint{0x01, 0x1e}, lastBus: 0xe0, example: "0000:05:00.0"}
	pciOfI440FX = pciLayout{root: [2]uint{0x02, 0x1f}, behind: [2]uint{0x01, 0x1f}, lastBus: 0xff, example: "0000:00:05.0"}
	pciOfVirt   = pciLayout{root: [2]uint{0x01, 0x1f}, lastBus: 0xe0, example: "0000:05:00.0"}
	pciOfS390X  = pciLayout{root: [2]uint{0x01, 0x1f}, behind: [2]uint{0x01, 0x1f}, lastBus: 0xff, example: "0000:00:05.0"}
)

// conventional are the models of devices that are not behind ports of PCI Express.
var conventional = []string{"virtio-transitional", "e1000", "ne2k_pci", "pcnet", "rtl8139"}

// pciForm is a PCI address with a slot that exists.
var pciForm = regexp.MustCompile(`^([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([01][0-9a-fA-F])\.([0-7])$`)

// parsePCI parses a PCI address; nil if the text is none.
func parsePCI(text string) *libvirtxml.DomainAddress {
	parts := pciForm.FindStringSubmatch(text)
	if parts == nil {
		return nil
	}
	var numbers [4]uint
	for i, part := range parts[1:] {
		n, _ := strconv.ParseUint(part, 16, 16) // pciForm allows nothing else
		numbers[i] = uint(n)
	}
	return pciAddress(numbers[0], numbers[1], numbers[2], numbers[3])
}

func pciAddress(domain, bus, slot, function uint) *libvirtxml.DomainAddress {
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function}}
}

// pciAddress checks where on its PCI buses the guest finds a device of a model. libvirt chooses if
// it is empty.
func (g *guest) pciAddress(at *field.Path, text, model string) *libvirtxml.DomainAddress {
	if text == "" {
		return nil
	}
	layout, address := g.arch.pci, parsePCI(text)
	if g.arch.name == "amd64" && g.onI440FX() {
		layout = pciOfI440FX
	}
	if address == nil {
		g.reject(field.Invalid(at, text, fmt.Sprintf("must be a PCI address such as %s: domain, bus, slot (at most 1f) and function in hexadecimal", layout.example)))
		return nil
	}
	if must := layout.misplaces(address.PCI, model); must != "" {
		g.reject(field.Invalid(at, text, must))
	}
	return address
}

// misplaces says where a device must be that the guest cannot have at an address; empty if it can.
func (l pciLayout) misplaces(address *libvirtxml.DomainAddressPCI, model string) string {
	bus, slot, slots := *address.Bus, *address.Slot, l.behind
	if bus == 0 {
		slots = l.root
	}
	switch {
	case *address.Domain != 0:
		return fmt.Sprintf("must be in the PCI domain 0000, the only one of a guest, such as %s", l.example)
	case bus > l.lastBus:
		return fmt.Sprintf("must be on a bus up to %02x, such as %s", l.lastBus, l.example)
	case bus > 0 && l.behind == [2]uint{} && slices.Contains(conventional, model):
		return fmt.Sprintf("must be on bus 00, such as 0000:00:05.0: the model %s is no PCI Express device", model)
	case slot < slots[0] || slot > slots[1]:
		return fmt.Sprintf("must be %s, such as %s", slotsText(bus, slots), l.example)
	}
	return ""
}

func slotsText(bus uint, slots [2]uint) string {
	if slots[0] == slots[1] {
		return fmt.Sprintf("in slot %02x, the only one of bus %02x", slots[0], bus)
	}
	return fmt.Sprintf("in a slot from %02x to %02x of bus %02x: others belong to the board", slots[0], slots[1], bus)
}

func (g *guest) rejectSharedAddresses() {
	taken := map[string]bool{}
	check := func(at *field.Path, text string) {
		key := strings.ToLower(text)
		if text != "" && taken[key] {
			g.reject(detailed(field.Duplicate(at.Child("pciAddress"), text), "must be the address of one device only"))
		}
		taken[key] = true
	}
	devices := &g.spec.Domain.Devices
	for i := range devices.Disks {
		if d := devices.Disks[i].Disk; d != nil {
			check(devicesAt.Child("disks").Index(i).Child("disk"), d.PciAddress)
		}
	}
	for i := range devices.Interfaces {
		if nic := &devices.Interfaces[i]; nic.State != kubevirtv1.InterfaceStateAbsent {
			check(devicesAt.Child("interfaces").Index(i), nic.PciAddress)
		}
	}
}

const (
	firstSlot = 0x02 // the first free slot of the root complex, after host bridge and display adapter
	lastSlot  = 0x1f
)

// placeOnRootComplex gives PCI devices without an address the next free slot of the root complex,
// if an annotation of the VMI asks for it. The order is KubeVirt's, except for host devices, which
// are last. Placing again after devices have been added moves no device.
func placeOnRootComplex(vmi *kubevirtv1.VirtualMachineInstance, devices *libvirtxml.DomainDeviceList) field.ErrorList {
	value, at := annotation(vmi, kubevirtv1.PlacePCIDevicesOnRootComplex)
	if value != "true" {
		return nil
	}
	all := pciAddresses(devices)
	used := usedSlots(all)
	slot := uint(firstSlot)
	for _, address := range all {
		if *address != nil {
			continue
		}
		for used[slot] {
			slot++
		}
		if slot > lastSlot {
			return field.ErrorList{field.Invalid(at, value, "must be left out: there are more devices than slots on the root complex")}
		}
		*address = pciAddress(0, 0, slot, 0)
		slot++
	}
	return nil
}

// usedSlots are the slots of the root complex that devices have, and those where QEMU and libvirt
// put the devices of the board: a sound card and the SATA controller.
func usedSlots(all addresses) map[uint]bool {
	used := map[uint]bool{0x1b: true, 0x1f: true}
	for _, address := range all {
		if *address == nil || (*address).PCI == nil {
			continue
		}
		if a := (*address).PCI; ptr.Deref(a.Domain, 0) == 0 && ptr.Deref(a.Bus, 0) == 0 && a.Slot != nil {
			used[*a.Slot] = true
		}
	}
	return used
}

// pciAddresses are the addresses of all PCI devices that KubeVirt places.
func pciAddresses(d *libvirtxml.DomainDeviceList) addresses {
	var out addresses
	for i := range d.Interfaces {
		out.add(true, &d.Interfaces[i].Address)
	}
	for i := range d.Controllers {
		out = append(out, controllerAddress(&d.Controllers[i])...)
	}
	for i := range d.Disks {
		out.add(onVirtio(&d.Disks[i]), &d.Disks[i].Address)
	}
	for i := range d.Inputs {
		out.add(d.Inputs[i].Bus == kubevirtv1.VirtIO, &d.Inputs[i].Address)
	}
	for i := range d.Watchdogs {
		out.add(true, &d.Watchdogs[i].Address)
	}
	for i := range d.RNGs {
		out.add(true, &d.RNGs[i].Address)
	}
	if b := d.MemBalloon; b != nil && b.Model != "none" {
		out = append(out, &b.Address)
	}
	for i := range d.Hostdevs {
		out.add(d.Hostdevs[i].SubsysPCI != nil, &d.Hostdevs[i].Address)
	}
	return out
}

func onVirtio(d *libvirtxml.DomainDisk) bool {
	return d.Target != nil && d.Target.Bus == kubevirtv1.VirtIO
}

// controllerAddress is the address of a controller. One with the model none takes a slot too, as it
// does with KubeVirt, but gets no address.
func controllerAddress(c *libvirtxml.DomainController) addresses {
	switch {
	case c.Model == "none":
		return addresses{new(*libvirtxml.DomainAddress)}
	case c.Type == "pci":
		return nil
	}
	return addresses{&c.Address}
}

type addresses []**libvirtxml.DomainAddress

func (a *addresses) add(onPCI bool, address **libvirtxml.DomainAddress) {
	if onPCI {
		*a = append(*a, address)
	}
}

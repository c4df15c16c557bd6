package domain

import (
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// firstSlot is the first one that is free: the host bridge and the display
// adapter are before it. lastSlot is the last one of a bus.
const (
	firstSlot = 0x02
	lastSlot  = 0x1f
)

// placeOnRootComplex gives PCI devices without an address the next free slot
// of the root complex, in KubeVirt's order but for devices of the host, which
// are last. It says whether there are enough. Doing it again after devices
// have been added moves no device.
func placeOnRootComplex(devices *libvirtxml.DomainDeviceList) bool {
	places := pciPlaces(devices)
	used := usedSlots(places)
	slot := uint(firstSlot)
	for _, place := range places {
		if *place != nil {
			continue
		}
		for used[slot] {
			slot++
		}
		if slot > lastSlot {
			return false
		}
		*place = pciAddress(0, 0, slot, 0)
		slot++
	}
	return true
}

// usedSlots are those of the root complex that devices have, and those where
// QEMU and libvirt put what a board has: a sound card and the sata controller.
func usedSlots(places []**libvirtxml.DomainAddress) map[uint]bool {
	used := map[uint]bool{0x1b: true, 0x1f: true}
	for _, place := range places {
		if *place == nil || (*place).PCI == nil {
			continue
		}
		if a := (*place).PCI; ptr.Deref(a.Domain, 0) == 0 && ptr.Deref(a.Bus, 0) == 0 && a.Slot != nil {
			used[*a.Slot] = true
		}
	}
	return used
}

// pciPlaces are the addresses of all PCI devices that KubeVirt places.
func pciPlaces(d *libvirtxml.DomainDeviceList) []**libvirtxml.DomainAddress {
	out := places(d.Interfaces, func(i *libvirtxml.DomainInterface) **libvirtxml.DomainAddress { return &i.Address })
	out = append(out, places(d.Controllers, controllerPlace)...)
	out = append(out, places(d.Disks, func(disk *libvirtxml.DomainDisk) **libvirtxml.DomainAddress {
		return onlyIf(disk.Target != nil && disk.Target.Bus == kubevirtv1.VirtIO, &disk.Address)
	})...)
	out = append(out, places(d.Inputs, func(in *libvirtxml.DomainInput) **libvirtxml.DomainAddress {
		return onlyIf(in.Bus == kubevirtv1.VirtIO, &in.Address)
	})...)
	out = append(out, places(d.Watchdogs, func(w *libvirtxml.DomainWatchdog) **libvirtxml.DomainAddress { return &w.Address })...)
	out = append(out, places(d.RNGs, func(r *libvirtxml.DomainRNG) **libvirtxml.DomainAddress { return &r.Address })...)
	if b := d.MemBalloon; b != nil && b.Model != "none" {
		out = append(out, &b.Address)
	}
	return append(out, places(d.Hostdevs, func(h *libvirtxml.DomainHostdev) **libvirtxml.DomainAddress {
		return onlyIf(h.SubsysPCI != nil, &h.Address)
	})...)
}

// controllerPlace is the address of a controller. One that is said to be
// absent takes a slot too, as it does with KubeVirt, so that what follows is
// where KubeVirt has it; it gets no address.
func controllerPlace(c *libvirtxml.DomainController) **libvirtxml.DomainAddress {
	if c.Model == "none" {
		return new(*libvirtxml.DomainAddress)
	}
	return onlyIf(c.Type != "pci", &c.Address)
}

func onlyIf(pci bool, place **libvirtxml.DomainAddress) **libvirtxml.DomainAddress {
	if !pci {
		return nil
	}
	return place
}

// places are those of a list that are on a PCI bus.
func places[T any](list []T, of func(*T) **libvirtxml.DomainAddress) []**libvirtxml.DomainAddress {
	var out []**libvirtxml.DomainAddress
	for i := range list {
		if place := of(&list[i]); place != nil {
			out = append(out, place)
		}
	}
	return out
}

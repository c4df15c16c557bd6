package domain

import (
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// TestDiskNames assigns names to three disks on one bus.
func TestDiskNames(t *testing.T) {
	type status map[string]string // names in the guest by disk
	for name, c := range map[string]struct {
		reason string
		status status
		bus    kubevirtv1.DiskBus
		want   []string
	}{
		"fresh":    {"disks count from a", nil, "virtio", []string{"vda", "vdb", "vdc"}},
		"kept":     {"a disk keeps its name", status{"two": "vda"}, "virtio", []string{"vdb", "vda", "vdc"}},
		"gone":     {"the name of a removed disk is not reused while the status has it", status{"old": "vda"}, "virtio", []string{"vdb", "vdc", "vdd"}},
		"moved":    {"a name of another bus is not kept", status{"one": "vda"}, "scsi", []string{"sda", "sdb", "sdc"}},
		"nonsense": {"an invalid name is not kept", status{"one": "vd../x", "two": "vd"}, "virtio", []string{"vda", "vdb", "vdc"}},
		"twice":    {"of two disks with one name in the status, only one keeps it", status{"one": "sdb", "two": "sdb"}, "sata", nil},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := &kubevirtv1.VirtualMachineInstance{}
			for disk, target := range c.status {
				vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, kubevirtv1.VolumeStatus{Name: disk, Target: target})
			}
			names, seen := newDiskNames(vmi), map[string]bool{}
			for i, disk := range []string{"one", "two", "three"} {
				got, _ := names.next(string(c.bus), disk)
				if c.want != nil && got != c.want[i] || seen[got] {
					t.Errorf("%s: disk %s is %s, want %v", c.reason, disk, got, c.want)
				}
				seen[got] = true
			}
		})
	}
}

func TestLetters(t *testing.T) {
	for i, want := range map[uint]string{0: "a", 25: "z", 26: "aa", 701: "zz", 702: "aaa", 18277: "zzz"} {
		if got := letters(i); got != want {
			t.Errorf("%d is %s, want %s", i, got, want)
		}
	}
}

// TestRootComplexTwice places devices, adds host devices and places again, as stage 3 does: no
// device moves.
func TestRootComplexTwice(t *testing.T) {
	devices := &libvirtxml.DomainDeviceList{
		Interfaces:  []libvirtxml.DomainInterface{{}},
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}, {Type: "virtio-serial"}},
		MemBalloon:  &libvirtxml.DomainMemBalloon{Model: "virtio"},
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Annotations = map[string]string{kubevirtv1.PlacePCIDevicesOnRootComplex: "true"}
	if errs := placeOnRootComplex(vmi, devices); len(errs) > 0 {
		t.Fatal(errs)
	}
	before := copied(devices)
	devices.Hostdevs = []libvirtxml.DomainHostdev{{SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{}}, {SubsysUSB: &libvirtxml.DomainHostdevSubsysUSB{}}}
	if errs := placeOnRootComplex(vmi, devices); len(errs) > 0 {
		t.Fatal(errs)
	}
	if *devices.Interfaces[0].Address.PCI.Slot != *before.Interfaces[0].Address.PCI.Slot || *devices.MemBalloon.Address.PCI.Slot != *before.MemBalloon.Address.PCI.Slot {
		t.Error("a device has moved")
	}
	slots := map[uint]bool{}
	for _, address := range pciAddresses(devices) {
		if *address == nil {
			continue
		}
		if slot := *(*address).PCI.Slot; slots[slot] {
			t.Errorf("two devices in slot %d", slot)
		} else {
			slots[slot] = true
		}
	}
	if len(slots) != 4 || devices.Controllers[0].Address != nil || devices.Hostdevs[1].Address != nil {
		t.Errorf("got %d slots, want one each for adapter, controller, balloon and PCI host device", len(slots))
	}
}

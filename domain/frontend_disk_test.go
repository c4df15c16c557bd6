package domain

import (
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// TestDiskNames names disks one after the other, on a bus each.
func TestDiskNames(t *testing.T) {
	type status map[string]string // the name in the guest, by the disk's
	for name, c := range map[string]struct {
		reason string
		status status
		bus    kubevirtv1.DiskBus
		want   []string
	}{
		"fresh":    {"disks count from a", nil, "virtio", []string{"vda", "vdb", "vdc"}},
		"kept":     {"a disk that was there stays where it was", status{"two": "vda"}, "virtio", []string{"vdb", "vda", "vdc"}},
		"gone":     {"the place of a disk that goes is not taken while the status tells it", status{"old": "vda"}, "virtio", []string{"vdb", "vdc", "vdd"}},
		"moved":    {"a name of another bus is not kept", status{"one": "vda"}, "scsi", []string{"sda", "sdb", "sdc"}},
		"nonsense": {"what is no name is not kept", status{"one": "vd../x", "two": "vd"}, "virtio", []string{"vda", "vdb", "vdc"}},
		"twice":    {"two disks of a status with one name do not both keep it", status{"one": "sdb", "two": "sdb"}, "sata", nil},
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

// TestRootComplexTwice places devices, adds one of the host and places again:
// stage 3 may do so, and nothing that the guest has moves.
func TestRootComplexTwice(t *testing.T) {
	devices := &libvirtxml.DomainDeviceList{
		Interfaces:  []libvirtxml.DomainInterface{{}},
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}, {Type: "virtio-serial"}},
		MemBalloon:  &libvirtxml.DomainMemBalloon{Model: "virtio"},
	}
	if !placeOnRootComplex(devices) {
		t.Fatal("no place for three devices")
	}
	before := copied(devices)
	devices.Hostdevs = []libvirtxml.DomainHostdev{{SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{}}, {SubsysUSB: &libvirtxml.DomainHostdevSubsysUSB{}}}
	if !placeOnRootComplex(devices) {
		t.Fatal("no place for a fourth one")
	}
	if *devices.Interfaces[0].Address.PCI.Slot != *before.Interfaces[0].Address.PCI.Slot || *devices.MemBalloon.Address.PCI.Slot != *before.MemBalloon.Address.PCI.Slot {
		t.Error("a device has moved")
	}
	slots := map[uint]bool{}
	for _, place := range pciPlaces(devices) {
		if *place == nil {
			continue
		}
		if slot := *(*place).PCI.Slot; slots[slot] {
			t.Errorf("two devices in slot %d", slot)
		} else {
			slots[slot] = true
		}
	}
	if len(slots) != 4 || devices.Controllers[0].Address != nil || devices.Hostdevs[1].Address != nil {
		t.Errorf("got %d slots, want one each for adapter, controller, balloon and the host's PCI device", len(slots))
	}
}

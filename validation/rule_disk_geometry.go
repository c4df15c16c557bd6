package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var diskGeometryRules = []Rule{{
	ID:          "disk-bus-known",
	Leaf:        true,
	Requirement: "The bus of a disk is " + diskBuses.String() + ".",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		bus, target := busOf(disk)
		diskBuses.checkIfSet(r, bus, func() *field.Path { return vm.diskPath(i, target, "bus") })
	}),
}, {
	ID:          "cdrom-not-virtio",
	Leaf:        true,
	Requirement: "A cdrom is not on the virtio bus.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if bus, target := busOf(disk); target == "cdrom" && bus == busVirtio {
			buses := "sata, scsi or usb"
			if arch := vm.Architecture(); arch == "arm64" || arch == "s390x" { // where virtio is the default
				buses = busSCSI
			}
			r.Add(field.Invalid(vm.diskPath(i, "cdrom", "bus"), bus, "must be "+buses+": a cdrom cannot be on the virtio bus"))
		}
	}),
}, {
	ID:          "sata-disk-writable",
	Requirement: "A disk on the sata bus is not read-only.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.Disk != nil && string(disk.Disk.Bus) == busSATA && disk.Disk.ReadOnly {
			r.Add(field.Invalid(vm.diskPath(i, "disk", "readonly"), true, "must be false on the sata bus; use another bus, or a cdrom"))
		}
	}),
}, {
	ID:          "arm64-disk-bus",
	Requirement: "Disks of a VMI on arm64 are on the virtio or scsi bus.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Architecture() != "arm64" {
			return
		}
		for i, disk := range pointers(disksOf(vm)) {
			if bus, target := busOf(disk); bus == busSATA || bus == busUSB {
				supported := []string{busVirtio, busSCSI}
				if disk.CDRom != nil {
					supported = supported[1:] // see cdrom-not-virtio
				}
				r.Add(field.NotSupported(vm.diskPath(i, target, "bus"), bus, supported))
			}
		}
	},
}, {
	ID:          "disk-io-thread-virtio",
	Requirement: "Only a disk on the virtio bus has a dedicated I/O thread.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.DedicatedIOThread == nil || !*disk.DedicatedIOThread {
			return
		}
		if bus, _ := busOf(disk); bus != busVirtio && slices.Contains(diskBuses, bus) {
			r.Add(field.Invalid(vm.diskPath(i, "dedicatedIOThread"), true, "must be false on the "+bus+" bus; only virtio has I/O threads"))
		}
	}),
}, {
	ID:          "disk-pci-virtio",
	Requirement: "Only a disk on the virtio bus has a PCI address.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.Disk != nil && disk.Disk.PciAddress != "" && string(disk.Disk.Bus) != busVirtio {
			r.Add(field.Invalid(vm.diskPath(i, "disk", "pciAddress"), disk.Disk.PciAddress, "must be left out unless the bus is virtio"))
		}
	}),
}, {
	ID:          "disk-pci-address",
	Leaf:        true,
	Requirement: "The PCI address of a disk has the form dddd:bb:ss.f.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.Disk != nil && disk.Disk.PciAddress != "" && !pciAddressForm.MatchString(disk.Disk.PciAddress) {
			r.Add(field.Invalid(vm.diskPath(i, "disk", "pciAddress"), disk.Disk.PciAddress, pciAddressDetail))
		}
	}),
}, {
	ID:          "block-size-choice",
	Requirement: "The block size of a disk is custom or that of its volume.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.BlockSize != nil && disk.BlockSize.Custom != nil && matchesVolume(disk.BlockSize) {
			r.Add(field.Forbidden(vm.diskPath(i, "blockSize"), "must be custom or matchVolume; leave one out"))
		}
	}),
}, {
	ID:          "block-size-range",
	Leaf:        true,
	Requirement: "A custom block size is a power of two from 512 to 2097152.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		size := customSize(disk)
		if size == nil {
			return
		}
		const detail = "must be a power of two from 512 to 2097152"
		if !validBlockSize(size.Logical) {
			r.Add(field.Invalid(vm.diskPath(i, "blockSize", "custom", "logical"), size.Logical, detail))
		}
		if !validBlockSize(size.Physical) {
			r.Add(field.Invalid(vm.diskPath(i, "blockSize", "custom", "physical"), size.Physical, detail))
		}
	}),
}, {
	ID:          "block-size-order",
	Requirement: "The logical block size is at most the physical one.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		size := customSize(disk)
		if size == nil || !validBlockSize(size.Logical) || !validBlockSize(size.Physical) || exceedsSATA(disk, size) {
			return
		}
		if size.Logical > size.Physical {
			r.Add(field.Invalid(vm.diskPath(i, "blockSize", "custom", "logical"), size.Logical,
				fmt.Sprintf("must be at most the physical size, which is %d", size.Physical)))
		}
	}),
}, {
	ID:          "block-size-sata",
	Requirement: "The logical block size of a sata device is 512.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if size := customSize(disk); size != nil && exceedsSATA(disk, size) {
			r.Add(field.Invalid(vm.diskPath(i, "blockSize", "custom", "logical"), size.Logical, "must be 512 on the sata bus"))
		}
	}),
}, {
	ID:          "block-size-discard",
	Requirement: "The discard granularity is a multiple of the logical block size.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		size := customSize(disk)
		if size == nil || size.DiscardGranularity == nil || !validBlockSize(size.Logical) {
			return
		}
		if *size.DiscardGranularity%size.Logical != 0 {
			r.Add(field.Invalid(vm.diskPath(i, "blockSize", "custom", "discardGranularity"), *size.DiscardGranularity,
				fmt.Sprintf("must be a multiple of the logical size, which is %d", size.Logical)))
		}
	}),
}}

const (
	busVirtio = string(kubevirtv1.DiskBusVirtio)
	busSATA   = string(kubevirtv1.DiskBusSATA)
	busSCSI   = string(kubevirtv1.DiskBusSCSI)
	busUSB    = string(kubevirtv1.DiskBusUSB)
)

var diskBuses = valueSet{busVirtio, busSATA, busSCSI, busUSB}

// busOf returns the bus of a disk, empty if unset, and its kind: disk, lun or cdrom.
func busOf(disk *kubevirtv1.Disk) (bus, target string) {
	switch {
	case disk.Disk != nil:
		return string(disk.Disk.Bus), "disk"
	case disk.LUN != nil:
		return string(disk.LUN.Bus), "lun"
	case disk.CDRom != nil:
		return string(disk.CDRom.Bus), "cdrom"
	}
	return "", "disk"
}

const (
	minBlockSize = 512
	maxBlockSize = 2 << 20
)

func validBlockSize(size uint) bool {
	return size >= minBlockSize && size <= maxBlockSize && size&(size-1) == 0
}

// customSize returns the custom block size of a disk; nil if it has none, or also matches that of
// the volume.
func customSize(disk *kubevirtv1.Disk) *kubevirtv1.CustomBlockSize {
	if disk.BlockSize == nil || matchesVolume(disk.BlockSize) {
		return nil
	}
	return disk.BlockSize.Custom
}

func matchesVolume(size *kubevirtv1.BlockSize) bool {
	return size.MatchVolume != nil && (size.MatchVolume.Enabled == nil || *size.MatchVolume.Enabled)
}

// exceedsSATA reports whether a valid size is too large for the sata bus.
func exceedsSATA(disk *kubevirtv1.Disk, size *kubevirtv1.CustomBlockSize) bool {
	bus, _ := busOf(disk)
	return bus == busSATA && validBlockSize(size.Logical) && size.Logical != minBlockSize
}

package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var diskGeometryRules = []Rule{{
	ID:    "disk-bus-known",
	Leaf:  true,
	Says:  "The bus of a disk is virtio, sata, scsi or usb.",
	Check: diskBusKnown,
}, {
	ID:    "cdrom-not-virtio",
	Leaf:  true,
	Says:  "A cdrom is not on the virtio bus.",
	Check: cdromNotVirtio,
}, {
	ID:    "sata-disk-writable",
	Says:  "A disk on the sata bus is not read-only.",
	Check: sataDiskWritable,
}, {
	ID:    "arm64-disk-bus",
	Says:  "Disks of an arm64 machine are on the virtio or scsi bus.",
	Reach: EarlierThanKubeVirt,
	Check: arm64DiskBus,
}, {
	ID:    "disk-io-thread-virtio",
	Says:  "Only a disk on the virtio bus has a dedicated I/O thread.",
	Check: diskIOThreadVirtio,
}, {
	ID:    "disk-pci-virtio",
	Says:  "Only a disk on the virtio bus has a PCI address.",
	Check: diskPCIVirtio,
}, {
	ID:    "disk-pci-address",
	Leaf:  true,
	Says:  "The PCI address of a disk has the form dddd:bb:ss.f.",
	Check: diskPCIAddress,
}, {
	ID:    "block-size-choice",
	Says:  "The block size of a disk is custom or that of its volume.",
	Check: blockSizeChoice,
}, {
	ID:    "block-size-range",
	Leaf:  true,
	Says:  "A custom block size is a power of two from 512 to 2097152.",
	Check: blockSizeRange,
}, {
	ID:    "block-size-order",
	Says:  "The logical block size is at most the physical one.",
	Check: blockSizeOrder,
}, {
	ID:    "block-size-sata",
	Says:  "The logical block size of a sata device is 512.",
	Check: blockSizeSATA,
}, {
	ID:    "block-size-discard",
	Says:  "The discard granularity is a multiple of the logical block size.",
	Check: blockSizeDiscard,
}}

const (
	busVirtio = string(kubevirtv1.DiskBusVirtio)
	busSATA   = string(kubevirtv1.DiskBusSATA)
	busSCSI   = string(kubevirtv1.DiskBusSCSI)
	busUSB    = string(kubevirtv1.DiskBusUSB)
)

// busOf is the bus of a disk, empty where it is the default, and its kind of
// target: disk where it names none.
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

func knownBus(bus string) bool {
	return bus == "" || bus == busVirtio || bus == busSATA || bus == busSCSI || bus == busUSB
}

func diskBusKnown(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if bus, target := busOf(disk); !knownBus(bus) {
			r.Add(r.unsupported(m.disk(i, target, "bus"), bus, busVirtio, busSATA, busSCSI, busUSB))
		}
	}
}

func cdromNotVirtio(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if bus, target := busOf(disk); target == "cdrom" && bus == busVirtio {
			r.Add(field.Invalid(m.disk(i, "cdrom", "bus"), bus, "must be sata, scsi or usb: a cdrom cannot be on the virtio bus"))
		}
	}
}

func sataDiskWritable(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.Disk != nil && string(disk.Disk.Bus) == busSATA && disk.Disk.ReadOnly {
			r.Add(field.Invalid(m.disk(i, "disk", "readonly"), true, "must be false on the sata bus; use another bus, or a cdrom"))
		}
	}
}

func arm64DiskBus(m *Machine, r *Report) {
	if m.Architecture() != "arm64" {
		return
	}
	for i, disk := range m.eachDisk() {
		if bus, target := busOf(disk); bus == busSATA || bus == busUSB {
			r.Add(field.NotSupported(m.disk(i, target, "bus"), bus, []string{busVirtio, busSCSI}))
		}
	}
}

func diskIOThreadVirtio(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.DedicatedIOThread == nil || !*disk.DedicatedIOThread {
			continue
		}
		if bus, _ := busOf(disk); bus != busVirtio && bus != "" && knownBus(bus) {
			r.Add(field.Invalid(m.disk(i, "dedicatedIOThread"), true, "must be false on the "+bus+" bus; only virtio has I/O threads"))
		}
	}
}

func diskPCIVirtio(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.Disk != nil && disk.Disk.PciAddress != "" && string(disk.Disk.Bus) != busVirtio {
			r.Add(field.Invalid(m.disk(i, "disk", "pciAddress"), disk.Disk.PciAddress, "must be left out unless the bus is virtio"))
		}
	}
}

func diskPCIAddress(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.Disk != nil && disk.Disk.PciAddress != "" && !isPCIAddress(disk.Disk.PciAddress) {
			r.Add(field.Invalid(m.disk(i, "disk", "pciAddress"), disk.Disk.PciAddress, pciAddressDetail))
		}
	}
}

const (
	minBlockSize = 512
	maxBlockSize = 2 << 20
)

func validBlockSize(size uint) bool {
	return size >= minBlockSize && size <= maxBlockSize && size&(size-1) == 0
}

// customSize is the custom block size of a disk, nil where there is none or it
// competes with that of the volume.
func customSize(disk *kubevirtv1.Disk) *kubevirtv1.CustomBlockSize {
	if disk.BlockSize == nil || matchesVolume(disk.BlockSize) {
		return nil
	}
	return disk.BlockSize.Custom
}

func matchesVolume(size *kubevirtv1.BlockSize) bool {
	return size.MatchVolume != nil && (size.MatchVolume.Enabled == nil || *size.MatchVolume.Enabled)
}

func blockSizeChoice(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.BlockSize != nil && disk.BlockSize.Custom != nil && matchesVolume(disk.BlockSize) {
			r.Add(field.Forbidden(m.disk(i, "blockSize"), "must be custom or matchVolume; leave one out"))
		}
	}
}

func blockSizeRange(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		size := customSize(disk)
		if size == nil {
			continue
		}
		const detail = "must be a power of two from 512 to 2097152"
		if !validBlockSize(size.Logical) {
			r.Add(field.Invalid(m.disk(i, "blockSize", "custom", "logical"), size.Logical, detail))
		}
		if !validBlockSize(size.Physical) {
			r.Add(field.Invalid(m.disk(i, "blockSize", "custom", "physical"), size.Physical, detail))
		}
	}
}

// wrongForSATA reports whether a size that is right elsewhere is too large for
// the controllers of sata devices.
func wrongForSATA(disk *kubevirtv1.Disk, size *kubevirtv1.CustomBlockSize) bool {
	bus, _ := busOf(disk)
	return bus == busSATA && validBlockSize(size.Logical) && size.Logical != minBlockSize
}

func blockSizeOrder(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		size := customSize(disk)
		if size == nil || !validBlockSize(size.Logical) || !validBlockSize(size.Physical) || wrongForSATA(disk, size) {
			continue
		}
		if size.Logical > size.Physical {
			r.Add(field.Invalid(m.disk(i, "blockSize", "custom", "logical"), size.Logical,
				fmt.Sprintf("must be at most the physical size, which is %d", size.Physical)))
		}
	}
}

func blockSizeSATA(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if size := customSize(disk); size != nil && wrongForSATA(disk, size) {
			r.Add(field.Invalid(m.disk(i, "blockSize", "custom", "logical"), size.Logical, "must be 512 on the sata bus"))
		}
	}
}

func blockSizeDiscard(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		size := customSize(disk)
		if size == nil || size.DiscardGranularity == nil || !validBlockSize(size.Logical) {
			continue
		}
		if *size.DiscardGranularity%size.Logical != 0 {
			r.Add(field.Invalid(m.disk(i, "blockSize", "custom", "discardGranularity"), *size.DiscardGranularity,
				fmt.Sprintf("must be a multiple of the logical size, which is %d", size.Logical)))
		}
	}
}

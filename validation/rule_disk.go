package validation

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var diskRules = []Rule{{
	ID:          "disk-name-unique",
	Requirement: "No two disks have the same name.",
	Check:       uniqueNames(disksOf, func(disk *kubevirtv1.Disk) string { return disk.Name }, "domain", "devices", "disks"),
}, {
	ID:          "disk-name-label",
	Leaf:        true,
	Requirement: "The name of a disk is a DNS label.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if !dnsLabelForm.MatchString(disk.Name) {
			r.Add(field.Invalid(vm.diskPath(i, "name"), disk.Name, dnsLabelDetail))
		}
	}),
}, {
	ID:          "disk-one-target",
	Requirement: "A disk is a disk, a lun or a cdrom.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if count(disk.Disk != nil, disk.LUN != nil, disk.CDRom != nil) > 1 {
			r.Add(field.Forbidden(vm.diskPath(i), "must be one of disk, lun and cdrom; leave out the others"))
		}
	}),
}, {
	ID:          "disk-volume-exists",
	Requirement: "A volume with the name of each disk and lun exists.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.CDRom == nil && !vm.hasVolume(disk) {
			r.Add(vm.volumeNotFound(vm.diskPath(i, "name"), disk.Name, r))
		}
	}),
}, {
	ID:          "cdrom-volume-exists",
	Requirement: "A volume with the name of each cdrom exists, unless feature gate DeclarativeHotplugVolumes is enabled.",
	Gate:        GateDeclarativeHotplugVolumes,
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.CDRom != nil && !vm.hasVolume(disk) {
			r.Add(vm.volumeNotFound(vm.diskPath(i, "name"), disk.Name, r))
		}
	}),
}, {
	ID:          "lun-volume-claim",
	Requirement: "The volume of a lun is a claim or a data volume.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.LUN == nil {
			return
		}
		if volume := vm.Volume(disk.Name); volume != nil && volume.PersistentVolumeClaim == nil && volume.DataVolume == nil {
			r.Add(field.Invalid(vm.diskPath(i, "lun"), disk.Name, "must have a volume that is a persistentVolumeClaim or a dataVolume"))
		}
	}),
}, {
	ID:          "lun-reservation-enabled",
	Requirement: "A lun reserves its device only if feature gate PersistentReservation is enabled.",
	Gate:        GatePersistentReservation,
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.LUN != nil && disk.LUN.Reservation {
			r.addDisabled(vm.diskPath(i, "lun", "reservation"))
		}
	}),
}, {
	ID:          "downward-metrics-disk",
	Requirement: "Downward metrics are a disk on the virtio bus.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if volume := vm.Volume(disk.Name); volume == nil || volume.DownwardMetrics == nil {
			return
		}
		switch bus, target := busOf(disk); {
		case target == "lun" || target == "cdrom":
			r.Add(field.Invalid(vm.diskPath(i, target), disk.Name, "must be a disk: its volume has downward metrics"))
		case bus != "" && bus != busVirtio:
			r.Add(field.Invalid(vm.diskPath(i, target, "bus"), bus, "must be virtio: the volume has downward metrics"))
		}
	}),
}, {
	ID:          "disk-serial-characters",
	Leaf:        true,
	Requirement: "The serial of a disk consists of letters, digits and any of _ . + -.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if !diskSerialForm.MatchString(disk.Serial) {
			r.Add(field.Invalid(vm.diskPath(i, "serial"), disk.Serial, "must consist of letters, digits and any of _ . + -"))
		}
	}),
}, {
	ID:          "disk-serial-length",
	Leaf:        true,
	Requirement: "The serial of a disk has at most 256 characters.",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if len(disk.Serial) > maxDiskSerial && utf8.RuneCountInString(disk.Serial) > maxDiskSerial {
			r.Add(field.TooLongMaxLength(vm.diskPath(i, "serial"), disk.Serial, maxDiskSerial))
		}
	}),
}, {
	ID:          "disk-cache-known",
	Leaf:        true,
	Requirement: "The cache of a disk is " + diskCaches.String() + ".",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		diskCaches.checkIfSet(r, string(disk.Cache), func() *field.Path { return vm.diskPath(i, "cache") })
	}),
}, {
	ID:          "disk-io-known",
	Leaf:        true,
	Requirement: "The io of a disk is " + diskIOs.String() + ".",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		diskIOs.checkIfSet(r, string(disk.IO), func() *field.Path { return vm.diskPath(i, "io") })
	}),
}, {
	ID:          "disk-error-policy-known",
	Leaf:        true,
	Requirement: "The error policy of a disk is " + diskErrorPolicies.String() + ".",
	Check: forEach(disksOf, func(vm *ExpandedVM, r *Report, i int, disk *kubevirtv1.Disk) {
		if disk.ErrorPolicy != nil {
			diskErrorPolicies.check(r, string(*disk.ErrorPolicy), func() *field.Path { return vm.diskPath(i, "errorPolicy") })
		}
	}),
}}

func disksOf(vm *ExpandedVM) []kubevirtv1.Disk { return vm.Spec.Domain.Devices.Disks }

func (vm *ExpandedVM) diskPath(i int, more ...string) *field.Path {
	return childPath(vm.Device("disks").Index(i), more)
}

// hasVolume reports whether the disk has a volume. A disk without a name is reported elsewhere.
func (vm *ExpandedVM) hasVolume(disk *kubevirtv1.Disk) bool {
	return disk.Name == "" || vm.Volume(disk.Name) != nil
}

// volumeNotFound returns the error of a name that no volume has.
func (vm *ExpandedVM) volumeNotFound(at *field.Path, name string, r *Report) *field.Error {
	err := field.NotFound(at, name)
	err.Detail = "must be the name of a volume" + r.suggest(name, namesOf(vm.Spec.Volumes, volumeName))
	return err
}

const maxDiskSerial = 256

var (
	diskCaches        = valueSet{"none", "writethrough", "writeback"}
	diskIOs           = valueSet{"native", "threads"}
	diskErrorPolicies = valueSet{"stop", "ignore", "report", "enospace"}
)

package validation

import (
	"iter"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var diskRules = []Rule{{
	ID:    "disk-name-unique",
	Says:  "No two disks have the same name.",
	Check: diskNameUnique,
}, {
	ID:    "disk-name-label",
	Leaf:  true,
	Says:  "The name of a disk is a DNS label.",
	Check: diskNameLabel,
}, {
	ID:    "disk-one-target",
	Says:  "A disk is a disk, a lun or a cdrom.",
	Check: diskOneTarget,
}, {
	ID:    "disk-volume-exists",
	Says:  "There is a volume with the name of each disk and lun.",
	Check: diskVolumeExists,
}, {
	ID:      "cdrom-volume-exists",
	Says:    "There is a volume with the name of each cdrom, unless DeclarativeHotplugVolumes lets a drive be empty.",
	Cluster: true,
	Check:   cdromVolumeExists,
}, {
	ID:    "lun-volume-claim",
	Says:  "The volume of a lun is a claim or a data volume.",
	Check: lunVolumeClaim,
}, {
	ID:      "lun-reservation-enabled",
	Leaf:    true,
	Says:    "A lun reserves its device only where PersistentReservation is enabled.",
	Cluster: true,
	Check:   lunReservationEnabled,
}, {
	ID:    "downward-metrics-disk",
	Says:  "Downward metrics are a disk on the virtio bus.",
	Check: downwardMetricsDisk,
}, {
	ID:    "disk-serial-characters",
	Leaf:  true,
	Says:  "The serial of a disk is letters, digits and any of _ . + -.",
	Check: diskSerialCharacters,
}, {
	ID:    "disk-serial-length",
	Leaf:  true,
	Says:  "The serial of a disk has at most 256 characters.",
	Check: diskSerialLength,
}, {
	ID:    "disk-cache-known",
	Leaf:  true,
	Says:  "The cache of a disk is none, writethrough or writeback.",
	Check: diskCacheKnown,
}, {
	ID:    "disk-io-known",
	Leaf:  true,
	Says:  "The io of a disk is native or threads.",
	Check: diskIOKnown,
}, {
	ID:    "disk-error-policy-known",
	Leaf:  true,
	Says:  "The error policy of a disk is stop, ignore, report or enospace.",
	Check: diskErrorPolicyKnown,
}}

// eachDisk yields the disks with their positions, without copying them.
func (m *Machine) eachDisk() iter.Seq2[int, *kubevirtv1.Disk] {
	return pointers(m.Spec.Domain.Devices.Disks)
}

// pointers yields the elements of a list where they are.
func pointers[T any](list []T) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i := range list {
			if !yield(i, &list[i]) {
				return
			}
		}
	}
}

// disk is the path of a part of a disk.
func (m *Machine) disk(i int, more ...string) *field.Path {
	return under(m.Device("disks").Index(i), more)
}

// under is what lies beneath a path; the path itself where nothing is named.
func under(at *field.Path, more []string) *field.Path {
	if len(more) == 0 {
		return at
	}
	return at.Child(more[0], more[1:]...)
}

func diskNameUnique(m *Machine, r *Report) {
	disks := m.Spec.Domain.Devices.Disks
	for i, first := range repeated(len(disks), func(i int) string { return disks[i].Name }) {
		r.Add(duplicate(m.disk(i, "name"), disks[i].Name, "disks", first))
	}
}

func diskNameLabel(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if !isDNSLabel(disk.Name) {
			r.Add(field.Invalid(m.disk(i, "name"), disk.Name, dnsLabelDetail))
		}
	}
}

func diskOneTarget(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.Disk != nil && disk.LUN != nil || disk.Disk != nil && disk.CDRom != nil || disk.LUN != nil && disk.CDRom != nil {
			r.Add(field.Forbidden(m.disk(i), "must be one of disk, lun and cdrom; leave out the others"))
		}
	}
}

// hasVolume reports whether the disk has its volume; one without a name lacks
// the name first.
func (m *Machine) hasVolume(disk *kubevirtv1.Disk) bool {
	return disk.Name == "" || m.Volume(disk.Name) != nil
}

// volumeNames yields the names of all volumes.
func (m *Machine) volumeNames(yield func(string) bool) {
	for i := range m.Spec.Volumes {
		if !yield(m.Spec.Volumes[i].Name) {
			return
		}
	}
}

func diskVolumeExists(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.CDRom == nil && !m.hasVolume(disk) {
			r.Add(m.noVolume(m.disk(i, "name"), disk.Name, r))
		}
	}
}

func cdromVolumeExists(m *Machine, r *Report) {
	if m.Config.Enabled(GateDeclarativeHotplugVolumes) {
		return
	}
	for i, disk := range m.eachDisk() {
		if disk.CDRom != nil && !m.hasVolume(disk) {
			r.Add(m.noVolume(m.disk(i, "name"), disk.Name, r))
		}
	}
}

// noVolume is the problem of a name that no volume has.
func (m *Machine) noVolume(at *field.Path, name string, r *Report) *field.Error {
	err := field.NotFound(at, name)
	err.Detail = "must be the name of a volume" + r.Suggest(name, m.volumeNames)
	return err
}

func lunVolumeClaim(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.LUN == nil {
			continue
		}
		if volume := m.Volume(disk.Name); volume != nil && volume.PersistentVolumeClaim == nil && volume.DataVolume == nil {
			r.Add(field.Invalid(m.disk(i, "lun"), disk.Name, "must have a volume that is a persistentVolumeClaim or a dataVolume"))
		}
	}
}

func lunReservationEnabled(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.LUN != nil && disk.LUN.Reservation && !m.Config.Enabled(GatePersistentReservation) {
			r.Add(disabled(m.disk(i, "lun", "reservation"), GatePersistentReservation))
		}
	}
}

// disabled is the problem of something that a feature gate keeps away.
func disabled(at *field.Path, gate Gate) *field.Error {
	return field.Forbidden(at, "must be left out: the feature gate "+string(gate)+" is not enabled")
}

func downwardMetricsDisk(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if volume := m.Volume(disk.Name); volume == nil || volume.DownwardMetrics == nil {
			continue
		}
		switch bus, target := busOf(disk); {
		case target == "lun" || target == "cdrom":
			r.Add(field.Invalid(m.disk(i, target), disk.Name, "must be a disk: its volume has downward metrics"))
		case bus != "" && bus != busVirtio:
			r.Add(field.Invalid(m.disk(i, target, "bus"), bus, "must be virtio: the volume has downward metrics"))
		}
	}
}

func diskSerialCharacters(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if !isDiskSerial(disk.Serial) {
			r.Add(field.Invalid(m.disk(i, "serial"), disk.Serial, "must be letters, digits and any of _ . + -"))
		}
	}
}

// isDiskSerial reports whether text has only characters that may be in a serial.
func isDiskSerial(text string) bool {
	for _, c := range []byte(text) {
		if !isLower(c) && !isUpper(c) && !isDigit(c) && c != '_' && c != '.' && c != '+' && c != '-' {
			return false
		}
	}
	return true
}

const maxDiskSerial = 256

func diskSerialLength(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if len(disk.Serial) > maxDiskSerial && utf8.RuneCountInString(disk.Serial) > maxDiskSerial {
			r.Add(field.TooLongMaxLength(m.disk(i, "serial"), disk.Serial, maxDiskSerial))
		}
	}
}

func diskCacheKnown(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		switch disk.Cache {
		case "", kubevirtv1.CacheNone, kubevirtv1.CacheWriteThrough, kubevirtv1.CacheWriteBack:
		default:
			r.Add(r.unsupported(m.disk(i, "cache"), string(disk.Cache), "none", "writethrough", "writeback"))
		}
	}
}

func diskIOKnown(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		switch disk.IO {
		case "", kubevirtv1.IONative, kubevirtv1.IOThreads:
		default:
			r.Add(r.unsupported(m.disk(i, "io"), string(disk.IO), "native", "threads"))
		}
	}
}

func diskErrorPolicyKnown(m *Machine, r *Report) {
	for i, disk := range m.eachDisk() {
		if disk.ErrorPolicy == nil {
			continue
		}
		switch *disk.ErrorPolicy {
		case kubevirtv1.DiskErrorPolicyStop, kubevirtv1.DiskErrorPolicyIgnore,
			kubevirtv1.DiskErrorPolicyReport, kubevirtv1.DiskErrorPolicyEnospace:
		default:
			r.Add(r.unsupported(m.disk(i, "errorPolicy"), string(*disk.ErrorPolicy), "stop", "ignore", "report", "enospace"))
		}
	}
}

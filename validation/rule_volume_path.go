package validation

import (
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// volumePathRules are about volumes that are places on a host or in a pod, and
// about file systems.
var volumePathRules = []Rule{{
	ID:      "host-disk-enabled",
	Says:    "A host disk is given only where HostDisk is enabled.",
	Cluster: true,
	Check:   hostDiskEnabled,
}, {
	ID:    "host-disk-path",
	Says:  "A host disk has a path.",
	Check: hostDiskPath,
}, {
	ID:    "host-disk-type",
	Leaf:  true,
	Says:  "The type of a host disk is Disk or DiskOrCreate.",
	Check: hostDiskType,
}, {
	ID:    "host-disk-capacity",
	Says:  "A host disk has a capacity only where it may be created.",
	Check: hostDiskCapacity,
}, {
	ID:    "container-path-filesystem",
	Says:  "A container path is used by a file system, not by a disk.",
	Reach: EarlierThanKubeVirt,
	Check: containerPathFilesystem,
}, {
	ID:    "container-path-elsewhere",
	Says:  "A container path does not lie where KubeVirt or libvirt keep their own files.",
	Reach: EarlierThanKubeVirt,
	Check: containerPathElsewhere,
}, {
	ID:    "container-path-absolute",
	Says:  "A container path is absolute, without .., and has at most 4096 characters.",
	Check: containerPathAbsolute,
}, {
	ID:    "container-path-read-only",
	Says:  "A container path is read-only.",
	Check: containerPathReadOnly,
}, {
	ID:      "filesystem-storage-enabled",
	Says:    "A file system of a claim or data volume is given only where EnableVirtioFsStorageVolumes is enabled.",
	Cluster: true,
	Check:   filesystemStorageEnabled,
}, {
	ID:    "filesystem-volume-exists",
	Says:  "There is a volume with the name of each file system.",
	Reach: BeyondKubeVirt,
	Check: filesystemVolumeExists,
}}

func hostDiskEnabled(m *Machine, r *Report) {
	if m.Config.Enabled(GateHostDisk) {
		return
	}
	for i, volume := range m.eachVolume() {
		if volume.HostDisk != nil {
			r.Add(disabled(m.volume(i, "hostDisk"), GateHostDisk))
		}
	}
}

func hostDiskPath(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if volume.HostDisk != nil && volume.HostDisk.Path == "" {
			r.Add(field.Required(m.volume(i, "hostDisk", "path"), "must be the path of the disk on the host"))
		}
	}
}

func hostDiskType(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if v := volume.HostDisk; v != nil && v.Type != kubevirtv1.HostDiskExists && v.Type != kubevirtv1.HostDiskExistsOrCreate {
			r.Add(r.unsupported(m.volume(i, "hostDisk", "type"), string(v.Type), "Disk", "DiskOrCreate"))
		}
	}
}

func hostDiskCapacity(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if v := volume.HostDisk; v != nil && v.Type == kubevirtv1.HostDiskExists && !v.Capacity.IsZero() {
			r.Add(field.Invalid(m.volume(i, "hostDisk", "capacity"), v.Capacity.String(),
				"must be left out: a disk of type Disk exists already; use DiskOrCreate to have it made"))
		}
	}
}

func containerPathFilesystem(m *Machine, r *Report) {
	var disks map[string]bool
	for i, volume := range m.eachVolume() {
		if volume.ContainerPath == nil {
			continue
		}
		if disks == nil {
			disks = m.diskNames()
		}
		// One that nothing uses is volume-has-device's.
		if disks[volume.Name] {
			r.Add(field.Invalid(m.volume(i, "name"), volume.Name, "must be the name of a file system and of no disk: a container path is shared with virtiofs"))
		}
	}
}

func (m *Machine) diskNames() map[string]bool {
	names := make(map[string]bool, len(m.Spec.Domain.Devices.Disks))
	for i := range m.Spec.Domain.Devices.Disks {
		names[m.Spec.Domain.Devices.Disks[i].Name] = true
	}
	return names
}

func containerPathElsewhere(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if volume.ContainerPath == nil {
			continue
		}
		given, reach := volume.ContainerPath.Path, AsKubeVirt
		if !isReserved(given) {
			given, reach = path.Clean(given), BeyondKubeVirt
		}
		if isReserved(given) {
			r.addAs(reach, field.Forbidden(m.volume(i, "containerPath", "path"), "must not begin with /var/run/kubevirt or /var/run/libvirt"))
		}
	}
}

// isReserved reports whether a path lies where KubeVirt or libvirt keep their files.
func isReserved(at string) bool {
	return strings.HasPrefix(at, "/var/run/kubevirt") || strings.HasPrefix(at, "/var/run/libvirt")
}

const maxContainerPath = 4096

func containerPathAbsolute(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if volume.ContainerPath == nil {
			continue
		}
		if at := volume.ContainerPath.Path; !strings.HasPrefix(at, "/") || strings.Contains(at, "..") || len(at) > maxContainerPath {
			r.Add(field.Invalid(m.volume(i, "containerPath", "path"), at, "must begin with /, must not contain .., and must have at most 4096 characters"))
		}
	}
}

func containerPathReadOnly(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if v := volume.ContainerPath; v != nil && v.ReadOnly != nil && !*v.ReadOnly {
			r.Add(field.Invalid(m.volume(i, "containerPath", "readOnly"), false, "must be true; writing is not supported"))
		}
	}
}

func filesystemStorageEnabled(m *Machine, r *Report) {
	if m.Config.Enabled(GateVirtioFSStorage) {
		return
	}
	for i := range m.Spec.Domain.Devices.Filesystems {
		volume := m.Volume(m.Spec.Domain.Devices.Filesystems[i].Name)
		if volume != nil && (volume.PersistentVolumeClaim != nil || volume.DataVolume != nil) {
			r.Add(disabled(m.Device("filesystems").Index(i), GateVirtioFSStorage))
		}
	}
}

func filesystemVolumeExists(m *Machine, r *Report) {
	for i := range m.Spec.Domain.Devices.Filesystems {
		if name := m.Spec.Domain.Devices.Filesystems[i].Name; m.Volume(name) == nil {
			r.Add(m.noVolume(m.Device("filesystems").Index(i).Child("name"), name, r))
		}
	}
}

func quoted(text string) string { return strconv.Quote(shorten(text)) }

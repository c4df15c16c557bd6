package validation

import (
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// volumePathRules restrict file systems, and volumes that are paths on a host or in a pod.
var volumePathRules = []Rule{{
	ID:          "host-disk-enabled",
	Requirement: "A host disk is given only if feature gate HostDisk is enabled.",
	Gate:        GateHostDisk,
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if volume.HostDisk != nil {
			r.addDisabled(vm.volumePath(i, "hostDisk"))
		}
	}),
}, {
	ID:          "host-disk-path",
	Requirement: "A host disk has a path.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if volume.HostDisk != nil && volume.HostDisk.Path == "" {
			r.Add(field.Required(vm.volumePath(i, "hostDisk", "path"), "must be the path of the disk on the host"))
		}
	}),
}, {
	ID:          "host-disk-type",
	Leaf:        true,
	Requirement: "The type of a host disk is " + hostDiskTypes.String() + ".",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.HostDisk; v != nil {
			hostDiskTypes.check(r, string(v.Type), func() *field.Path { return vm.volumePath(i, "hostDisk", "type") })
		}
	}),
}, {
	ID:          "host-disk-capacity",
	Requirement: "Only a host disk of type DiskOrCreate has a capacity.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.HostDisk; v != nil && v.Type == kubevirtv1.HostDiskExists && !v.Capacity.IsZero() {
			r.Add(field.Invalid(vm.volumePath(i, "hostDisk", "capacity"), v.Capacity.String(),
				"must be left out: a disk of type Disk exists already; use DiskOrCreate to create it"))
		}
	}),
}, {
	ID:          "container-path-filesystem",
	Requirement: "A container path is used by a file system, not by a disk.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, volume := range pointers(volumesOf(vm)) {
			if volume.ContainerPath == nil {
				continue
			}
			// volume-has-device reports a volume that nothing uses.
			if vm.hasDisk(volume.Name) {
				r.Add(field.Invalid(vm.volumePath(i, "name"), volume.Name,
					"must be the name of a file system and of no disk: a container path is shared with virtiofs"))
			}
		}
	},
}, {
	ID:          "container-path-elsewhere",
	Requirement: "A container path is not in the folders of KubeVirt or libvirt.",
	Strictness:  EarlierThanKubeVirt,
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if volume.ContainerPath == nil {
			return
		}
		given, reach := volume.ContainerPath.Path, SameAsKubeVirt
		if !isReserved(given) {
			given, reach = path.Clean(given), StricterThanKubeVirt
		}
		if isReserved(given) {
			r.addStricter(reach, field.Forbidden(vm.volumePath(i, "containerPath", "path"),
				"must not begin with /var/run/kubevirt or /var/run/libvirt"))
		}
	}),
}, {
	ID:          "container-path-absolute",
	Requirement: "A container path is absolute, without .., and has at most 4096 characters.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if volume.ContainerPath == nil {
			return
		}
		if at := volume.ContainerPath.Path; !strings.HasPrefix(at, "/") || strings.Contains(at, "..") || len(at) > maxContainerPath {
			r.Add(field.Invalid(vm.volumePath(i, "containerPath", "path"), at,
				"must begin with /, must not contain .., and must have at most 4096 characters"))
		}
	}),
}, {
	ID:          "container-path-read-only",
	Requirement: "A container path is read-only.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.ContainerPath; v != nil && v.ReadOnly != nil && !*v.ReadOnly {
			r.Add(field.Invalid(vm.volumePath(i, "containerPath", "readOnly"), false, "must be true; writing is not supported"))
		}
	}),
}, {
	ID:          "filesystem-storage-enabled",
	Requirement: "A file system uses a claim or data volume only if feature gate EnableVirtioFsStorageVolumes is enabled.",
	Gate:        GateVirtioFSStorage,
	Check: func(vm *ExpandedVM, r *Report) {
		for i := range vm.Spec.Domain.Devices.Filesystems {
			volume := vm.Volume(vm.Spec.Domain.Devices.Filesystems[i].Name)
			if volume != nil && (volume.PersistentVolumeClaim != nil || volume.DataVolume != nil) {
				r.addDisabled(vm.Device("filesystems").Index(i))
			}
		}
	},
}, {
	ID:          "filesystem-volume-exists",
	Requirement: "A volume with the name of each file system exists.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i := range vm.Spec.Domain.Devices.Filesystems {
			if name := vm.Spec.Domain.Devices.Filesystems[i].Name; vm.Volume(name) == nil {
				r.Add(vm.volumeNotFound(vm.Device("filesystems").Index(i).Child("name"), name, r))
			}
		}
	},
}}

var hostDiskTypes = valueSet{"Disk", "DiskOrCreate"}

// isReserved reports whether a path is in the folders of KubeVirt or libvirt.
func isReserved(at string) bool {
	return strings.HasPrefix(at, "/var/run/kubevirt") || strings.HasPrefix(at, "/var/run/libvirt")
}

const maxContainerPath = 4096

func quoted(text string) string { return strconv.Quote(shorten(text)) }

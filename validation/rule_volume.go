package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var volumeRules = []Rule{{
	ID:          "volume-name-unique",
	Requirement: "No two volumes have the same name.",
	Check:       uniqueNames(volumesOf, func(volume *kubevirtv1.Volume) string { return volume.Name }, "volumes"),
}, {
	ID:          "volume-one-source",
	Requirement: "A volume has exactly one source.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		sources := volumeSources(&volume.VolumeSource)
		r.exactlyOne(func() *field.Path { return vm.volumePath(i) }, count(sources[:]...),
			"must have a source, such as persistentVolumeClaim, dataVolume or containerDisk", "must have only one source; leave out the others")
	}),
}, {
	ID:          "volume-source-named",
	Requirement: "A volume with the source dataVolume, configMap, secret or serviceAccount names that object.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.DataVolume; v != nil && v.Name == "" {
			r.Add(field.Required(vm.volumePath(i, "dataVolume", "name"), "must name the data volume"))
		}
		if v := volume.ConfigMap; v != nil && v.Name == "" {
			r.Add(field.Required(vm.volumePath(i, "configMap", "name"), "must name the config map"))
		}
		if v := volume.Secret; v != nil && v.SecretName == "" {
			r.Add(field.Required(vm.volumePath(i, "secret", "secretName"), "must name the secret"))
		}
		if v := volume.ServiceAccount; v != nil && v.ServiceAccountName == "" {
			r.Add(field.Required(vm.volumePath(i, "serviceAccount", "serviceAccountName"), "must name the service account"))
		}
	}),
}, {
	ID:          "claim-named",
	Requirement: "A volume with the source persistentVolumeClaim names the claim.",
	Strictness:  StricterThanKubeVirt,
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.PersistentVolumeClaim; v != nil && v.ClaimName == "" {
			r.Add(field.Required(vm.volumePath(i, "persistentVolumeClaim", "claimName"), "must name the claim"))
		}
	}),
}, {
	ID:          "claim-used-once",
	Requirement: "No two disks use the same claim or data volume.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores file systems, which may share a claim.
		volumes := vm.Spec.Volumes
		name := func(i int) string {
			if vm.hasFilesystem(volumes[i].Name) {
				return ""
			}
			claim, _ := claimOf(&volumes[i])
			return claim
		}
		for i, first := range repeated(len(volumes), name) {
			claim, at := claimOf(&volumes[i])
			r.Add(duplicate(vm.volumePath(i, at...), claim,
				"must differ from that of volume "+quoted(volumes[first].Name)+": two disks would overwrite each other"))
		}
	},
}, {
	ID:          "volume-has-device",
	Requirement: "Each volume except a memory dump is used by a disk or a file system.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.lacksDefaults() {
			return // KubeVirt adds missing disks when it creates the VMI
		}
		for i, volume := range pointers(volumesOf(vm)) {
			if volume.MemoryDump != nil {
				continue
			}
			if !vm.hasDisk(volume.Name) && !vm.hasFilesystem(volume.Name) {
				r.Add(field.Invalid(vm.volumePath(i, "name"), volume.Name, "must be the name of a disk or a file system too"))
			}
		}
	},
}, {
	ID:          "single-volumes",
	Requirement: "At most one volume each is a service account, downward metrics and a memory dump.",
	Check: func(vm *ExpandedVM, r *Report) {
		seen := map[string]bool{}
		for i, volume := range pointers(volumesOf(vm)) {
			for _, source := range []struct {
				field, description string
				isSet              bool
			}{
				{"serviceAccount", "service account", volume.ServiceAccount != nil},
				{"downwardMetrics", "volume of downward metrics", volume.DownwardMetrics != nil},
				{"memoryDump", "memory dump", volume.MemoryDump != nil},
			} {
				if source.isSet && seen[source.field] {
					r.Add(field.Forbidden(vm.volumePath(i, source.field), "must be the only "+source.description+"; leave this one out"))
				}
				seen[source.field] = seen[source.field] || source.isSet
			}
		}
	},
}, {
	ID:          "downward-metrics-enabled",
	Requirement: "Downward metrics are given only if feature gate DownwardMetrics is enabled.",
	Gate:        GateDownwardMetrics,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, volume := range pointers(volumesOf(vm)) {
			if volume.DownwardMetrics != nil {
				r.addDisabled(vm.volumePath(i, "downwardMetrics"))
			}
		}
		if vm.Spec.Domain.Devices.DownwardMetrics != nil {
			r.addDisabled(vm.Device("downwardMetrics"))
		}
	},
}, {
	ID:          "container-disk-path",
	Leaf:        true,
	Requirement: "The path of a container disk is absolute and clean.",
	Check: forEach(volumesOf, func(vm *ExpandedVM, r *Report, i int, volume *kubevirtv1.Volume) {
		if v := volume.ContainerDisk; v != nil && v.Path != "" && !isCleanPath(v.Path) {
			r.addStricter(pathStrictness(v.Path), field.Invalid(vm.volumePath(i, "containerDisk", "path"), v.Path, cleanPathDetail))
		}
	}),
}, {
	ID:          "utility-volumes-later",
	Requirement: "Utility volumes are hotplugged into a running VMI, not given on create.",
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec.UtilityVolumes != nil && (vm.VM != nil || vm.Old == nil) {
			r.Add(field.Forbidden(vm.Path("spec", "utilityVolumes"), "must be left out: they are hotplugged into a running VMI"))
		}
	},
}}

func volumesOf(vm *ExpandedVM) []kubevirtv1.Volume { return vm.Spec.Volumes }

func (vm *ExpandedVM) volumePath(i int, more ...string) *field.Path {
	return childPath(vm.Path("spec", "volumes").Index(i), more)
}

// volumeSources reports for each source whether it is set. A test compares it with KubeVirt's type.
func volumeSources(v *kubevirtv1.VolumeSource) [16]bool {
	return [...]bool{
		v.HostDisk != nil, v.PersistentVolumeClaim != nil, v.CloudInitNoCloud != nil, v.CloudInitConfigDrive != nil,
		v.Sysprep != nil, v.ContainerDisk != nil, v.Ephemeral != nil, v.EmptyDisk != nil,
		v.DataVolume != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil,
		v.ServiceAccount != nil, v.DownwardMetrics != nil, v.MemoryDump != nil, v.ContainerPath != nil,
	}
}

func count(facts ...bool) int {
	n := 0
	for _, fact := range facts {
		if fact {
			n++
		}
	}
	return n
}

// claimOf returns the claim of a volume, and the field that names it. The claim of a data volume
// has the same name.
func claimOf(volume *kubevirtv1.Volume) (claim string, at []string) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName, []string{"persistentVolumeClaim", "claimName"}
	case volume.DataVolume != nil:
		return volume.DataVolume.Name, []string{"dataVolume", "name"}
	}
	return "", nil
}

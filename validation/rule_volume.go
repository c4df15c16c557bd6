package validation

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var volumeRules = []Rule{{
	ID:    "volume-name-unique",
	Says:  "No two volumes have the same name.",
	Check: volumeNameUnique,
}, {
	ID:    "volume-one-source",
	Says:  "A volume has exactly one source.",
	Check: volumeOneSource,
}, {
	ID:    "volume-source-named",
	Says:  "A volume of a data volume, config map, secret or service account names it.",
	Check: volumeSourceNamed,
}, {
	ID:    "claim-named",
	Says:  "A volume of a claim names the claim.",
	Reach: BeyondKubeVirt,
	Check: claimNamed,
}, {
	ID:    "claim-used-once",
	Says:  "No two disks are of the same claim or data volume.",
	Reach: BeyondKubeVirt,
	Check: claimUsedOnce,
}, {
	ID:    "volume-has-device",
	Says:  "A disk or a file system uses each volume, unless it is a memory dump.",
	Reach: EarlierThanKubeVirt,
	Check: volumeHasDevice,
}, {
	ID:    "single-volumes",
	Says:  "At most one volume each is a service account, downward metrics and a memory dump.",
	Check: singleVolumes,
}, {
	ID:      "downward-metrics-enabled",
	Says:    "Downward metrics are given only where DownwardMetrics is enabled.",
	Cluster: true,
	Check:   downwardMetricsEnabled,
}, {
	ID:    "container-disk-path",
	Leaf:  true,
	Says:  "The path of a container disk is absolute and clean.",
	Check: containerDiskPath,
}, {
	ID:    "utility-volumes-later",
	Says:  "Utility volumes are plugged into a running instance, not given at its creation.",
	Check: utilityVolumesLater,
}}

// eachVolume yields the volumes with their positions, without copying them.
func (m *Machine) eachVolume() iter.Seq2[int, *kubevirtv1.Volume] { return pointers(m.Spec.Volumes) }

// volume is the path of a part of a volume.
func (m *Machine) volume(i int, more ...string) *field.Path {
	return under(m.Path("spec", "volumes").Index(i), more)
}

func volumeNameUnique(m *Machine, r *Report) {
	volumes := m.Spec.Volumes
	for i, first := range repeated(len(volumes), func(i int) string { return volumes[i].Name }) {
		r.Add(duplicate(m.volume(i, "name"), volumes[i].Name, "volumes", first))
	}
}

// volumeSources says of each source whether the volume has it. A test compares
// it with KubeVirt's type.
func volumeSources(v *kubevirtv1.VolumeSource) [16]bool {
	return [...]bool{
		v.HostDisk != nil, v.PersistentVolumeClaim != nil, v.CloudInitNoCloud != nil, v.CloudInitConfigDrive != nil,
		v.Sysprep != nil, v.ContainerDisk != nil, v.Ephemeral != nil, v.EmptyDisk != nil,
		v.DataVolume != nil, v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil,
		v.ServiceAccount != nil, v.DownwardMetrics != nil, v.MemoryDump != nil, v.ContainerPath != nil,
	}
}

// count is how many of the facts hold.
func count(facts ...bool) int {
	n := 0
	for _, fact := range facts {
		if fact {
			n++
		}
	}
	return n
}

func volumeOneSource(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		sources := volumeSources(&volume.VolumeSource)
		switch n := count(sources[:]...); {
		case n == 0:
			r.Add(field.Required(m.volume(i), "must have a source, such as persistentVolumeClaim, dataVolume or containerDisk"))
		case n > 1:
			r.Add(field.Forbidden(m.volume(i), "must have only one source; leave out the others"))
		}
	}
}

func volumeSourceNamed(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if v := volume.DataVolume; v != nil && v.Name == "" {
			r.Add(field.Required(m.volume(i, "dataVolume", "name"), "must name the data volume"))
		}
		if v := volume.ConfigMap; v != nil && v.Name == "" {
			r.Add(field.Required(m.volume(i, "configMap", "name"), "must name the config map"))
		}
		if v := volume.Secret; v != nil && v.SecretName == "" {
			r.Add(field.Required(m.volume(i, "secret", "secretName"), "must name the secret"))
		}
		if v := volume.ServiceAccount; v != nil && v.ServiceAccountName == "" {
			r.Add(field.Required(m.volume(i, "serviceAccount", "serviceAccountName"), "must name the service account"))
		}
	}
}

func claimNamed(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if v := volume.PersistentVolumeClaim; v != nil && v.ClaimName == "" {
			r.Add(field.Required(m.volume(i, "persistentVolumeClaim", "claimName"), "must name the claim"))
		}
	}
}

// claimOf is the claim that a volume writes to, and where it says so. A data
// volume fills the claim of its name.
func claimOf(volume *kubevirtv1.Volume) (claim string, at []string) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName, []string{"persistentVolumeClaim", "claimName"}
	case volume.DataVolume != nil:
		return volume.DataVolume.Name, []string{"dataVolume", "name"}
	}
	return "", nil
}

// claimUsedOnce looks at disks only: several file systems may share a claim.
func claimUsedOnce(m *Machine, r *Report) {
	volumes := m.Spec.Volumes
	name := func(i int) string {
		if m.Filesystem(volumes[i].Name) {
			return ""
		}
		claim, _ := claimOf(&volumes[i])
		return claim
	}
	for i, first := range repeated(len(volumes), name) {
		claim, at := claimOf(&volumes[i])
		err := field.Duplicate(m.volume(i, at...), claim)
		err.Detail = "must differ from that of volume " + quoted(volumes[first].Name) + ": two disks would overwrite each other"
		r.Add(err)
	}
}

func volumeHasDevice(m *Machine, r *Report) {
	if m.Sparse() {
		return // KubeVirt adds what is missing when the instance is made
	}
	var used map[string]bool
	for i, volume := range m.eachVolume() {
		if volume.MemoryDump != nil {
			continue
		}
		if used == nil {
			used = m.deviceNames()
		}
		if !used[volume.Name] {
			r.Add(field.Invalid(m.volume(i, "name"), volume.Name, "must be the name of a disk or a file system too"))
		}
	}
}

// deviceNames are the names of all disks and file systems.
func (m *Machine) deviceNames() map[string]bool {
	devices := &m.Spec.Domain.Devices
	names := make(map[string]bool, len(devices.Disks)+len(devices.Filesystems))
	for i := range devices.Disks {
		names[devices.Disks[i].Name] = true
	}
	for i := range devices.Filesystems {
		names[devices.Filesystems[i].Name] = true
	}
	return names
}

func singleVolumes(m *Machine, r *Report) {
	var accounts, metrics, dumps int
	again := func(seen *int, i int, source, what string) {
		if *seen++; *seen > 1 {
			r.Add(field.Forbidden(m.volume(i, source), "must be the only "+what+" of the machine; leave this one out"))
		}
	}
	for i, volume := range m.eachVolume() {
		if volume.ServiceAccount != nil {
			again(&accounts, i, "serviceAccount", "service account")
		}
		if volume.DownwardMetrics != nil {
			again(&metrics, i, "downwardMetrics", "volume of downward metrics")
		}
		if volume.MemoryDump != nil {
			again(&dumps, i, "memoryDump", "memory dump")
		}
	}
}

func downwardMetricsEnabled(m *Machine, r *Report) {
	if m.Config.Enabled(GateDownwardMetrics) {
		return
	}
	for i, volume := range m.eachVolume() {
		if volume.DownwardMetrics != nil {
			r.Add(disabled(m.volume(i, "downwardMetrics"), GateDownwardMetrics))
		}
	}
	if m.Spec.Domain.Devices.DownwardMetrics != nil {
		r.Add(disabled(m.Device("downwardMetrics"), GateDownwardMetrics))
	}
}

func containerDiskPath(m *Machine, r *Report) {
	for i, volume := range m.eachVolume() {
		if v := volume.ContainerDisk; v != nil && v.Path != "" && !isCleanPath(v.Path) {
			r.addAs(reachOfPath(v.Path), field.Invalid(m.volume(i, "containerDisk", "path"), v.Path, cleanPathDetail))
		}
	}
}

func utilityVolumesLater(m *Machine, r *Report) {
	if m.Spec.UtilityVolumes != nil && (m.VM != nil || m.Old == nil) {
		r.Add(field.Forbidden(m.Path("spec", "utilityVolumes"), "must be left out: they are plugged into a running instance"))
	}
}

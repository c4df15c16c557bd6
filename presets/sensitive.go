package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// sensitiveFields reach beyond the VM: into its node, into secrets, into its
// guest. Who may write presets may not bring them into other people's VMs by
// that alone.
var sensitiveFields = slices.Concat(paths(
	"volumes[*].hostDisk",
	"volumes[*].cloudInitNoCloud", "volumes[*].cloudInitConfigDrive", "volumes[*].sysprep",
	"volumes[*].configMap.volumeLabel", "volumes[*].downwardAPI.volumeLabel", // by which guests know cloud-init's data too
	"volumes[*].secret", "volumes[*].serviceAccount", "volumes[*].containerPath", "volumes[*].downwardMetrics",
	"volumes[*].containerDisk.imagePullSecret",
	"domain.devices.hostDevices", "domain.devices.gpus", "resourceClaims", "domain.devices.downwardMetrics",
	"domain.firmware.kernelBoot", "domain.firmware.acpi",
	"accessCredentials", "serviceAccountName",
	"livenessProbe.exec", "readinessProbe.exec", // which run in the guest
), []provenance.Path{
	provenance.Of("spec", "instancetype"), // which may bring devices of the host
	provenance.Of("spec", "template", "metadata", "annotations", "kubevirt.io/ignitiondata"),
	provenance.Of("metadata", "annotations", "kubevirt.io/ignitiondata"),
}, diskSecrets("http", "s3", "gcs", "registry", "imageio", "vddk"))

// diskSecrets are the secrets with which disks are filled, by source.
func diskSecrets(sources ...string) []provenance.Path {
	disk := provenance.Of("spec", "dataVolumeTemplates").With(provenance.Segment{Kind: provenance.Every})
	var out []provenance.Path
	for _, source := range sources {
		for _, name := range []string{"secretRef", "secretExtraHeaders"} {
			out = append(out, slices.Concat(disk, provenance.Of("spec", "source", source, name)))
		}
	}
	return out
}

// Sensitive lists the paths of what the preset sets that reaches beyond the VM: host
// disks and devices, GPUs among them, and instancetypes, which may have some;
// cloud-init, under a volume label too; credentials, secrets, service accounts,
// kernels, commands in the guest, and the host's metrics. Writing such a preset takes the verb escalate.
func (c *Compiled) Sensitive() []string {
	var found []string
	for _, root := range []*part{c.defaults, c.overrides} {
		root.leaves(nil, func(p provenance.Path, leaf *part) {
			if slices.ContainsFunc(sensitiveFields, func(s provenance.Path) bool { return overlaps(p, s) }) && !slices.Contains(found, leaf.path) {
				found = append(found, leaf.path)
			}
		})
	}
	return found
}

// overlaps reports whether p lies at or beneath pattern, or a value at p could
// hold something there.
func overlaps(p, pattern provenance.Path) bool {
	for i := range min(len(p), len(pattern)) {
		if pattern[i].Kind == provenance.Every && p[i].Kind == provenance.Element {
			continue
		}
		if p[i] != pattern[i] {
			return false
		}
	}
	return len(p) >= len(pattern)
}

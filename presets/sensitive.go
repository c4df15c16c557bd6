package presets

import (
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
)

// sensitiveFields reach beyond the VM: into its node, into secrets, into its
// guest. The right to write presets does not suffice to set them in other
// people's VMs. docs/protection.md gives the reason for each.
var sensitiveFields = slices.Concat(paths(
	"volumes[*].hostDisk",
	"volumes[*].cloudInitNoCloud", "volumes[*].cloudInitConfigDrive", "volumes[*].sysprep",
	"volumes[*].configMap.volumeLabel", "volumes[*].downwardAPI.volumeLabel",
	"volumes[*].secret", "volumes[*].serviceAccount", "volumes[*].containerPath", "volumes[*].downwardMetrics",
	"volumes[*].containerDisk.imagePullSecret",
	"domain.devices.hostDevices", "domain.devices.gpus", "resourceClaims", "domain.devices.downwardMetrics",
	"domain.devices.interfaces[*].sriov", "domain.devices.disks[*].lun.reservation",
	"domain.firmware.kernelBoot", "domain.firmware.acpi",
	"accessCredentials", "serviceAccountName", "priorityClassName",
	"livenessProbe.exec", "readinessProbe.exec",
	"livenessProbe.httpGet.host", "readinessProbe.httpGet.host", "livenessProbe.tcpSocket.host", "readinessProbe.tcpSocket.host",
), networkNames, []provenance.Path{
	provenance.Of("spec", "instancetype"),
	provenance.Of("spec", "template", "metadata", "annotations", "kubevirt.io/ignitiondata"),
	provenance.Of("metadata", "annotations", "kubevirt.io/ignitiondata"),
	podAnnotation("k8s.v1.cni.cncf.io/*"), podAnnotation("v1.multus-cni.io/*"), podAnnotation("container.apparmor.security.beta.kubernetes.io/*"),
	sourceSecret("secretRef"), sourceSecret("secretExtraHeaders"),
})

// networkNames are sensitive only if they name another namespace.
var networkNames = paths("networks[*].multus.networkName")

// podAnnotation is an annotation that the pod of a VM gets too. A key that ends
// in /* stands for all that begin like it.
func podAnnotation(key string) provenance.Path {
	return provenance.Of("spec", "template", "metadata", "annotations", key)
}

// sourceSecret is a secret with which a disk is filled, from any source.
func sourceSecret(name string) provenance.Path {
	every := provenance.Segment{Name: "*", Kind: provenance.Every}
	return append(provenance.Of("spec", "dataVolumeTemplates").With(every), append(provenance.Of("spec", "source").With(every), provenance.Of(name)...)...)
}

// secretFields are parts of paths beneath which a VM may hold a password or a key.
var secretFields = []string{"cloudInit", "serData", "sysprep", "accessCredentials", "ignitiondata", "kernelArgs", "last-applied-configuration"}

// HoldsSecret reports whether the value of a field may be secret, so that no output shows it. The
// path is one of a VM, a VMI or a preset.
func HoldsSecret(path string) bool {
	return slices.ContainsFunc(secretFields, func(part string) bool { return strings.Contains(path, part) })
}

// Sensitive lists the paths of the fields that the preset sets and that reach beyond the
// VM. Writing such a preset requires the verb escalate.
func (c *Compiled) Sensitive() []string {
	var found []string
	for _, root := range []*fieldNode{c.defaults, c.overrides} {
		root.leaves(nil, func(p provenance.Path, leaf *fieldNode) {
			covers := func(s provenance.Path) bool { return overlaps(p, s) }
			harmless := slices.ContainsFunc(networkNames, covers) && leaf.computed == nil && !c.foreignNetwork(leaf.value)
			if slices.ContainsFunc(sensitiveFields, covers) && !harmless && !slices.Contains(found, leaf.path) {
				found = append(found, leaf.path)
			}
		})
	}
	return found
}

// foreignNetwork reports whether the name of a network contains a namespace other
// than the preset's. A cluster preset has none, so for it every namespace is foreign.
func (c *Compiled) foreignNetwork(name any) bool {
	text, _ := name.(string)
	namespace, _, qualified := strings.Cut(text, "/")
	return qualified && (c.Cluster() || namespace != c.Namespace)
}

// overlaps reports whether p lies at or beneath pattern.
func overlaps(p, pattern provenance.Path) bool {
	for i := range min(len(p), len(pattern)) {
		if pattern[i].Kind == provenance.Every {
			continue
		}
		prefix, every := strings.CutSuffix(pattern[i].Name, "/*")
		if p[i] != pattern[i] && !(every && strings.HasPrefix(p[i].Name, prefix+"/")) {
			return false
		}
	}
	return len(p) >= len(pattern)
}

package presets

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// sensitiveFields affect more than the VM: its node, secrets, its guest. Permission to write
// presets does not suffice to set them in the VMs of others. docs/protection.md gives the reason
// for each. A label or annotation with * is a pattern as in [path.Match]; at its end, * includes
// slashes.
var sensitiveFields = slices.Concat(paths(
	"volumes[*].hostDisk",
	"volumes[*].cloudInitNoCloud", "volumes[*].cloudInitConfigDrive", "volumes[*].sysprep",
	"volumes[*].configMap.volumeLabel", "volumes[*].downwardAPI.volumeLabel",
	"volumes[*].secret", "volumes[*].serviceAccount", "volumes[*].containerPath", "volumes[*].downwardMetrics",
	"volumes[*].containerDisk.imagePullSecret",
	"domain.devices.hostDevices", "domain.devices.gpus", "resourceClaims", "domain.devices.downwardMetrics", "domain.devices.autoattachVSOCK",
	"domain.devices.interfaces[*].sriov", "domain.devices.disks[*].lun.reservation",
	"domain.firmware.kernelBoot", "domain.firmware.acpi", "domain.firmware.serial",
	"accessCredentials", "serviceAccountName", "priorityClassName",
	"livenessProbe.exec", "readinessProbe.exec",
	"livenessProbe.httpGet.host", "readinessProbe.httpGet.host", "livenessProbe.tcpSocket.host", "readinessProbe.tcpSocket.host",
), networkNames, []provenance.Path{
	provenance.Of("spec", "instancetype"), provenance.Of("spec", "preference", "kind"), provenance.Of("spec", "preference", "inferFromVolume"),
	provenance.Of("spec", "preference", "revisionName"), dataVolume("spec", "source", "vddk", "initImageURL"),
	dataVolume("spec", "priorityClassName"), dataVolume("spec", "source", "pvc", "namespace"), dataVolume("spec", "source", "snapshot", "namespace"),
	dataVolume("metadata", "annotations", "k8s.v1.cni.cncf.io/*"), dataVolume("metadata", "annotations", "v1.multus-cni.io/*"),
	dataVolume("metadata", "annotations", "cdi.kubevirt.io/storage.*"),
	resources("requests"), resources("limits"),
	vmschema.TemplateLabels.Field("azure.workload.identity/*"),
	vmAnnotations.Field("kubevirt.io/ignitiondata"), vmschema.TemplateAnnotations.Field("kubevirt.io/ignitiondata"),
	sourceSecret("secretRef"), sourceSecret("secretExtraHeaders"),
}, podAnnotations())

// podAnnotations act on the networks, the confinement, the containers or the credentials of the
// pod.
func podAnnotations() (out []provenance.Path) {
	for _, prefix := range []string{
		"k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "cni.projectcalico.org/", "k8s.ovn.org/", "ovn.kubernetes.io/", "policy.cilium.io/", "io.cilium",
		"*.ovn.kubernetes.io/", "*.kubernetes.io/logical_switch", "*.kubernetes.io/ip_address", "*.kubernetes.io/mac_address", "*.kubernetes.io/ip_pool",
		"ipam.cilium.io/", "ipam.antrea.io/",
		"container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/",
		"io.kubernetes.cri-o.", "io.katacontainers.", "openshift.io/required-scc",
		"pre.hook.backup.velero.io/", "post.hook.backup.velero.io/", "vault.hashicorp.com/", "vault.security.banzaicloud.io/", "iam.amazonaws.com/",
		"azure.workload.identity/", "sidecar.istio.io/proxyImage", "sidecar.istio.io/userVolume", "sidecar.istio.io/bootstrapOverride", "inject.istio.io/", "proxy.istio.io/",
		"config.linkerd.io/", "dapr.io/", "consul.hashicorp.com/", "sidecar.opentelemetry.io/", "instrumentation.opentelemetry.io/",
		"kuma.io/container-patches", "admission.datadoghq.com/",
	} {
		out = append(out, vmschema.TemplateAnnotations.Field(prefix+"*"))
	}
	return out
}

var networkNames = paths("networks[*].multus.networkName")

// A harmlessValue of a sensitive field affects the VM only.
type harmlessValue struct {
	path provenance.Path
	is   func(c *Compiled, value string) bool
}

// harmless says which values of sensitive fields do not require escalate.
var harmless = []harmlessValue{
	{networkNames[0], func(c *Compiled, name string) bool { return !c.foreignNetwork(name) }},
	// cloud-init reads the address of its data from a serial such as ds=nocloud;s=http://example.com/.
	{paths("domain.firmware.serial")[0], func(_ *Compiled, serial string) bool { return !strings.Contains(serial, "ds=") }},
	{provenance.Of("spec", "preference", "kind"), func(_ *Compiled, kind string) bool {
		return strings.Contains(matcherKinds["preference"][strings.ToLower(kind)], "Cluster")
	}},
	{paths("domain.devices.autoattachVSOCK")[0], func(_ *Compiled, value string) bool { return value == "false" }},
	{dataVolume("metadata", "annotations", "cdi.kubevirt.io/storage.bind.immediate.requested"), always},
	{dataVolume("metadata", "annotations", "cdi.kubevirt.io/storage.deleteAfterCompletion"), always},
	{dataVolume("spec", "source", "pvc", "namespace"), (*Compiled).hasNamespace},
	{dataVolume("spec", "source", "snapshot", "namespace"), (*Compiled).hasNamespace},
}

func always(*Compiled, string) bool { return true }

// hasNamespace reports whether the preset acts on VMs of the namespace.
func (c *Compiled) hasNamespace(name string) bool { return c.Cluster() || c.Namespace == name }

// resources are the devices of the node among resources. Their names have a slash.
func resources(name string) provenance.Path { return paths("domain.resources." + name)[0].Field("*/*") }

// dataVolume is a field of every template of a DataVolume.
func dataVolume(names ...string) provenance.Path {
	return slices.Concat(vmschema.DataVolumeTemplates.With(provenance.Segment{Name: "*", Kind: provenance.AnyElement}), provenance.Of(names...))
}

// sourceSecret is a secret that fills a disk, from any source.
func sourceSecret(name string) provenance.Path {
	return dataVolume("spec", "source").With(provenance.Segment{Name: "*", Kind: provenance.AnyElement}).Field(name)
}

// secretFields are parts of paths, in lower case.
var secretFields = []string{
	"cloudinit", "userdata", "sysprep", "accesscredentials", "ignitiondata", "kernelargs", "last-applied-configuration",
	"httpheaders", "extraheaders", "exec.command", "password", "passwd", "token",
	"passphrase", "pwd", "credential", "apikey", "api-key", "api_key", "privatekey", "private-key", "private_key",
}

// MayHoldSecret reports whether no output may show the field at a path of a VM, a VMI or a preset.
func MayHoldSecret(path string) bool {
	path = strings.ToLower(path)
	return slices.ContainsFunc(secretFields, func(part string) bool { return strings.Contains(path, part) })
}

// Sensitive lists the paths of the sensitive fields that the preset sets. Writing such a preset
// requires the verb escalate.
func (c *Compiled) Sensitive() []string {
	var found []string
	c.leaves(func(_ string, leaf *fieldNode) {
		covers := func(s provenance.Path) bool { return overlaps(leaf.path, s) }
		isHarmless := leaf.computed == nil && slices.ContainsFunc(harmless, func(h harmlessValue) bool {
			return covers(h.path) && h.is(c, fmt.Sprint(leaf.value))
		})
		if slices.ContainsFunc(sensitiveFields, covers) && !isHarmless && !slices.Contains(found, leaf.text) {
			found = append(found, leaf.text)
		}
	})
	return found
}

// foreignNetwork reports whether the name of a network contains another namespace than the
// preset's. For a cluster preset, every namespace is another one.
func (c *Compiled) foreignNetwork(name string) bool {
	namespace, _, qualified := strings.Cut(name, "/")
	return qualified && (c.Cluster() || namespace != c.Namespace)
}

func overlaps(p, pattern provenance.Path) bool {
	for i := range min(len(p), len(pattern)) {
		if pattern[i].Kind == provenance.AnyElement || p[i] == pattern[i] {
			continue
		}
		prefix, every := strings.CutSuffix(pattern[i].Name, "*")
		if matches, _ := path.Match(pattern[i].Name, p[i].Name); !matches && !(every && strings.HasPrefix(p[i].Name, prefix)) {
			return false
		}
	}
	return len(p) >= len(pattern)
}

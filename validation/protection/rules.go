package protection

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A rule defines a part of an object that only trusted writers may change.
type rule struct {
	// ID names the rule in messages.
	ID string
	// Kinds it holds for.
	Kinds []presets.Kind
	// Create forbids other writers to set the part on create, too.
	Create bool
	// NotAddon disables Create alongside KubeVirt, because its webhooks set the part.
	NotAddon bool
	// NotControllers exempts the controllers of VMs.
	NotControllers bool
	// BeforePod limits the rule to VMIs that get their pod later.
	BeforePod bool
	// Part must not change.
	Part part
	// Reason explains the rule, and what to do instead.
	Reason string
}

// A part is a part of an object. Absent is the same as empty.
type part struct {
	// Path lists the fields that lead to it.
	Path []string
	// Prefixes select the strings of a list, or the keys of a map, that begin with one of them.
	Prefixes []string
	// Except lists keys that Prefixes do not select.
	Except []string
	// Keys selects these keys of a map.
	Keys []string
}

var (
	both = []presets.Kind{presets.VirtualMachine, presets.VirtualMachineInstance}
	vms  = []presets.Kind{presets.VirtualMachine}
	vmis = []presets.Kind{presets.VirtualMachineInstance}
)

// podKeys begin the labels and annotations of a pod that change its networks, confinement,
// containers, credentials or placement. KubeVirt also gives them to the pod of a live migration.
var podKeys = []string{
	"k8s.v1.cni.cncf.io/", "v1.multus-cni.io/", "cni.projectcalico.org/", "k8s.ovn.org/", "ovn.kubernetes.io/", "policy.cilium.io/", "io.cilium",
	"kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth", "vpc.amazonaws.com/", "networking.gke.io/",
	"container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/",
	"container.seccomp.security.alpha.kubernetes.io/", "io.kubernetes.cri-o.", "io.katacontainers.",
	"openshift.io/required-scc", "pre.hook.backup.velero.io/", "post.hook.backup.velero.io/", "iam.amazonaws.com/", "hooks.kubevirt.io/", "kubevirt.io/ignitiondata",
	"istio.io/", "sidecar.istio.io/", "traffic.sidecar.istio.io/", "inject.istio.io/", "proxy.istio.io/", "ambient.istio.io/",
	"linkerd.io/", "config.linkerd.io/", "kuma.io/", "consul.hashicorp.com/", "openservicemesh.io/", "appmesh.k8s.aws/", "dapr.io/",
	"vault.hashicorp.com/", "azure.workload.identity/", "sidecar.opentelemetry.io/", "instrumentation.opentelemetry.io/",
	"cluster-autoscaler.kubernetes.io/", "karpenter.sh/", "descheduler.alpha.kubernetes.io/", "scheduler.alpha.kubernetes.io/",
	"controller.kubernetes.io/pod-deletion-cost",
}

// phasesWithPod are the phases of a VMI that has, or had, its pod.
var phasesWithPod = []string{
	string(kubevirtv1.Scheduling), string(kubevirtv1.Scheduled), string(kubevirtv1.Running), string(kubevirtv1.Succeeded), string(kubevirtv1.Failed),
}

var (
	phasePart    = part{Path: []string{"status", "phase"}}
	deletionPart = part{Path: []string{"metadata", "deletionTimestamp"}}
)

func metadata(name string) part { return part{Path: []string{"metadata", name}} }

// reservedKeys selects annotations below path that users may not write. The provenance record and
// the record of a template's requester have their own rules. The stamp of a rollout is checked when
// it changes, and a manifest without it may replace the object.
func reservedKeys(path ...string) part {
	return part{
		Path: append(path, "annotations"), Prefixes: []string{v1alpha1.AnnotationPrefix},
		Except: append(v1alpha1.UserAnnotations(), v1alpha1.AnnotationProvenance, v1alpha1.AnnotationTemplateRequester, v1alpha1.AnnotationRolledOut),
	}
}

// VMGeneration is the annotation with which KubeVirt's controller marks VMIs of VMs. It stays when
// a VMI is orphaned, and other users may not write it.
const VMGeneration = kubevirtv1.VirtualMachineGenerationAnnotation

func keys(field string, names ...string) part {
	return part{Path: []string{"metadata", field}, Keys: names}
}

// Reasons of the rules for what a pod takes from its VMI.
const (
	untilPod = "the pod gets labels and annotations of its VirtualMachineInstance, which stay as admitted until the pod exists; " +
		"change the VirtualMachine and restart it, or wait for the pod"
	onPods = "labels and annotations that act on pods stay as admitted; change the VirtualMachine and restart it"
)

// rules lists the rules, in the order of evaluation.
var rules = []rule{{
	ID: "owner-references", Kinds: both, Create: true, NotControllers: true, Part: metadata("ownerReferences"),
	Reason: "controllers write owner references, which garbage collection and lifecycle depend on",
}, {
	ID: "reserved-finalizers", Kinds: both, Create: true,
	Part:   part{Path: []string{"metadata", "finalizers"}, Prefixes: []string{v1alpha1.AnnotationPrefix}},
	Reason: "virtwright adds and removes its finalizers itself, after cleanup",
}, {
	ID: "reserved-template-finalizers", Kinds: vms, Create: true,
	Part:   part{Path: []string{"spec", "template", "metadata", "finalizers"}, Prefixes: []string{v1alpha1.AnnotationPrefix}},
	Reason: "virtwright adds and removes its finalizers itself, on VirtualMachineInstances too",
}, {
	ID: "reserved-annotations", Kinds: both, Create: true, Part: reservedKeys("metadata"),
	Reason: "virtwright writes annotations that begin with " + v1alpha1.AnnotationPrefix + " itself, except presets, exclude, reapply, rollout and generate-template",
}, {
	ID: "reserved-template-annotations", Kinds: vms, Create: true, Part: reservedKeys("spec", "template", "metadata"),
	Reason: "virtwright writes annotations that begin with " + v1alpha1.AnnotationPrefix + " itself, on VirtualMachineInstances too",
}, {
	ID: "reserved-generation", Kinds: vmis, Create: true, Part: keys("annotations", VMGeneration),
	Reason: "KubeVirt's controller writes " + VMGeneration + ", which marks VirtualMachineInstances of VMs",
}, {
	ID: "instance-provenance", Kinds: vmis, Part: keys("annotations", v1alpha1.AnnotationProvenance),
	Reason: "virtwright writes the record of where fields came from",
}, {
	ID: "reserved-labels", Kinds: vmis, Create: true, Part: keys("labels", presets.ReservedLabels...),
	Reason: "KubeVirt's controllers write these labels: kubevirt.io/created-by, migrationJobUID, nodeName, migrationTargetNodeName, schedulable, install-strategy",
}, {
	ID: "reserved-template-labels", Kinds: vms, Create: true,
	Part:   part{Path: []string{"spec", "template", "metadata", "labels"}, Keys: presets.ReservedLabels},
	Reason: "KubeVirt's controllers write these labels: kubevirt.io/created-by, migrationJobUID, nodeName, migrationTargetNodeName, schedulable, install-strategy",
}, {
	ID: "instance-spec", Kinds: vmis, Part: part{Path: []string{"spec"}},
	Reason: "the spec of a VirtualMachineInstance is immutable; change its VirtualMachine and restart it, or recreate the VirtualMachineInstance",
}, {
	ID: "instance-labels", Kinds: vmis, BeforePod: true, Part: metadata("labels"),
	Reason: untilPod,
}, {
	ID: "instance-annotations", Kinds: vmis, BeforePod: true,
	Part:   part{Path: []string{"metadata", "annotations"}, Prefixes: []string{""}, Except: []string{corev1.LastAppliedConfigAnnotation}},
	Reason: untilPod,
}, {
	ID: "pod-labels", Kinds: vmis, Part: part{Path: []string{"metadata", "labels"}, Prefixes: podKeys},
	Reason: onPods,
}, {
	ID: "pod-annotations", Kinds: vmis, Part: part{Path: []string{"metadata", "annotations"}, Prefixes: podKeys},
	Reason: onPods,
}, {
	ID: "instance-status", Kinds: vmis, Create: true, NotAddon: true, Part: part{Path: []string{"status"}},
	Reason: "controllers write status",
}}

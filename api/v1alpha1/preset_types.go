package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PresetSpec says which VMs a preset acts on, when, how strictly, and what it
// gives, sets, removes or refuses.
//
// Strongest first: overrides and remove of cluster presets, overrides and
// remove of namespaced presets, what the VM's author wrote, defaults of
// presets, platform defaults. Every matching forbid is checked on the result.
type PresetSpec struct {
	// priority orders presets that set the same field: the higher one wins. On
	// equal priority a namespaced default wins over a cluster one, then the name
	// decides, which is reported as a conflict. Give presets that are meant to
	// beat each other different priorities: 0 for a baseline, 100 for an operating
	// system, 1000 for a tier.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// match says which VMs this preset acts on. All parts that are given must
	// hold; an empty match is every VM in scope (the namespace of a
	// VirtualMachinePreset, the cluster for a ClusterVirtualMachinePreset). For
	// example:
	//
	//   match:
	//     labels: {matchLabels: {os: windows}}
	//     namespaces: {matchLabels: {tier: prod}}
	//
	// +optional
	Match PresetMatch `json:"match,omitempty"`

	// applyAt says at which moment the preset acts. Definition: when the
	// VirtualMachine is created; what it gives is visible on the VM and stays
	// until somebody asks for more. Launch: when the VirtualMachineInstance is
	// created, so that each start takes the preset as it is then; the VM stays as
	// it was written. Choose Launch for what belongs to the place and not to the
	// machine, such as nodeSelector or tolerations.
	//
	// +optional
	// +kubebuilder:default=Definition
	ApplyAt ApplyAt `json:"applyAt,omitempty"`

	// mode says how strictly the preset acts. Enforce: it acts. Warn: it changes
	// and refuses nothing, but the author of the VM reads what it would have done.
	// Audit: the same, only in the audit log, metrics and status. Off: it does
	// nothing; write "Off" in quotes, since a bare Off means false to YAML. A new
	// preset can go from Audit through Warn to Enforce.
	//
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// defaults is a partial VirtualMachine (metadata.labels, metadata.annotations
	// and spec) that fills what is absent and never changes what the VM's author
	// wrote; an explicit false, 0, "" or {} was written. It acts field by field,
	// and lists with a natural key (disks, volumes, interfaces, networks, gpus by
	// name) are merged by it. A disk comes only with a volume of its name, an
	// interface only with its network. For example:
	//
	//   defaults:
	//     spec:
	//       runStrategy: Always
	//       template:
	//         spec:
	//           domain:
	//             memory: {guest: 4Gi}
	//
	// `kubectl explain virtualmachine.spec` lists what may stand here. null is
	// refused: use remove. A single value may be computed for each VM, as in
	// {$cel: "object.metadata.name + '-root'"}.
	//
	// +optional
	// +nullable
	Defaults *apiextensionsv1.JSON `json:"defaults,omitempty"`

	// overrides is a partial VirtualMachine like defaults, but it is set even
	// against what the VM's author wrote; a warning tells the author. Later
	// updates that change such a field are put back. For example, no VM without
	// secure boot:
	//
	//   overrides:
	//     spec:
	//       template:
	//         spec:
	//           domain:
	//             features: {smm: {enabled: true}}
	//             firmware: {bootloader: {efi: {secureBoot: true}}}
	//
	// A choice such as bios or efi is replaced as a whole. null is refused: use
	// remove.
	//
	// +optional
	// +nullable
	Overrides *apiextensionsv1.JSON `json:"overrides,omitempty"`

	// remove lists paths that are taken out of the VM, whoever set them, with the
	// strength of overrides. A path is dotted from the root of the VM; an element
	// of a keyed list stands in brackets, a key with dots or slashes in quotes.
	// For example:
	//
	//   remove:
	//   - spec.template.spec.domain.devices.rng
	//   - spec.template.spec.domain.devices.inputs[tablet]
	//   - spec.template.spec.nodeSelector["kubernetes.io/arch"]
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=set
	Remove []string `json:"remove,omitempty"`

	// forbid lists paths that must not be there in the result, whoever set them. A
	// VM that breaks one is refused with the message given; a VM that broke it
	// before the rule came may still be updated, but not get worse. Paths are as
	// in remove, and [*] is every element of a list. For example:
	//
	//   forbid:
	//   - path: spec.template.spec.domain.devices.hostDevices
	//     message: no passthrough in production; ask the platform team
	//   - path: spec.template.spec.volumes[*].hostDisk
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=path
	Forbid []ForbidRule `json:"forbid,omitempty"`
}

// PresetMatch says which VMs a preset acts on. Every part that is given must
// hold. It looks at what the author wrote, never at what another preset gave,
// so presets cannot set each other off.
type PresetMatch struct {
	// labels selects VMs by label: those of the VM overlaid with those of its
	// template (for a VirtualMachineInstance of its own, its labels). For example,
	// VMs of either Windows edition that have not asked to be left alone:
	//
	//   labels:
	//     matchLabels: {os: windows}
	//     matchExpressions:
	//     - {key: unmanaged, operator: DoesNotExist}
	//
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`

	// namespaces selects the namespaces, by their labels, whose VMs this preset
	// acts on. Only for ClusterVirtualMachinePreset: a VirtualMachinePreset acts
	// in its own namespace. A single namespace is selected by its name with the
	// label that every namespace has:
	//
	//   namespaces: {matchLabels: {kubernetes.io/metadata.name: shop}}
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// conditions are CEL expressions that must all be true. They see `object`,
	// always as a VirtualMachine (an instance stands in its spec.template), and
	// `namespaceObject`, its Namespace. A sparse VM lacks fields, so ask with
	// has() or optional fields first. For example, only VMs with a TPM:
	//
	//   conditions:
	//   - name: has-tpm
	//     expression: object.?spec.template.spec.domain.devices.tpm.hasValue()
	//
	// When an expression fails at run time, defaults are skipped with a warning;
	// overrides and forbid refuse the VM.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Conditions []MatchCondition `json:"conditions,omitempty"`

	// explicit restricts the preset to VMs that name it in the annotation
	// virtwright.dev/presets, where a cluster preset is written cluster/NAME. The
	// other parts of match must hold as well. For example, a VM that asks for two
	// presets:
	//
	//   metadata:
	//     annotations:
	//       virtwright.dev/presets: cluster/gpu-a10, nightly-backup
	//
	// +optional
	Explicit bool `json:"explicit,omitempty"`
}

// MatchCondition is a named CEL expression.
type MatchCondition struct {
	// name is what messages call this condition, such as has-tpm. It is unique in
	// its preset.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// expression is CEL that yields true or false, such as
	//
	//   object.?spec.template.spec.architecture.orValue("amd64") == "amd64"
	//
	// The functions are those of the API server's admission policies.
	//
	// +kubebuilder:validation:MaxLength=16384
	Expression string `json:"expression"`
}

// ForbidRule refuses VMs in which a path is set.
type ForbidRule struct {
	// path is what must not be there, dotted from the root of the VM, such as
	// spec.template.spec.domain.devices.hostDevices or
	// spec.template.spec.volumes[*].hostDisk.
	//
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// message is what the author of a refused VM reads, after the path and the
	// preset's name. Say what to do instead.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ApplyAt is the moment at which a preset acts.
// +kubebuilder:validation:Enum=Definition;Launch
type ApplyAt string

const (
	// ApplyAtDefinition lets a preset act on the VM, visibly and lastingly. It is
	// the default.
	ApplyAtDefinition ApplyAt = "Definition"

	// ApplyAtLaunch lets a preset act on the VMI when it is created.
	ApplyAtLaunch ApplyAt = "Launch"
)

// OrDefault is a itself, or Definition where it is empty, as in a manifest
// that no API server has seen.
func (a ApplyAt) OrDefault() ApplyAt {
	if a == "" {
		return ApplyAtDefinition
	}
	return a
}

// Mode says how strictly a preset acts.
// +kubebuilder:validation:Enum=Enforce;Warn;Audit;Off
type Mode string

const (
	// ModeEnforce lets a preset act. It is the default.
	ModeEnforce Mode = "Enforce"

	// ModeWarn changes and refuses nothing; a warning says what the preset would
	// have done.
	ModeWarn Mode = "Warn"

	// ModeAudit changes and refuses nothing; audit annotation, metric and status
	// say what the preset would have done.
	ModeAudit Mode = "Audit"

	// ModeOff switches a preset off.
	ModeOff Mode = "Off"
)

// OrDefault is m itself, or Enforce where it is empty, as in a manifest that
// no API server has seen.
func (m Mode) OrDefault() Mode {
	if m == "" {
		return ModeEnforce
	}
	return m
}

// PresetStatus is what virtwright knows about a preset. Users read it;
// virtwright alone writes it.
type PresetStatus struct {
	// observedGeneration is the generation that the rest of this status speaks
	// about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions hold Ready. True (reason Compiled): every live serving replica
	// uses this generation, so VMs created from now on get it; wait for it with
	//
	//   kubectl wait --for=condition=Ready vmpreset/NAME
	//
	// False (reason Invalid): the preset cannot be right and nothing of it acts;
	// the message says why. Conflicting, Shadowed and Unreachable are there while
	// another preset of equal standing sets a field otherwise, stronger presets
	// overrule all that this one sets, or no VM can match.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// matched counts the VMs to which this preset gave something, or on which its
	// forbid is checked: their annotation virtwright.dev/provenance names it. In
	// mode Warn or Audit it counts the VMs on which the preset would act, as of
	// observedAt. Absent: not counted yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched *int64 `json:"matched,omitempty"`

	// outdated counts the VMs whose record names another version of what this
	// preset gives: its defaults, overrides, remove or forbid have changed since.
	// The annotation virtwright.dev/reapply brings a VM up to date. Absent: not
	// counted yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Outdated *int64 `json:"outdated,omitempty"`

	// violating counts the stored VMs that have what forbid lists, as of
	// observedAt. They stay as they are, and updates may not make it worse. Absent:
	// not counted yet, or nothing is forbidden.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Violating *int64 `json:"violating,omitempty"`

	// observedAt is when VMs were read for violating and, in mode Warn or Audit,
	// for matched. That happens when the preset changes, and every ten minutes.
	//
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// lastAppliedTime is when this preset last acted on a VM that is created or
	// changed, to the minute.
	//
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`
}

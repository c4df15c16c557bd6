package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PresetSpec selects VMs, and says when, how strictly and how the preset changes them.
//
// Strongest first: overrides and remove of cluster presets, overrides and remove of namespaced
// presets, values of the VM's author, defaults of presets, platform defaults. Every matching forbid
// and require is checked on the result.
type PresetSpec struct {
	// priority orders presets that set the same field: the highest priority wins. On equal priority
	// a namespaced default wins over a cluster default, then the name decides, which is reported as
	// a conflict. Set different priorities on purpose: 0 for a baseline, 100 for an operating
	// system, 1000 for a tier.
	//
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// match selects VMs. All fields that are set must match; an empty match selects every VM in
	// scope (the namespace of a VirtualMachinePreset, the cluster for a
	// ClusterVirtualMachinePreset). For example:
	//
	//   match:
	//     labels: {matchLabels: {os: windows}}
	//     namespaces: {matchLabels: {tier: prod}}
	//
	// +optional
	Match PresetMatch `json:"match,omitempty"`

	// applyAt is when the preset is applied. Definition: when the VirtualMachine is created; its
	// values are visible on the VM and stay until presets are reapplied. Launch: when the
	// VirtualMachineInstance is created, so that each start uses the current preset; the VM is not
	// changed. Choose Launch for settings of the environment, such as nodeSelector or tolerations.
	//
	// +optional
	// +kubebuilder:default=Definition
	ApplyAt ApplyAt `json:"applyAt,omitempty"`

	// mode is how strictly the preset is applied. Enforce: it is applied. Warn: it changes and
	// rejects nothing, but the author of the VM gets a warning with its effect. Audit: the same, in
	// the audit log, metrics and status only. Off: it has no effect; write "Off" in quotes, because
	// YAML reads a bare Off as false. Roll out a new preset from Audit through Warn to Enforce.
	//
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// variables are named CEL expressions, which conditions and computed values use as
	// variables.NAME. A variable may use those above it. Where it is used, it reads the same object
	// as the expression that uses it. For example:
	//
	//   variables:
	//   - name: cores
	//     expression: object.spec.template.spec.domain.?cpu.cores.orValue(1)
	//   match:
	//     conditions:
	//     - {name: large, expression: variables.cores > 8}
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Variables []Variable `json:"variables,omitempty"`

	// defaults is a partial VirtualMachine (metadata.labels, metadata.annotations and spec) whose
	// values are set where the VM has none. It never changes values of the VM's author, including
	// an explicit false, 0, "" or {}. It is merged field by field, and lists with a natural key
	// (disks, volumes, interfaces, networks, gpus by name) by that key. A disk is added only with
	// its volume, an interface only with its network. For example:
	//
	//   defaults:
	//     spec:
	//       runStrategy: Always
	//       template:
	//         spec:
	//           domain:
	//             memory: {guest: 4Gi}
	//
	// `kubectl explain virtualmachine.spec` lists the fields. null is rejected: use remove. A value
	// may be computed for each VM, as in {$cel: "object.metadata.name + '-root'"}. An element with
	// name "*" stands for every element that the list has, and adds none.
	//
	// +optional
	// +nullable
	Defaults *apiextensionsv1.JSON `json:"defaults,omitempty"`

	// overrides is a partial VirtualMachine like defaults, but it also replaces values of the VM's
	// author, with a warning. Later updates of such a field are reverted. For example, no VM
	// without secure boot, and no disk with a cache:
	//
	//   overrides:
	//     spec:
	//       template:
	//         spec:
	//           domain:
	//             features: {smm: {enabled: true}}
	//             firmware: {bootloader: {efi: {secureBoot: true}}}
	//             devices: {disks: [{name: "*", cache: none}]}
	//
	// A choice such as bios or efi is replaced as a whole. null is rejected: use remove.
	//
	// +optional
	// +nullable
	Overrides *apiextensionsv1.JSON `json:"overrides,omitempty"`

	// remove lists paths that are removed from the VM, with the precedence of overrides. A path is
	// dotted from the root of the VM; an element of a keyed list is in brackets, a key with dots or
	// slashes in quotes. For example:
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

	// forbid lists paths that the result must not have. A VM that violates a rule is rejected with
	// its message. A VM that violated it before the rule existed may be updated if no violation is
	// added. Paths are as in remove, and [*] is every element of a list. For example:
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

	// require lists paths that the result must have. The author, a preset, or the instancetype or
	// preference of the VM may set them. A VM without one is rejected with its message. A VM that
	// lacked it before the rule existed may be updated. Paths are as in forbid, and a path with
	// [*] must be set in every element that the list has. For example:
	//
	//   require:
	//   - path: metadata.labels["cost-center"]
	//     message: name the cost center that pays for the VM
	//   - path: spec.template.spec.domain.devices.disks[*].cache
	//
	// A ValidatingAdmissionPolicy limits the values of fields.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=path
	Require []RequireRule `json:"require,omitempty"`
}

// PresetMatch selects VMs. All fields that are set must match. It reads the values of the VM's
// author and not those of other presets, so presets cannot trigger each other.
type PresetMatch struct {
	// labels selects VMs by the labels of the VM and of its template, which takes precedence, or by
	// the labels of a VirtualMachineInstance without VM. For example, Windows VMs that are not
	// excluded:
	//
	//   labels:
	//     matchLabels: {os: windows}
	//     matchExpressions:
	//     - {key: unmanaged, operator: DoesNotExist}
	//
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`

	// namespaces selects VMs by the labels of their namespaces. Only for
	// ClusterVirtualMachinePreset: a VirtualMachinePreset applies in its own namespace. Select a
	// single namespace by the label that every namespace has:
	//
	//   namespaces: {matchLabels: {kubernetes.io/metadata.name: shop}}
	//
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// conditions are CEL expressions that must all be true. Variables are `object`, always a
	// VirtualMachine (a VMI is in its spec.template), `namespaceObject`, its Namespace, and
	// `variables`, those of the preset. A sparse VM lacks fields, so use has() or optional fields.
	// For example, only VMs with a TPM:
	//
	//   conditions:
	//   - name: has-tpm
	//     expression: object.?spec.template.spec.domain.devices.tpm.hasValue()
	//
	// If an expression fails at run time, defaults are skipped with a warning; overrides,
	// forbid and require reject the VM.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Conditions []MatchCondition `json:"conditions,omitempty"`

	// explicit restricts the preset to VMs that name it in the annotation virtwright.dev/presets,
	// where a cluster preset is written cluster/NAME. The other fields of match must match as well.
	// For example, a VM with two presets:
	//
	//   metadata:
	//     annotations:
	//       virtwright.dev/presets: cluster/gpu-a10, nightly-backup
	//
	// +optional
	Explicit bool `json:"explicit,omitempty"`
}

// Variable is a named CEL expression that other expressions of its preset use.
type Variable struct {
	// name is a CEL identifier, such as cores. It is unique in its preset.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`

	// expression is CEL of any type, such as
	//
	//   object.spec.template.spec.domain.?cpu.cores.orValue(1)
	//
	// The functions are those of the API server's admission policies.
	//
	// +kubebuilder:validation:MaxLength=16384
	Expression string `json:"expression"`
}

// MatchCondition is a named CEL expression.
type MatchCondition struct {
	// name identifies the condition in messages, such as has-tpm. It is unique in its preset.
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

// ForbidRule rejects VMs that have a path.
type ForbidRule struct {
	// path is the forbidden path, dotted from the root of the VM, such as
	// spec.template.spec.domain.devices.hostDevices or spec.template.spec.volumes[*].hostDisk.
	//
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// message is shown to the author of a rejected VM, after the path and the preset's name. Say
	// what to do instead.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// RequireRule rejects VMs that lack a path.
type RequireRule struct {
	// path is the required path, dotted from the root of the VM, such as
	// metadata.labels["cost-center"] or spec.template.spec.domain.devices.disks[*].cache.
	//
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// message is shown to the author of a rejected VM, after the path and the preset's name. Say
	// which value to set.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ApplyAt is when a preset is applied.
// +kubebuilder:validation:Enum=Definition;Launch
type ApplyAt string

const (
	// ApplyAtDefinition applies a preset to the VM, when it is created. It is the default.
	ApplyAtDefinition ApplyAt = "Definition"

	// ApplyAtLaunch applies a preset to the VMI, when it is created.
	ApplyAtLaunch ApplyAt = "Launch"
)

// OrDefault returns a, or Definition if a is empty, as in a manifest that no API server has
// defaulted.
func (a ApplyAt) OrDefault() ApplyAt {
	if a == "" {
		return ApplyAtDefinition
	}
	return a
}

// Mode is how strictly a preset is applied.
// +kubebuilder:validation:Enum=Enforce;Warn;Audit;Off
type Mode string

const (
	// ModeEnforce applies the preset. It is the default.
	ModeEnforce Mode = "Enforce"

	// ModeWarn changes and rejects nothing; a warning describes the effect of the preset.
	ModeWarn Mode = "Warn"

	// ModeAudit changes and rejects nothing; an audit annotation, metrics and status describe the
	// effect of the preset.
	ModeAudit Mode = "Audit"

	// ModeOff disables the preset.
	ModeOff Mode = "Off"
)

// OrDefault returns m, or Enforce if m is empty, as in a manifest that no API server has defaulted.
func (m Mode) OrDefault() Mode {
	if m == "" {
		return ModeEnforce
	}
	return m
}

// PresetStatus is the observed state of a preset. Only virtwright writes it.
type PresetStatus struct {
	// observedGeneration is the generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions contain Ready. True (reason Compiled): every live serving replica uses this
	// generation, so it is applied to new VMs; wait for it with
	//
	//   kubectl wait --for=condition=Ready vmpreset/NAME
	//
	// False (reason Invalid): the preset is invalid and has no effect; the message says why.
	// Conflicting: another preset of the same scope and priority sets a field to another value.
	// Shadowed: stronger presets overrule all values of this one. Unreachable: it cannot match any
	// VM.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// matched counts the VMs that have values of this preset or on which its rules are checked:
	// their annotation virtwright.dev/provenance names it. In mode Warn or Audit it counts the VMs
	// to which the preset would apply, as of observedAt. Absent: not counted yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched *int64 `json:"matched,omitempty"`

	// outdated counts the VMs that have values of an earlier version of this preset: its defaults,
	// overrides, remove, forbid or require have changed since. Change the annotation
	// virtwright.dev/reapply to update a VM. Absent: not counted yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Outdated *int64 `json:"outdated,omitempty"`

	// violating counts the stored VMs that have a forbidden path or lack a required one, as of
	// observedAt. They are not changed, and updates must not add violations. Absent: not counted
	// yet, or the preset has neither forbid nor require.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Violating *int64 `json:"violating,omitempty"`

	// drifted counts the stored VMs that a reapply of all presets would change or reject because of
	// this preset, as of observedAt. For example, the preset is new, or the labels of a namespace
	// have changed. Absent: not counted yet, or the preset changes no stored VM because of its mode
	// or applyAt.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Drifted *int64 `json:"drifted,omitempty"`

	// observedAt is when VMs were counted for drifted, violating and, in mode Warn or Audit, for
	// matched. They are counted when a preset changes, and every minute, or up to every 30 minutes
	// in large clusters.
	//
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// lastAppliedTime is when this preset was last applied to a VM, to the minute.
	//
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`
}

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Preset is implemented by VirtualMachinePreset and ClusterVirtualMachinePreset. Spec and status
// are those of the object, not copies.
//
// +kubebuilder:object:generate=false
type Preset interface {
	metav1.Object
	runtime.Object
	GetSpec() *PresetSpec
	GetStatus() *PresetStatus
}

var (
	_ Preset = &VirtualMachinePreset{}
	_ Preset = &ClusterVirtualMachinePreset{}
)

// VirtualMachinePreset completes sparse VMs of its own namespace. It selects VMs by label or
// condition, and contains parts of a VirtualMachine: defaults set missing values, overrides replace
// values of the author, remove deletes fields, forbid rejects them. For example, sizes by label:
//
//	apiVersion: virtwright.dev/v1alpha1
//	kind: VirtualMachinePreset
//	metadata: {name: size-small, namespace: shop}
//	spec:
//	  match: {labels: {matchLabels: {vm-size: small}}}
//	  defaults:
//	    spec:
//	      template:
//	        spec:
//	          domain:
//	            cpu: {cores: 1}
//	            memory: {guest: 2Gi}
//
// A VM with the label vm-size: small then needs neither CPU nor memory. Try a preset offline with
// `virtwright expand -f vm.yaml -f preset.yaml`.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinepresets,singular=virtualmachinepreset,shortName=vmpreset,categories=virtwright,scope=Namespaced
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`,description="The highest priority wins."
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Enforce, Warn, Audit or Off."
// +kubebuilder:printcolumn:name="Apply-At",type=string,JSONPath=`.spec.applyAt`,description="Definition (on the VM) or Launch (on the VMI)."
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="VMs that have its values; in mode Warn or Audit, VMs to which it would apply."
// +kubebuilder:printcolumn:name="Outdated",type=integer,JSONPath=`.status.outdated`,description="VMs that have values of an earlier version of it."
// +kubebuilder:printcolumn:name="Drifted",type=integer,JSONPath=`.status.drifted`,description="VMs that a reapply would change or reject because of it."
// +kubebuilder:printcolumn:name="Violating",type=integer,JSONPath=`.status.violating`,description="VMs that have a path that it forbids, or lack one that it requires."
// +kubebuilder:printcolumn:name="Counted",type=date,JSONPath=`.status.observedAt`,description="When VMs were counted; empty before the first count."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether every serving replica uses this generation."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.match) || !has(self.spec.match.namespaces)",fieldPath=".spec.match.namespaces",reason=FieldValueForbidden,message="a VirtualMachinePreset applies in its own namespace only: remove match.namespaces, or use a ClusterVirtualMachinePreset"
type VirtualMachinePreset struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects VMs, and says when, how strictly and how the preset changes them.
	//
	// +optional
	// +kubebuilder:default={}
	Spec PresetSpec `json:"spec,omitempty"`

	// status reports whether the preset is in use, and on how many VMs. Only virtwright writes it.
	//
	// +optional
	Status PresetStatus `json:"status,omitempty"`
}

// GetSpec returns the preset's own spec.
func (p *VirtualMachinePreset) GetSpec() *PresetSpec { return &p.Spec }

// GetStatus returns the preset's own status.
func (p *VirtualMachinePreset) GetStatus() *PresetStatus { return &p.Status }

// VirtualMachinePresetList is a list of VirtualMachinePreset.
//
// +kubebuilder:object:root=true
type VirtualMachinePresetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the presets.
	Items []VirtualMachinePreset `json:"items"`
}

// ClusterVirtualMachinePreset completes sparse VMs of every namespace, or of those that
// match.namespaces selects. It is otherwise like VirtualMachinePreset; references to it are written
// cluster/NAME. Its overrides are stronger than those of a namespaced preset, its defaults weaker
// at equal priority. For example, a rule for production:
//
//	apiVersion: virtwright.dev/v1alpha1
//	kind: ClusterVirtualMachinePreset
//	metadata: {name: tier-prod}
//	spec:
//	  match: {namespaces: {matchLabels: {tier: prod}}}
//	  defaults: {spec: {template: {spec: {evictionStrategy: LiveMigrate}}}}
//	  forbid:
//	  - path: spec.template.spec.domain.devices.hostDevices
//	    message: no passthrough in production
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clustervirtualmachinepresets,singular=clustervirtualmachinepreset,shortName=cvmpreset,categories=virtwright,scope=Cluster
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`,description="The highest priority wins."
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Enforce, Warn, Audit or Off."
// +kubebuilder:printcolumn:name="Apply-At",type=string,JSONPath=`.spec.applyAt`,description="Definition (on the VM) or Launch (on the VMI)."
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="VMs that have its values; in mode Warn or Audit, VMs to which it would apply."
// +kubebuilder:printcolumn:name="Outdated",type=integer,JSONPath=`.status.outdated`,description="VMs that have values of an earlier version of it."
// +kubebuilder:printcolumn:name="Drifted",type=integer,JSONPath=`.status.drifted`,description="VMs that a reapply would change or reject because of it."
// +kubebuilder:printcolumn:name="Violating",type=integer,JSONPath=`.status.violating`,description="VMs that have a path that it forbids, or lack one that it requires."
// +kubebuilder:printcolumn:name="Counted",type=date,JSONPath=`.status.observedAt`,description="When VMs were counted; empty before the first count."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether every serving replica uses this generation."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterVirtualMachinePreset struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects VMs, and says when, how strictly and how the preset changes them.
	//
	// +optional
	// +kubebuilder:default={}
	Spec PresetSpec `json:"spec,omitempty"`

	// status reports whether the preset is in use, and on how many VMs. Only virtwright writes it.
	//
	// +optional
	Status PresetStatus `json:"status,omitempty"`
}

// GetSpec returns the preset's own spec.
func (p *ClusterVirtualMachinePreset) GetSpec() *PresetSpec { return &p.Spec }

// GetStatus returns the preset's own status.
func (p *ClusterVirtualMachinePreset) GetStatus() *PresetStatus { return &p.Status }

// ClusterVirtualMachinePresetList is a list of ClusterVirtualMachinePreset.
//
// +kubebuilder:object:root=true
type ClusterVirtualMachinePresetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the presets.
	Items []ClusterVirtualMachinePreset `json:"items"`
}

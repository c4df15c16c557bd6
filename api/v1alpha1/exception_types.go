package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PresetException exempts VMs of its namespace from presets, including overrides and forbid rules.
// Its author must be allowed to update each preset that it names. For example, until an old image
// supports secure boot:
//
//	apiVersion: virtwright.dev/v1alpha1
//	kind: PresetException
//	metadata: {name: legacy-bios, namespace: shop}
//	spec:
//	  presets: [cluster/secure-boot]
//	  vmSelector: {matchLabels: {image: centos6}}
//	  reason: the image has no UEFI loader
//	  until: "2027-03-31T00:00:00Z"
//
// After until, VMs keep what they have. The next update of the spec of a VM applies the presets
// again, with a warning.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=presetexceptions,singular=presetexception,shortName=vmpe,categories=virtwright,scope=Namespaced
// +kubebuilder:printcolumn:name="Presets",type=string,JSONPath=`.spec.presets`,description="Presets that do not apply."
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].reason`,description="InForce, EndsSoon, Expired or Invalid."
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`,description="When the exception ends."
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.matched`,description="VMs that use the exception."
// +kubebuilder:printcolumn:name="Last-Used",type=date,JSONPath=`.status.lastUsed`,description="When a VM last started to use it."
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PresetException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects presets and VMs, with a reason and an end.
	Spec PresetExceptionSpec `json:"spec"`

	// status reports which VMs use the exception. Only virtwright writes it.
	//
	// +optional
	Status PresetExceptionStatus `json:"status,omitempty"`
}

// PresetExceptionSpec selects presets that do not apply to selected VMs.
type PresetExceptionSpec struct {
	// presets are the names of presets that do not apply: NAME for a preset of the namespace,
	// cluster/NAME for a cluster preset.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=set
	Presets []string `json:"presets"`

	// vmSelector selects VMs of the namespace by label, as match.labels of a preset does. {}
	// selects all of them.
	VMSelector metav1.LabelSelector `json:"vmSelector"`

	// reason explains why the VMs are exempt.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// ticket refers to a record of the decision, such as a URL.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Ticket string `json:"ticket,omitempty"`

	// until is when the exception ends. Default: never. An administrator may require an end.
	//
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// PresetExceptionStatus is the observed state of an exception.
type PresetExceptionStatus struct {
	// observedGeneration is the generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// matched counts the VMs that use the exception: one of its presets would apply to them
	// otherwise. Absent: not counted yet.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched *int64 `json:"matched,omitempty"`

	// vms are the names of the first 50 of these VMs.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	VMs []string `json:"vms,omitempty"`

	// lastUsed is when a VM last started to use the exception.
	//
	// +optional
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`

	// conditions contain Active: True with reason InForce, or EndsSoon in the last week before
	// until; False with reason Expired after until.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PresetExceptionList is a list of PresetException.
//
// +kubebuilder:object:root=true
type PresetExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the exceptions.
	Items []PresetException `json:"items"`
}

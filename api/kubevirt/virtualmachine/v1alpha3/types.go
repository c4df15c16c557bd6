// Package v1alpha3 is version v1alpha3 of VirtualMachine, for the generator of its CRD.
//
// +groupName=kubevirt.io
// +versionName=v1alpha3
package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// VirtualMachine is a virtual machine that can be started and stopped. While it runs there is a
// VirtualMachineInstance of the same name, created from its template. Presets and platform defaults
// set missing fields when it is created.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release."
// +kubebuilder:resource:path=virtualmachines,singular=virtualmachine,shortName={vm,vms},categories=all,scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.printableStatus`,description="Human Readable Status"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
type VirtualMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state, including whether the VM runs.
	Spec kubevirtv1.VirtualMachineSpec `json:"spec"`

	// status is the observed state. Controllers write it.
	//
	// +optional
	Status kubevirtv1.VirtualMachineStatus `json:"status,omitempty"`
}

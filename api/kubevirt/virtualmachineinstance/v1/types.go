// Package v1 is version v1 of VirtualMachineInstance, for the generator of its CRD.
//
// +groupName=kubevirt.io
// +versionName=v1
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// VirtualMachineInstance is a running virtual machine. Usually a VirtualMachine of the same name
// owns it and creates it at every start; it may also exist without one.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=virtualmachineinstances,singular=virtualmachineinstance,shortName={vmi,vmis},categories=all,scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.interfaces[0].ipAddress`
// +kubebuilder:printcolumn:name="NodeName",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Live-Migratable",type=string,JSONPath=`.status.conditions[?(@.type=='LiveMigratable')].status`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=='Paused')].status`,priority=1
type VirtualMachineInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	Spec kubevirtv1.VirtualMachineInstanceSpec `json:"spec"`

	// status is the observed state. Controllers write it.
	//
	// +optional
	Status kubevirtv1.VirtualMachineInstanceStatus `json:"status,omitempty"`
}

// Package v1alpha3 is version v1alpha3 of VirtualMachineInstancePreset, for the generator of its
// CRD.
//
// +groupName=kubevirt.io
// +versionName=v1alpha3
package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// VirtualMachineInstancePreset is KubeVirt's deprecated preset: a part of spec.domain for the VMIs
// of its namespace that its selector matches. Use a VirtualMachinePreset (virtwright.dev) instead.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:deprecatedversion:warning="kubevirt.io/v1alpha3 VirtualMachineInstancePresets is now deprecated and will be removed in v2."
// +kubebuilder:resource:path=virtualmachineinstancepresets,singular=virtualmachineinstancepreset,shortName={vmipreset,vmipresets},categories=all,scope=Namespaced
type VirtualMachineInstancePreset struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects VMIs and has the values to set.
	Spec kubevirtv1.VirtualMachineInstancePresetSpec `json:"spec"`
}

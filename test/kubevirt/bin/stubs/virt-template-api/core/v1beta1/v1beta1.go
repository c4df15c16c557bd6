// Package v1beta1 has the types that KubeVirt names. They have the fields that KubeVirt uses; the
// API itself is not installed in tests, so no object of these types exists.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubevirt.io/virt-template-api/core"
)

// GroupVersion is the version of these types.
var GroupVersion = schema.GroupVersion{Group: core.GroupName, Version: "v1beta1"}

// ConditionReady is the condition of a template that can be used.
const ConditionReady = "Ready"

// VirtualMachineTemplate is a VM with parameters.
type VirtualMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              VirtualMachineTemplateSpec   `json:"spec,omitempty"`
	Status            VirtualMachineTemplateStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateSpec is a VM and its parameters.
type VirtualMachineTemplateSpec struct {
	VirtualMachine *runtime.RawExtension `json:"virtualMachine,omitempty"`
	Parameters     []Parameter           `json:"parameters,omitempty"`
	Message        string                `json:"message,omitempty"`
}

// VirtualMachineTemplateStatus says whether the template can be used.
type VirtualMachineTemplateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Parameter is a value that a template leaves open.
type Parameter struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	Description string `json:"description,omitempty"`
	Value       string `json:"value,omitempty"`
	Generate    string `json:"generate,omitempty"`
	From        string `json:"from,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// DeepCopy returns a shallow copy.
func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate {
	c := *t
	return &c
}

// DeepCopyObject implements runtime.Object.
func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { return t.DeepCopy() }

// VirtualMachineTemplateRequest asks for a template of an existing VM.
type VirtualMachineTemplateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              VirtualMachineTemplateRequestSpec `json:"spec,omitempty"`
}

// VirtualMachineTemplateRequestSpec names the VM and the template.
type VirtualMachineTemplateRequestSpec struct {
	VirtualMachineRef VirtualMachineReference `json:"virtualMachineRef"`
	TemplateName      string                  `json:"templateName,omitempty"`
}

// VirtualMachineReference names a VM.
type VirtualMachineReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Package v1alpha1 has the types that KubeVirt 1.8 names.
package v1alpha1

import "kubevirt.io/virt-template-api/core/v1beta1"

// GroupVersion is the version of these types.
var GroupVersion = v1beta1.GroupVersion

// ConditionReady is the condition of a template that can be used.
const ConditionReady = v1beta1.ConditionReady

// The types are those of the later version.
type (
	VirtualMachineTemplate            = v1beta1.VirtualMachineTemplate
	VirtualMachineTemplateSpec        = v1beta1.VirtualMachineTemplateSpec
	VirtualMachineTemplateRequest     = v1beta1.VirtualMachineTemplateRequest
	VirtualMachineTemplateRequestSpec = v1beta1.VirtualMachineTemplateRequestSpec
	VirtualMachineReference           = v1beta1.VirtualMachineReference
	Parameter                         = v1beta1.Parameter
)

// Package subresourcesv1alpha1 has the types of subresources that KubeVirt 1.8 names.
package subresourcesv1alpha1

import "kubevirt.io/virt-template-api/core/subresourcesv1beta1"

// The types are those of the later version.
type (
	ProcessOptions                  = subresourcesv1beta1.ProcessOptions
	ProcessedVirtualMachineTemplate = subresourcesv1beta1.ProcessedVirtualMachineTemplate
)

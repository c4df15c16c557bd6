// Package subresourcesv1beta1 has the types of the template API's subresources.
package subresourcesv1beta1

import v1 "kubevirt.io/api/core/v1"

// ProcessOptions are values of parameters.
type ProcessOptions struct {
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ProcessedVirtualMachineTemplate is the VM that a template makes.
type ProcessedVirtualMachineTemplate struct {
	VirtualMachine *v1.VirtualMachine `json:"virtualMachine,omitempty"`
	Message        string             `json:"message,omitempty"`
}

// Package template has the functions of the template engine that virtctl names.
package template

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"kubevirt.io/virt-template-api/core/v1beta1"
)

var errMissing = errors.New("cannot process templates: this build of KubeVirt has no engine for them")

// Processor makes a VM from a template.
type Processor struct{}

// GetDefaultProcessor returns a processor that always returns an error.
func GetDefaultProcessor() Processor { return Processor{} }

// Process always returns an error.
func (Processor) Process(*v1beta1.VirtualMachineTemplate) (*v1.VirtualMachine, string, error) {
	return nil, "", errMissing
}

// MergeParameters always returns an error.
func MergeParameters([]v1beta1.Parameter, map[string]string) ([]v1beta1.Parameter, error) {
	return nil, errMissing
}

// ValidateParameterReferences finds nothing.
func ValidateParameterReferences(*v1beta1.VirtualMachineTemplate) ([]string, field.ErrorList) {
	return nil, nil
}

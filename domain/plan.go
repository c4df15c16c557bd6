package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A Plan is an instance taken through both stages.
type Plan struct {
	Partial *Partial
	Whole   *Whole
	// FrontendProfiles and BackendProfiles are those that had a part, strongest
	// first.
	FrontendProfiles, BackendProfiles []string
}

// Plan takes an instance through both stages, under the profiles that are for
// it, given the labels of its namespace. Where facts are nil those that
// AssumedFacts assumes stand for a host; what is refused then could run on no
// host.
func (p *Profiles) Plan(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string, facts *HostFacts) (*Plan, field.ErrorList) {
	frontend, fromFrontend := p.Frontend(vmi, namespace)
	backend, fromBackend := p.Backend(vmi, namespace)
	partial, errs := Frontend(vmi, frontend)
	if len(errs) > 0 {
		return nil, errs
	}
	if facts == nil {
		facts = AssumedFacts(partial.Instance)
	}
	whole, errs := Backend(partial, backend, facts)
	if len(errs) > 0 {
		return nil, errs
	}
	return &Plan{Partial: partial, Whole: whole, FrontendProfiles: fromFrontend, BackendProfiles: fromBackend}, nil
}

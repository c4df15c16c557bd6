package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
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
	return p.plan(vmi, namespace, facts, Backend)
}

// Check returns what is wrong with an instance under the facts that AssumedFacts assumes: the
// errors of Plan.
func (p *Profiles) Check(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string) field.ErrorList {
	_, errs := p.plan(vmi, namespace, nil, func(partial *Partial, settings *v1alpha1.BackendSettings, facts *HostFacts) (*Whole, field.ErrorList) {
		return complete(partial, &partial.Domain, settings, facts)
	})
	return errs
}

// plan is Plan with a backend, which may change the partial domain.
func (p *Profiles) plan(
	vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string, facts *HostFacts,
	complete func(*Partial, *v1alpha1.BackendSettings, *HostFacts) (*Whole, field.ErrorList),
) (*Plan, field.ErrorList) {
	frontend, fromFrontend := p.Frontend(vmi, namespace)
	backend, fromBackend := p.Backend(vmi, namespace)
	partial, errs := Frontend(vmi, frontend)
	if len(errs) > 0 {
		return nil, errs
	}
	if facts == nil {
		facts = AssumedFacts(partial.Instance)
	}
	whole, errs := complete(partial, backend, facts)
	if len(errs) > 0 {
		return nil, errs
	}
	return &Plan{Partial: partial, Whole: whole, FrontendProfiles: fromFrontend, BackendProfiles: fromBackend}, nil
}

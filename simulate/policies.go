package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/simulate/policies"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks/conversion"
)

const (
	policyGroup = "admissionregistration.k8s.io"
	kindPolicy  = "ValidatingAdmissionPolicy"
	kindBinding = "ValidatingAdmissionPolicyBinding"

	kindMutating = "MutatingAdmissionPolicy"
)

func paramKinds(objects []manifest.Object) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for _, o := range objects {
		if o.Kind == kindPolicy && strings.HasPrefix(o.APIVersion, policyGroup+"/") {
			out[policies.ParamKind(o.JSON).GroupKind()] = true
		}
	}
	delete(out, schema.GroupKind{})
	return out
}

// References returns the parameters that bindings among the objects reference.
func References(objects []manifest.Object) []policies.Reference {
	var all, bindings [][]byte
	for _, o := range objects {
		switch {
		case !strings.HasPrefix(o.APIVersion, policyGroup+"/"):
		case o.Kind == kindPolicy:
			all = append(all, o.JSON)
		case o.Kind == kindBinding:
			bindings = append(bindings, o.JSON)
		}
	}
	return policies.References(all, bindings)
}

type policyReader struct {
	source policies.Source
	notes  []string
	// mutating are the MutatingAdmissionPolicies that change VMs.
	mutating []string
}

// read ignores virtwright's own policies: the simulated webhooks have the same rules.
func (p *policyReader) read(e *entry) error {
	rejected := &Rejection{Where: e.Where, Object: e.ref()}
	if slices.Contains(protection.PolicyNames(), e.meta.Name) {
		e.ignored = true
		return nil
	}
	var problems field.ErrorList
	var err error
	if e.Kind == kindPolicy {
		var read *policies.Policy
		if read, problems, err = policies.NewPolicy(e.JSON, e.isStored()); read != nil {
			p.source.Policies = append(p.source.Policies, read)
		} else if err == nil && len(problems) == 0 {
			e.ignored = true
			p.source.Others = append(p.source.Others, e.meta.Name)
			if !e.isStored() && policies.MeansVMs(e.JSON) {
				p.notes = append(p.notes, fmt.Sprintf("ValidatingAdmissionPolicy %s matches no create or update of a VM: "+
					"a rule for VMs has apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [virtualmachines]", e.meta.Name))
			}
		}
		if len(problems) > 0 || err != nil {
			p.source.Rejected = append(p.source.Rejected, e.meta.Name)
		}
	} else {
		var read *policies.Binding
		if read, problems, err = policies.NewBinding(e.JSON, e.isStored()); read != nil {
			p.source.Bindings = append(p.source.Bindings, read)
		} else {
			p.source.Rejected = append(p.source.Rejected, policies.PolicyName(e.JSON))
		}
	}
	if rejected.Problems = problemsOf(problems); err != nil {
		rejected.Problems = append(rejected.Problems, Problem{Message: err.Error()})
	}
	if len(rejected.Problems) == 0 {
		return nil
	}
	rejected.Stored = e.isStored()
	return rejected
}

func (p *policyReader) readMutating(e *entry) {
	e.ignored = true
	if fleet.ChangesVMs(e.asPolicy()) {
		p.mutating = append(p.mutating, e.meta.Name)
	}
}

func (p *policyReader) parameter(e *entry) error {
	object, err := policies.Parameter(e.JSON)
	if err != nil {
		return e.rejected([]Problem{{Message: manifest.Plain(err).Error()}})
	}
	p.source.Parameters = append(p.source.Parameters, object)
	e.ignored = e.role == parameter
	return nil
}

// bind builds the policy set. Bindings of policies that do not match VMs are ignored.
func (p *policyReader) bind(c *Cluster, entries []*entry) {
	c.Notes = append(c.Notes, p.notes...)
	if len(p.mutating) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("not evaluated: %s, which also change VMs in a cluster: virtwright import converts them to presets",
			listed("MutatingAdmissionPolicies", p.mutating)))
	}
	if len(p.source.Policies)+len(p.source.Bindings) == 0 {
		return
	}
	for _, e := range entries {
		if e.Kind == kindBinding && e.role == policy {
			e.ignored = e.ignored || slices.Contains(p.source.Others, policies.PolicyName(e.JSON))
		}
	}
	p.source.Namespace, p.source.Namespaces = c.settings.Namespace, c.namespaceObject
	var notes []string
	c.policies, notes = policies.NewSet(&p.source)
	c.bound = p.source.Bound()
	c.Notes = append(c.Notes, notes...)
}

// On an update, old is the stored VM.
func (c *Cluster) evaluate(ctx context.Context, m VM, v *Verdict, object, old map[string]any) error {
	denied, warnings, err := c.policies.Evaluate(ctx, policies.Request{
		Kind: m.Kind, Version: m.version, Namespace: m.Namespace, Name: m.entry.meta.Name, Object: object, Old: old,
	})
	v.warn(warnings...)
	for _, text := range denied {
		v.reject(Problem{Message: text})
	}
	return err
}

// evaluateStart leaves out VMIs that presets reject; that is reported elsewhere.
func (c *Cluster) evaluateStart(ctx context.Context, m VM, v *Verdict) error {
	if m.Kind != presets.VirtualMachine || len(v.Problems) > 0 || !c.policies.JudgesVMIs() {
		return nil
	}
	vmi, err := c.started(ctx, m, v.stored)
	if _, rejected := errors.AsType[*presets.Rejection](err); rejected {
		return nil
	}
	if err != nil {
		return m.rejection(err)
	}
	denied, _, err := c.policies.Evaluate(ctx, policies.Request{
		Kind: presets.VirtualMachineInstance, Version: conversion.V1, Namespace: m.Namespace, Name: m.entry.meta.Name, Object: vmi,
	})
	for _, text := range denied {
		v.unstarted = append(v.unstarted, Problem{Message: text})
		v.warn(couldNotStart + text)
	}
	return err
}

const couldNotStart = "the VM could not start: "

// started returns the VMI of a VM with the fields that KubeVirt adds at its start.
func (c *Cluster) started(ctx context.Context, m VM, raw []byte) (map[string]any, error) {
	raw, err := c.start(ctx, m, raw)
	if err != nil {
		return nil, err
	}
	return m.decode(raw)
}

package offline

import (
	"cmp"
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// Plan takes a machine through all stages: as it would be stored, as its
// instance would be launched, as a domain of a host. What is stated of the
// host stands before what is assumed of it; nil states nothing. The warnings
// are those of the machine's creation.
func (c *Cluster) Plan(ctx context.Context, m Machine, stated *domain.HostFacts) (plan *domain.Plan, warnings []string, err error) {
	vmi, warnings, err := c.launched(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	facts := domain.AssumedFacts(vmi)
	if stated != nil {
		facts = stated.Or(facts)
	}
	plan, problems := c.profiles.Plan(vmi, c.namespace(m.Namespace).Labels, facts)
	if len(problems) > 0 {
		return nil, nil, &Refusal{Where: m.Where, Object: m.String(), Problems: problemsOf(m.placedErrors(problems))}
	}
	return plan, warnings, nil
}

// placedErrors are errors about an instance with paths of the machine that was
// sent.
func (m Machine) placedErrors(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if m.Kind == presets.VirtualMachine {
			err.Field = "spec.template." + err.Field
		}
	}
	return m.inVersion(errs)
}

// launched is the instance of a machine as it would run.
func (c *Cluster) launched(ctx context.Context, m Machine) (*kubevirtv1.VirtualMachineInstance, []string, error) {
	raw, warnings, err := c.stored(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	if m.isStored() {
		ctx, _ := inTurn(ctx, m)
		v := m.entry.verdict()
		v.stored = raw
		if err := c.validateStored(ctx, m, &v); err != nil || len(v.Problems) > 0 {
			return nil, nil, cmp.Or(err, m.refused(v.Problems))
		}
	}
	request := presets.Request{Kind: m.Kind, Object: raw, Namespace: c.namespace(m.Namespace)}
	if m.Kind == presets.VirtualMachine {
		if raw, err = c.settings.Engine.Launch(ctx, c.snapshot, request); err != nil {
			return nil, nil, m.refusal(err)
		}
	}
	if raw, err = c.withPlatform(ctx, raw); err != nil {
		return nil, nil, m.refusal(err)
	}
	instance, err := validation.NewInstance(raw)
	if err != nil {
		return nil, nil, m.refusal(err)
	}
	return instance.VMI, warnings, nil
}

// withPlatform is an instance with the defaults that KubeVirt gives it where
// it is there and we do not.
func (c *Cluster) withPlatform(ctx context.Context, raw []byte) ([]byte, error) {
	if c.settings.Engine.Platform != nil {
		return raw, nil
	}
	engine := &presets.Engine{Platform: &presets.Platform{Instancetypes: true}}
	result, err := engine.Resolve(ctx, presets.NewSnapshot(nil, nil), presets.Request{Kind: presets.VirtualMachineInstance, Object: raw})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result.Object())
}

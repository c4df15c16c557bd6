package simulate

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

// Plan expands a VM, launches its VMI and renders the domain. Stated facts of the host take
// precedence over assumed ones; nil states none. The warnings are those of creating the VM.
func (c *Cluster) Plan(ctx context.Context, m VM, stated *domain.HostFacts) (plan *domain.Plan, warnings []string, err error) {
	raw, warnings, err := c.stored(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	if m.isStored() {
		ctx, _ := inTurn(ctx, m)
		v := m.entry.verdict()
		v.stored = raw
		if err := c.validateStored(ctx, m, &v); err != nil || len(v.Problems) > 0 {
			return nil, nil, cmp.Or(err, m.rejected(v.Problems))
		}
	}
	plan, err = c.plan(ctx, m, raw, stated)
	return plan, warnings, err
}

// plan renders the domain of a valid VM as a cluster would store it.
func (c *Cluster) plan(ctx context.Context, m VM, raw []byte, stated *domain.HostFacts) (*domain.Plan, error) {
	vmi, err := c.launched(ctx, m, raw)
	if err != nil {
		return nil, m.rejection(err)
	}
	if m.Kind == presets.VirtualMachineInstance {
		vmi.UID = m.entry.meta.UID // a new VMI has none, but paths in its domain contain it
	}
	facts := domain.AssumedFacts(vmi)
	if stated != nil {
		facts = stated.Or(facts)
	}
	plan, problems := c.profiles.Plan(vmi, c.namespace(m.Namespace).Labels, facts)
	if len(problems) > 0 {
		return nil, m.rejected(problemsOf(m.vmErrors(problems)))
	}
	return plan, nil
}

// vmErrors converts field paths of a VMI to paths of the input.
func (m VM) vmErrors(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if m.Kind == presets.VirtualMachine {
			err.Field = "spec.template." + err.Field
		}
	}
	return m.inVersion(errs)
}

func (c *Cluster) launched(ctx context.Context, m VM, raw []byte) (*kubevirtv1.VirtualMachineInstance, error) {
	raw, err := c.launch(ctx, m, raw)
	if err != nil {
		return nil, err
	}
	if raw, err = c.withPlatform(ctx, raw); err != nil {
		return nil, err
	}
	instance, err := validation.NewVirtualMachineInstance(raw)
	if err != nil {
		return nil, err
	}
	return instance.VMI, nil
}

// launch returns the JSON of the VMI of a stored VM. A VMI is returned unchanged.
func (c *Cluster) launch(ctx context.Context, m VM, stored []byte) ([]byte, error) {
	if m.Kind == presets.VirtualMachineInstance {
		return stored, nil
	}
	return c.settings.Engine.Launch(ctx, c.snapshot, presets.Request{Kind: m.Kind, Object: stored, Namespace: c.namespace(m.Namespace)})
}

// withPlatform adds the defaults that KubeVirt gives a VMI in mode addon.
func (c *Cluster) withPlatform(ctx context.Context, raw []byte) ([]byte, error) {
	if c.settings.Engine.Platform != nil {
		return raw, nil
	}
	engine := &presets.Engine{Platform: &presets.Platform{Alongside: true}}
	result, err := engine.Resolve(ctx, presets.PlatformOnly, presets.Request{Kind: presets.VirtualMachineInstance, Object: raw})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result.Object())
}

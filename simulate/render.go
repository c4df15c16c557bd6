package simulate

import (
	"cmp"
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

// StatedFacts are facts about a host that a user states. The others are assumed.
type StatedFacts struct {
	domain.HostFacts

	KVM *bool `json:"kvm"`
}

// Plan expands a VM, launches its VMI and renders the domain. Stated facts of the host take
// precedence over assumed ones; nil states none. The warnings are those of creating the VM.
func (c *Cluster) Plan(ctx context.Context, m VM, stated *StatedFacts) (plan *domain.Plan, warnings []string, err error) {
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
	vmi, err := c.launched(ctx, m, raw)
	if err != nil {
		return nil, nil, m.rejection(err)
	}
	plan, err = c.domainOf(m, vmi, stated)
	return plan, warnings, err
}

// domainOf renders the domain of a VM with a valid VMI.
func (c *Cluster) domainOf(m VM, vmi *kubevirtv1.VirtualMachineInstance, stated *StatedFacts) (*domain.Plan, error) {
	switch uid := m.entry.meta.UID; {
	case m.Kind == presets.VirtualMachineInstance:
		vmi.UID = uid // a new VMI has none, but paths in its domain contain it
	case m.isStored() && uid != "" && c.standalone():
		setFirmwareIdentity(vmi, domain.FirmwareIdentity(uid))
	}
	namespace := c.namespace(m.Namespace).Labels
	plan, problems := c.profiles.Plan(vmi, namespace, c.facts(vmi, namespace, stated))
	if len(problems) > 0 {
		return nil, m.rejected(problemsOf(m.vmErrors(problems)))
	}
	return plan, nil
}

// setFirmwareIdentity sets the firmware UUID and serial that the template does not set, as the
// controller of VMs does.
func setFirmwareIdentity(vmi *kubevirtv1.VirtualMachineInstance, identity string) {
	if vmi.Spec.Domain.Firmware == nil {
		vmi.Spec.Domain.Firmware = &kubevirtv1.Firmware{}
	}
	firmware := vmi.Spec.Domain.Firmware
	firmware.UUID = cmp.Or(firmware.UUID, types.UID(identity))
	firmware.Serial = cmp.Or(firmware.Serial, identity)
}

// facts returns the stated facts of a host, and assumed ones for the rest. The pod of a VMI that a
// profile allows to be emulated has no device for hardware virtualization.
func (c *Cluster) facts(vmi *kubevirtv1.VirtualMachineInstance, namespace map[string]string, stated *StatedFacts) *domain.HostFacts {
	facts := domain.AssumedFacts(vmi)
	settings, _ := c.profiles.Backend(vmi, namespace)
	facts.KVM = !c.standalone() || settings.SoftwareEmulation != v1alpha1.SoftwareEmulationAllow
	if stated == nil {
		return facts
	}
	out := stated.Or(facts)
	out.KVM = ptr.Deref(stated.KVM, facts.KVM)
	return out
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
	raw, err := c.start(ctx, m, raw)
	if err != nil {
		return nil, err
	}
	instance, err := validation.NewVirtualMachineInstance(raw)
	if err != nil {
		return nil, err
	}
	return instance.VMI, nil
}

// launch returns the JSON of the VMI of a stored VM, with the fields of its instancetype and
// preference. A VMI is returned unchanged.
func (c *Cluster) launch(ctx context.Context, m VM, stored []byte) ([]byte, error) {
	if m.Kind == presets.VirtualMachineInstance {
		return stored, nil
	}
	if !c.standalone() {
		vm, err := m.decode(stored)
		if err != nil {
			return nil, err
		}
		find := c.request(ctx, m).Instancetypes
		expanded, _, _ := presets.ExpandInstancetype(vm, find)
		addDevices(vm, expanded)
		vm, _, _ = presets.ExpandInstancetype(vm, find)
		if stored, err = json.Marshal(vm); err != nil {
			return nil, err
		}
	}
	return c.settings.Engine.Launch(ctx, c.snapshot, presets.Request{Kind: m.Kind, Object: stored, Namespace: c.namespace(m.Namespace)})
}

// addDevices adds the input and the network that KubeVirt adds to a VM before its preference sets
// their fields. Whether it does is known from the expanded VM, because the preference decides it.
func addDevices(vm, expanded map[string]any) {
	at := func(fields ...string) []string { return append([]string{"spec", "template", "spec"}, fields...) }
	has := func(fields ...string) bool {
		list, _, _ := unstructured.NestedSlice(vm, at(fields...)...)
		return len(list) > 0
	}
	attached := func(name string, otherwise bool) bool {
		is, isSet, _ := unstructured.NestedBool(expanded, at("domain", "devices", name)...)
		return isSet && is || !isSet && otherwise
	}
	set := func(element map[string]any, fields ...string) {
		_ = unstructured.SetNestedSlice(vm, []any{element}, at(fields...)...) // a mistyped VM is rejected later
	}
	if attached("autoattachInputDevice", false) && !has("domain", "devices", "inputs") {
		set(map[string]any{"name": "default-0"}, "domain", "devices", "inputs")
	}
	if attached("autoattachPodInterface", true) && !has("networks") && !has("domain", "devices", "interfaces") {
		set(map[string]any{"name": "default", "masquerade": map[string]any{}}, "domain", "devices", "interfaces")
		set(map[string]any{"name": "default", "pod": map[string]any{}}, "networks")
	}
}

// start launches a VMI, and adds the defaults that KubeVirt gives it in mode addon.
func (c *Cluster) start(ctx context.Context, m VM, stored []byte) ([]byte, error) {
	raw, err := c.launch(ctx, m, stored)
	if err != nil || c.standalone() {
		return raw, err
	}
	object, err := c.withDefaults(ctx, presets.VirtualMachineInstance, raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// withDefaults returns a VM or VMI with the defaults that KubeVirt gives it when it starts.
func (c *Cluster) withDefaults(ctx context.Context, kind presets.Kind, raw []byte) (map[string]any, error) {
	engine := &presets.Engine{Platform: &presets.Platform{Architecture: c.settings.Rules.Architecture, Alongside: true}}
	result, err := engine.Resolve(ctx, presets.PlatformOnly, presets.Request{Kind: kind, Object: raw})
	if err != nil {
		return nil, err
	}
	return result.Object(), nil
}

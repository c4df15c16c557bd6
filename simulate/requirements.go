package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation"
)

// A preferred is what decides whether a VM meets the requirements of its preference.
type preferred struct {
	preference   instancetypev1.VirtualMachinePreferenceSpec
	instancetype *instancetypev1.VirtualMachineInstancetypeSpec // nil if the VM names none
	template     kubevirtv1.VirtualMachineInstance              // with the fields of both, and KubeVirt's defaults
}

// preferredOf decodes the named matchers of a VM. Known is false if there are none, if one cannot
// be read, as a note says, or if one is invalid, which is reported by itself.
func (c *Cluster) preferredOf(ctx context.Context, m VM, named []presets.Matcher) (p *preferred, known bool) {
	p = &preferred{}
	find := c.request(ctx, m).Instancetypes
	for _, matcher := range named {
		spec, err := find(matcher)
		if err != nil || spec == nil {
			return nil, false
		}
		var into any = &p.preference
		if strings.HasSuffix(matcher.Kind, "Instancetype") {
			p.instancetype = &instancetypev1.VirtualMachineInstancetypeSpec{}
			into = p.instancetype
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, into) != nil {
			return nil, false
		}
	}
	return p, len(named) > 0
}

// unmetRequirement says which requirement of its preference a VM does not meet; empty if it meets
// all. Expanded is the VM with the fields of its matchers.
func (c *Cluster) unmetRequirement(ctx context.Context, p *preferred, expanded map[string]any) (string, error) {
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	if p.preference.Requirements == nil {
		return "", nil
	}
	template, _ := tree.Lookup(expanded, "spec.template")
	raw, err := json.Marshal(map[string]any{
		"apiVersion": kubevirtv1.GroupVersion.String(), "kind": string(presets.VirtualMachineInstance), "spec": tree.AsObject(template)["spec"],
	})
	if err != nil {
		return "", err
	}
	object, err := c.withDefaults(ctx, presets.VirtualMachineInstance, raw)
	if err != nil {
		return "", err
	}
	if err := convert(object, &p.template); err != nil {
		return "", err
	}
	var cpu kubevirtv1.CPU
	sent, _ := tree.Lookup(expanded, "spec.template.spec.domain.cpu")
	if err := convert(tree.AsObject(sent), &cpu); err != nil {
		return "", err
	}
	if cpu.Sockets+cpu.Cores+cpu.Threads > 0 { // KubeVirt does not complete it here
		p.template.Spec.Domain.CPU = &cpu
	}
	return p.unmet(), nil
}

// checkExpanded returns the problems of a VM with the fields of its instancetype and preference.
func (c *Cluster) checkExpanded(ctx context.Context, m VM, expanded map[string]any) (field.ErrorList, error) {
	spec := tree.AsObject(expanded["spec"])
	delete(spec, "instancetype")
	delete(spec, "preference")
	raw, err := json.Marshal(fleet.WithoutRecord(expanded))
	if err != nil {
		return nil, err
	}
	object, err := c.withDefaults(ctx, m.Kind, raw)
	if err != nil {
		return nil, m.rejection(err)
	}
	if raw, err = json.Marshal(object); err != nil {
		return nil, err
	}
	machine, err := validation.NewVirtualMachine(raw)
	if err != nil {
		return nil, m.rejection(err)
	}
	problems := c.settings.Rules.Validate(machine).Errors
	for _, p := range problems {
		p.Detail += "; its instancetype or preference leads to this"
	}
	return problems, nil
}

// unmet follows KubeVirt's pkg/instancetype/preference/requirements.
func (p *preferred) unmet() string {
	required := p.preference.Requirements
	if cpu, provided := required.CPU, p.vCPUs(); cpu != nil && provided < cpu.Guest {
		return fmt.Sprintf("its preference requires %d vCPUs, and it has %d: give it more, or name another preference", cpu.Guest, provided)
	}
	var memory resource.Quantity
	if own := p.template.Spec.Domain.Memory; own != nil && own.Guest != nil {
		memory = *own.Guest
	}
	if required.Memory != nil && memory.Cmp(required.Memory.Guest) < 0 {
		return fmt.Sprintf("its preference requires %s of memory, and it has %s: give it more, or name another preference", &required.Memory.Guest, &memory)
	}
	if arch := required.Architecture; arch != nil && *arch != p.template.Spec.Architecture {
		return fmt.Sprintf("its preference requires the architecture %s, and it has %s: set that one, or name another preference", *arch, p.template.Spec.Architecture)
	}
	return ""
}

// vCPUs returns those that count: all of an instancetype, otherwise the part of the VM's topology
// that the preference uses.
func (p *preferred) vCPUs() uint32 {
	if p.instancetype != nil {
		return p.instancetype.CPU.Guest
	}
	cpu, topology, across := p.template.Spec.Domain.CPU, instancetypev1.Sockets, instancetypev1.SpreadAcrossSocketsCores
	if own := p.preference.CPU; own != nil && own.PreferredCPUTopology != nil {
		topology = *own.PreferredCPUTopology
	}
	if own := p.preference.CPU; own != nil && own.SpreadOptions != nil && own.SpreadOptions.Across != nil {
		across = *own.SpreadOptions.Across
	}
	switch topology {
	case instancetypev1.Threads, instancetypev1.DeprecatedPreferThreads:
		return cpu.Threads
	case instancetypev1.Cores, instancetypev1.DeprecatedPreferCores:
		return cpu.Cores
	case instancetypev1.Sockets, instancetypev1.DeprecatedPreferSockets:
		return cpu.Sockets
	case instancetypev1.Spread, instancetypev1.DeprecatedPreferSpread:
		switch across {
		case instancetypev1.SpreadAcrossSocketsCores:
			return cpu.Sockets * cpu.Cores
		case instancetypev1.SpreadAcrossCoresThreads:
			return cpu.Cores * cpu.Threads
		}
	}
	return cpu.Sockets * cpu.Cores * cpu.Threads
}

package learn

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets"
)

// alike returns VMs of a kind, five with values in common and five without, and what else the first
// have.
func alike(kind presets.Kind, annotations, labels map[string]any) (out []VM) {
	for i := range 10 {
		name := fmt.Sprint("vm-", i)
		spec := map[string]any{"domain": map[string]any{"devices": map[string]any{}}}
		metadata := map[string]any{"name": name}
		if i < 5 {
			spec["schedulerName"], spec["priorityClassName"], spec["dnsPolicy"] = "fast", "high", "None"
			metadata["annotations"], metadata["labels"] = annotations, labels
		}
		object := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": string(kind), "metadata": metadata, "spec": spec}
		if kind == presets.VirtualMachine {
			object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
		}
		out = append(out, VM{Kind: kind, Name: name, Namespace: presets.Namespace{Name: "shop"}, Object: object})
	}
	return out
}

// TestProposals proposes a label for VMs that have values in common, if nothing selects them.
func TestProposals(t *testing.T) {
	for name, test := range map[string]struct {
		kind                presets.Kind
		annotations, labels map[string]any
		want                []string
	}{
		"VMs":                              {presets.VirtualMachine, nil, nil, []string{"group/dnspolicy-none"}},
		"VMIs":                             {presets.VirtualMachineInstance, nil, nil, []string{"group/dnspolicy-none"}},
		"they have a label":                {presets.VirtualMachine, nil, map[string]any{"tier": "fast"}, nil},
		"they may exclude learned presets": {presets.VirtualMachine, map[string]any{"virtwright.dev/exclude": "*"}, nil, nil},
	} {
		out, err := Learn(t.Context(), alike(test.kind, test.annotations, test.labels), Options{Labels: true})
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for _, p := range out.Proposals {
			if got = append(got, p.Label); len(p.VMs) != 5 || len(p.Fields) != 3 {
				t.Errorf("%s: %d VMs have %v", name, len(p.VMs), p.Fields)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: labels (-want, +got):\n%s", name, diff)
		}
	}
}

// TestProposalTakesNoKeyOfOthers: a label that a VM has, with any value, is not proposed.
func TestProposalTakesNoKeyOfOthers(t *testing.T) {
	vms := alike(presets.VirtualMachine, nil, nil)
	vms[9].Object["metadata"].(map[string]any)["labels"] = map[string]any{"group/dnspolicy-none": "false"}
	out, err := Learn(t.Context(), vms, Options{Labels: true})
	if err != nil || len(out.Proposals) != 1 || out.Proposals[0].Label != "group/dnspolicy-none-2" {
		t.Errorf("got %v, %v", out, err)
	}
}

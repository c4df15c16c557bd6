package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/validation"
)

// TestReapplyAnswers checks the VM, or the problems, that a reapply returns.
func TestReapplyAnswers(t *testing.T) {
	server := &Server{
		Engine: &presets.Engine{}, Namespaces: namespaces{"shop": {Name: "shop"}}, Rules: &validation.Config{},
		Snapshots: fixed{presettest.Snapshot(t,
			presettest.Cluster("size", `{match: {labels: {matchLabels: {size: s}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`),
			presettest.Cluster("wrong", `{match: {labels: {matchLabels: {wrong: "1"}}}, overrides: {spec: {template: {spec: {domain: {memory: {guest: 1}}}}}}}`),
			presettest.Cluster("no-rng", `{forbid: [{path: spec.template.spec.domain.devices.rng, message: no random numbers}]}`))},
	}
	for name, tc := range map[string]struct {
		labels, devices, problem string
		presets                  string
	}{
		"unchanged": {},
		"changed":   {labels: "size: s", presets: "cluster/size"},
		"forbidden": {devices: "rng: {}", problem: "spec.template.spec.domain.devices.rng: Forbidden: no random numbers (preset cluster/no-rng)", presets: "cluster/no-rng"},
		"invalid":   {labels: `wrong: "1"`, problem: "must be at least 1M", presets: "cluster/wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := map[bool]string{true: ", memory: {guest: 1Gi}"}[tc.labels == "" || tc.labels == `wrong: "1"`]
			vm := &unstructured.Unstructured{}
			if err := vm.UnmarshalJSON(presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, namespace: shop, annotations: {virtwright.dev/reapply: "only:cluster/no-rng"}, labels: {` + tc.labels +
				`}}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {` + tc.devices + `}` + memory + `}}}}}`)); err != nil {
				t.Fatal(err)
			}
			after, problems, err := server.Reapply(t.Context(), vm)
			if err != nil || (tc.problem == "") != (len(problems) == 0) || !strings.Contains(fmt.Sprint(problems), tc.problem) {
				t.Fatalf("problems %v, error %v, want %q", problems, err, tc.problem)
			}
			drift := fleet.Drift{Problems: problems}
			if after != nil {
				if drift.Changes, err = fleet.ReappliedChanges(vm, after, fleet.NoUpdates); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.Join(drift.Presets(), " "); got != tc.presets {
				t.Errorf("presets %q, want %q", got, tc.presets)
			}
		})
	}
	server.Namespaces = namespaces{}
	if _, problems, err := server.Reapply(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine"}}); err == nil {
		t.Errorf("a namespace that cannot be read is no answer, got problems %q", problems)
	}
}

package presets_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestProblemCauses checks that programs learn the rule and the presets of a rejection without
// reading its text.
func TestProblemCauses(t *testing.T) {
	set := presettest.Snapshot(t,
		cluster("a", "forbid: [{path: spec.template.spec.domain.devices.rng}]\n"+defaults("{machine: {type: q35}}")),
		cluster("b", defaults("{machine: {type: pc}}")))
	_, err := (&presets.Engine{RejectConflicts: true}).Resolve(t.Context(), set, presets.Request{
		Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "lab"},
		Object: presettest.JSON("{metadata: {name: vm}, spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}"),
	})
	rejection, ok := errors.AsType[*presets.Rejection](err)
	if !ok {
		t.Fatalf("want a rejection, got %v", err)
	}
	found := map[string]string{}
	for _, p := range presets.ProblemsOf(rejection.Problems) {
		found[p.Field] = p.Rule() + "|" + strings.Join(p.Presets(), " ")
	}
	want := map[string]string{
		"spec.template.spec.domain.machine.type": "|cluster/a cluster/b",
		"spec.template.spec.domain.devices.rng":  "|cluster/a",
	}
	for at, causes := range want {
		if found[at] != causes {
			t.Errorf("%s: got %q, want %q of %v", at, found[at], causes, found)
		}
	}
	p := presets.NewProblem(field.Invalid(field.NewPath("spec"), "(set by preset mine)", "must be short (other)").WithOrigin(presets.RuleOrigin("short")))
	p.SetBy = "cluster/b"
	if got := p.Rule() + "|" + strings.Join(p.Presets(), " "); got != "short|cluster/b" {
		t.Errorf("got %q", got)
	}
}

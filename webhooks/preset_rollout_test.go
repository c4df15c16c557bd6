package webhooks

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/test/presettest"
)

// TestRolloutWarnings: parts of a rollout that have no effect, or not the one that its author may
// expect, are warned about.
func TestRolloutWarnings(t *testing.T) {
	const spec = `{presets: [cluster/size, cluster/late, cluster/none], waves: [{name: all}, {name: rest}], budgets: [{maxUnavailable: 1}]}`
	p := PresetRollout{Snapshots: fixed{presettest.Snapshot(t,
		presettest.Cluster("size", `defaults: {spec: {template: {spec: {hostname: a}}}}`),
		presettest.Cluster("late", `{applyAt: Launch, overrides: {spec: {template: {spec: {hostname: b}}}}}`))}}
	got := p.Handle(t.Context(), Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Name: "r", Object: runtime.RawExtension{Raw: presettest.JSON("apiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: r}\nspec: " + spec)},
	}})
	if !got.Allowed || len(got.Warnings) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{
		`spec.presets[2]: preset "cluster/none" does not exist`, `spec.presets[1]: preset "cluster/late" applies at launch`,
		"spec.waves[0]: wave all takes all VMs that are left", "spec.budgets: they limit restarts",
	} {
		if !strings.HasPrefix(got.Warnings[i], want) {
			t.Errorf("want %q, got %q", want, got.Warnings[i])
		}
	}
}

package webhooks

import (
	"fmt"
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

// An approval or an abort of something else than the current target is warned about.
func TestRolloutOrdersWithoutEffect(t *testing.T) {
	const rollout = "{metadata: {name: r, annotations: {%s}}, spec: {presets: [cluster/size], waves: [{name: rest}]}, status: {target: t1}}"
	for annotation, wants := range map[string]string{
		"virtwright.dev/rollout-approved: t1/rest":  "",
		"virtwright.dev/rollout-approved: t1/other": `"t1/other" has no effect: the value must be TARGET/WAVE, with status.target, now "t1"`,
		"virtwright.dev/rollout-aborted: t1":        "",
		"virtwright.dev/rollout-aborted: 'true'":    `"true" has no effect: the value must be TARGET, with status.target, now "t1"`,
	} {
		old := presettest.JSON(fmt.Sprintf(rollout, ""))
		req := updates("PresetRollout", "", string(old), string(presettest.JSON(fmt.Sprintf(rollout, annotation))))
		got := strings.Join(PresetRollout{Snapshots: fixed{presettest.Snapshot(t)}}.Handle(t.Context(), req).Warnings, "\n")
		if wants == "" && got != "" || !strings.HasSuffix(got, wants) {
			t.Errorf("%s: got %q", annotation, got)
		}
	}
}

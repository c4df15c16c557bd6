package presetstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/presets"
)

var (
	noon   = metav1.NewTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	before = metav1.NewTime(noon.Add(-time.Hour))
)

func ready(status metav1.ConditionStatus, generation int64, at metav1.Time, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, ObservedGeneration: generation,
		LastTransitionTime: at, Reason: reason, Message: message,
	}
}

// inUse is the status of a preset that was ready before, with more conditions.
func inUse(status v1alpha1.PresetStatus, more ...metav1.Condition) v1alpha1.PresetStatus {
	status.ObservedGeneration = 1
	status.Conditions = append([]metav1.Condition{ready("True", 1, before, "Compiled", "in use")}, more...)
	return status
}

func TestDecide(t *testing.T) {
	other := metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, LastTransitionTime: before}
	bad := field.ErrorList{field.Invalid(field.NewPath("spec", "remove").Index(0), "spec.nowhere", "there is no such field")}
	const text = `spec.remove[0]: Invalid value: "spec.nowhere": there is no such field`
	cases := map[string]struct {
		reason  string
		mode    v1alpha1.Mode
		is      v1alpha1.PresetStatus
		verdict presetcache.Verdict
		late    []string
		// deprecated is why the preset would be rejected today.
		deprecated field.ErrorList
		// seen has the other facts.
		seen    observation
		want    v1alpha1.PresetStatus
		changed bool
	}{
		"New": {
			reason: "a preset that compiles is ready", verdict: presetcache.Verdict{Generation: 1}, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, noon, "Compiled", "in use")}},
		},
		"Off": {
			reason: "the message has the mode Off", mode: v1alpha1.ModeOff, verdict: presetcache.Verdict{Generation: 1}, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, noon, "Compiled", "in use, but without effect: mode is Off")}},
		},
		"Late": {
			reason: "it waits for replicas that do not use it", verdict: presetcache.Verdict{Generation: 1}, late: []string{"a", "b"}, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("False", 1, noon, "Pending", "not in use yet by a, b")}},
		},
		"Same": {
			reason:  "what stands there is not written again",
			is:      v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use")}},
			verdict: presetcache.Verdict{Generation: 1},
			want:    v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use")}},
		},
		"NextGeneration": {
			reason:  "the condition keeps its time when only the generation moves",
			is:      v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use")}},
			verdict: presetcache.Verdict{Generation: 2}, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{ready("True", 2, before, "Compiled", "in use")}},
		},
		"Deprecated": {
			reason:  "a preset that would be rejected today stays Ready, and Deprecated has the reasons",
			is:      v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use")}},
			verdict: presetcache.Verdict{Generation: 1}, deprecated: bad, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use"), {
				Type: "Deprecated", Status: "True", Reason: "WouldBeRejected", ObservedGeneration: 1, LastTransitionTime: noon,
				Message: "the preset still applies, but would be rejected if it were created today: " + text,
			}}},
		},
		"NotDeprecatedAnyMore": {
			reason:  "the condition goes when the preset is fixed",
			is:      v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use"), {Type: "Deprecated", Status: "True"}}},
			verdict: presetcache.Verdict{Generation: 1}, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{ready("True", 1, before, "Compiled", "in use")}},
		},
		"Counted": {
			reason: "counts come from records, and the time is to the minute", verdict: presetcache.Verdict{Generation: 1}, changed: true,
			is:   inUse(v1alpha1.PresetStatus{}),
			seen: observation{usage: &presetusage.Counts{Matched: 7, Outdated: 2, LastApplied: noon.Add(59 * time.Second)}},
			want: inUse(v1alpha1.PresetStatus{Matched: new(int64(7)), Outdated: new(int64(2)), LastAppliedTime: &noon}),
		},
		"CountedBefore": {
			reason: "equal counts are not written, and the time never goes back", verdict: presetcache.Verdict{Generation: 1},
			is:   inUse(v1alpha1.PresetStatus{Matched: new(int64(7)), Outdated: new(int64(2)), LastAppliedTime: &noon}),
			seen: observation{usage: &presetusage.Counts{Matched: 7, Outdated: 2, LastApplied: before.Time}},
			want: inUse(v1alpha1.PresetStatus{Matched: new(int64(7)), Outdated: new(int64(2)), LastAppliedTime: &noon}),
		},
		"Audit": {
			reason: "records do not say on which VMs it would act", mode: v1alpha1.ModeAudit, verdict: presetcache.Verdict{Generation: 1}, changed: true,
			is:   inUse(v1alpha1.PresetStatus{}),
			seen: observation{usage: &presetusage.Counts{Matched: 7}, scan: &Counts{Acting: new(int64(3)), Violating: new(int64(1)), Drifted: new(int64(5)), At: noon.Time}},
			want: inUse(v1alpha1.PresetStatus{Matched: new(int64(3)), Outdated: new(int64(0)), Violating: new(int64(1)), Drifted: new(int64(5)), ObservedAt: &noon}),
		},
		"AuditBeforeTheScan": {
			reason: "what an earlier leader counted stays", mode: v1alpha1.ModeAudit, verdict: presetcache.Verdict{Generation: 1}, changed: true,
			is:   inUse(v1alpha1.PresetStatus{Matched: new(int64(3)), Violating: new(int64(1)), ObservedAt: &before}),
			seen: observation{usage: &presetusage.Counts{}},
			want: inUse(v1alpha1.PresetStatus{Matched: new(int64(3)), Outdated: new(int64(0)), Violating: new(int64(1)), ObservedAt: &before}),
		},
		"AuditOfAnotherGeneration": {
			reason: "absent means not counted yet", mode: v1alpha1.ModeAudit, verdict: presetcache.Verdict{Generation: 2}, changed: true,
			is:   inUse(v1alpha1.PresetStatus{Matched: new(int64(3)), Violating: new(int64(1)), ObservedAt: &before}),
			want: v1alpha1.PresetStatus{ObservedGeneration: 2, Conditions: []metav1.Condition{ready("True", 2, before, "Compiled", "in use")}},
		},
		"Conflicting": {
			reason: "both presets of a conflict have the condition", verdict: presetcache.Verdict{Generation: 1}, changed: true,
			is: inUse(v1alpha1.PresetStatus{}),
			seen: observation{analysed: true, findings: []fleet.Finding{
				{Check: fleet.Conflicting, Preset: presets.PresetName{Namespace: "shop", Ref: "b"}, Message: "b and a"},
				{Check: fleet.Conflicting, Preset: presets.PresetName{Namespace: "shop", Ref: "c"}, Other: presets.PresetName{Namespace: "shop", Ref: "b"}, Message: "c and b"},
			}},
			want: inUse(v1alpha1.PresetStatus{}, metav1.Condition{
				Type: "Conflicting", Status: "True", Reason: "SamePriority", Message: "b and a; preset c: c and b", ObservedGeneration: 1, LastTransitionTime: noon,
			}),
		},
		"NotAnalysedYet": {
			reason: "a condition stays until presets were analysed", verdict: presetcache.Verdict{Generation: 1},
			is:   inUse(v1alpha1.PresetStatus{}, metav1.Condition{Type: "Shadowed", Status: "True"}),
			want: inUse(v1alpha1.PresetStatus{}, metav1.Condition{Type: "Shadowed", Status: "True"}),
		},
		"MayBeShadowedStill": {
			reason: "a condition stays if not all pairs of presets were tried", verdict: presetcache.Verdict{Generation: 1},
			is:   inUse(v1alpha1.PresetStatus{}, metav1.Condition{Type: "Shadowed", Status: "True"}),
			seen: observation{analysed: true, partial: true},
			want: inUse(v1alpha1.PresetStatus{}, metav1.Condition{Type: "Shadowed", Status: "True"}),
		},
		"ShadowedNoMore": {
			reason: "a condition that does not hold is absent", verdict: presetcache.Verdict{Generation: 1}, changed: true,
			is:   inUse(v1alpha1.PresetStatus{}, metav1.Condition{Type: "Shadowed", Status: "True"}),
			seen: observation{analysed: true}, want: inUse(v1alpha1.PresetStatus{}),
		},
		"BecameInvalid": {
			reason:  "the message has the problems; conditions of other writers stay",
			is:      v1alpha1.PresetStatus{ObservedGeneration: 1, Matched: new(int64(3)), Conditions: []metav1.Condition{other, ready("True", 1, before, "Compiled", "in use")}},
			verdict: presetcache.Verdict{Generation: 2, Problems: bad}, changed: true,
			want: v1alpha1.PresetStatus{ObservedGeneration: 2, Matched: new(int64(3)), Conditions: []metav1.Condition{other, ready("False", 2, noon, "Invalid", text)}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			preset := &v1alpha1.VirtualMachinePreset{Spec: v1alpha1.PresetSpec{Mode: tc.mode}, Status: tc.is}
			preset.Namespace, preset.Name = "shop", "b"
			seen := tc.seen
			seen.verdict, seen.lateReplicas, seen.violations = tc.verdict, tc.late, tc.deprecated
			if got := decide(preset, seen, noon); got != tc.changed {
				t.Errorf("%s: want changed %t, got %t", tc.reason, tc.changed, got)
			}
			if diff := cmp.Diff(tc.want, preset.Status); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMessageIsBounded(t *testing.T) {
	var problems field.ErrorList
	for range 8 {
		problems = append(problems, field.Required(field.NewPath("spec"), "x"))
	}
	if got := message(problems); strings.Count(got, "Required") != maxProblems || !strings.HasSuffix(got, "; and 3 more") {
		t.Errorf("got %s", got)
	}
	if got := message(field.ErrorList{field.Required(field.NewPath("spec"), "\x1b[2J")}); got != `spec: Required value: \u001b[2J` {
		t.Errorf("got %q", got)
	}
	long := message(field.ErrorList{field.Required(field.NewPath("spec"), strings.Repeat("ä", 10_000))})
	if len(long) > maxMessageBytes+10 || strings.ToValidUTF8(long, "?") != long {
		t.Errorf("got %d bytes", len(long))
	}
}

package presetstatus

import (
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/presets"
)

const (
	// maxProblems is how many problems a message names before it counts the rest.
	maxProblems = 5
	// maxMessageBytes bounds the message; conditions may have 32 KiB.
	maxMessageBytes = 4 << 10
)

// An observation is what status says of the present generation of a preset.
type observation struct {
	verdict presetcache.Verdict
	// without are the replicas that do not serve with it yet.
	without []string
	// deprecated says why it could not be created any more.
	deprecated field.ErrorList
	// counts are those of VMs, if they are counted.
	counts  presetusage.Counts
	counted bool
}

// decide brings the status of a preset in line with what was observed, and reports
// whether that changed anything.
func decide(preset v1alpha1.Preset, seen observation, now metav1.Time) bool {
	status, verdict, without := preset.GetStatus(), seen.verdict, seen.without
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompiled,
		Message: "in use", ObservedGeneration: verdict.Generation, LastTransitionTime: now,
	}
	switch {
	case len(verdict.Problems) > 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalid, message(verdict.Problems)
	case len(without) > 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonPending, "not in use yet by "+strings.Join(without, ", ")
	case preset.GetSpec().Mode == v1alpha1.ModeOff:
		ready.Message = "in use, and does nothing: mode is Off"
	}
	changed := meta.SetStatusCondition(&status.Conditions, ready)
	if setDeprecated(status, seen, now) {
		changed = true
	}
	if setCounts(status, seen) {
		changed = true
	}
	if status.ObservedGeneration != verdict.Generation {
		status.ObservedGeneration, changed = verdict.Generation, true
	}
	return changed
}

// setCounts sets the counts, if VMs are counted, and reports whether that changed anything.
func setCounts(status *v1alpha1.PresetStatus, seen observation) bool {
	if !seen.counted {
		return false
	}
	before := *status
	status.Matched, status.Outdated = &seen.counts.Matched, &seen.counts.Outdated
	if len(seen.verdict.Problems) > 0 {
		status.Outdated = nil // what it would give is unknown
	}
	// To the minute, so that VMs that are changed again and again cause few writes.
	last := metav1.NewTime(seen.counts.LastApplied.Truncate(time.Minute))
	if is := status.LastAppliedTime; !last.IsZero() && (is == nil || is.Before(&last)) {
		status.LastAppliedTime = &last
	}
	return !apiequality.Semantic.DeepEqual(before, *status)
}

// setDeprecated sets or removes the condition Deprecated, and reports whether that changed
// anything.
func setDeprecated(status *v1alpha1.PresetStatus, seen observation, now metav1.Time) bool {
	if len(seen.deprecated) == 0 {
		return meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDeprecated)
	}
	return meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDeprecated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWouldBeRejected,
		Message:            "the preset keeps acting, and could not be created any more: " + message(seen.deprecated),
		ObservedGeneration: seen.verdict.Generation, LastTransitionTime: now,
	})
}

// message names the first problems.
func message(problems field.ErrorList) string {
	var lines []string
	for _, p := range problems[:min(len(problems), maxProblems)] {
		lines = append(lines, p.Error())
	}
	text := strings.Join(lines, "; ")
	text = presets.Cut(text, maxMessageBytes)
	if more := len(problems) - maxProblems; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

package exceptionstatus

import (
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/presets"
)

// maxNames is how many VMs status names.
const maxNames = 50

// A plan is what is to do about an exception.
type plan struct {
	// changed says that status is to be written.
	changed bool
	// wake is when to look again; 0 means not by the clock.
	wake time.Duration
	// event is about what status began to say; nil for none.
	event *event
}

// An event is a reason and a note.
type event struct{ reason, note string }

// decide brings the status of an exception in line with the VMs that use it and with the time. Use
// is nil while VMs are not counted.
func decide(e *v1alpha1.PresetException, use *presetusage.ExceptionUse, now time.Time) plan {
	var out plan
	before := e.Status.DeepCopy()
	setUse(&e.Status, use)
	e.Status.ObservedGeneration = e.Generation
	active := metav1.Condition{
		Type: v1alpha1.ConditionActive, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInForce, Message: "in force",
		ObservedGeneration: e.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	compiled, problems := presets.CompileException(e)
	switch {
	case len(problems) > 0:
		active.Status, active.Reason, active.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalid, presets.Cut(problems.ToAggregate().Error(), maxMessage)
	case compiled.Until.IsZero():
	case compiled.Expired(now):
		active.Status, active.Reason, active.Message = metav1.ConditionFalse, v1alpha1.ReasonExpired, "ended at "+ofTime(compiled.Until)
	case compiled.Until.Sub(now) <= presets.EndsSoon:
		active.Reason, active.Message = v1alpha1.ReasonEndsSoon, "ends at "+ofTime(compiled.Until)
		out.wake = compiled.Until.Sub(now)
	default:
		out.wake = compiled.Until.Sub(now) - presets.EndsSoon
	}
	out.event = eventOf(meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionActive), &active, e.Status.Matched)
	meta.SetStatusCondition(&e.Status.Conditions, active)
	out.changed = !apiequality.Semantic.DeepEqual(before, &e.Status)
	return out
}

// maxMessage bounds the message of the condition.
const maxMessage = 4 << 10

func ofTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// setUse sets what is known of VMs.
func setUse(status *v1alpha1.PresetExceptionStatus, use *presetusage.ExceptionUse) {
	if use == nil {
		return
	}
	status.Matched = new(int64(len(use.VMs)))
	status.VMs = use.VMs[:min(len(use.VMs), maxNames)]
	// To the minute, so that VMs that come one after the other cause few writes.
	last := metav1.NewTime(use.LastUsed.Truncate(time.Minute))
	if !use.LastUsed.IsZero() && (status.LastUsed == nil || status.LastUsed.Before(&last)) {
		status.LastUsed = &last
	}
}

// eventOf is the event about a condition that has another reason than before.
func eventOf(was, is *metav1.Condition, matched *int64) *event {
	if was != nil && was.Reason == is.Reason {
		return nil
	}
	n := int64(0)
	if matched != nil {
		n = *matched
	}
	switch is.Reason {
	case v1alpha1.ReasonEndsSoon:
		use := fmt.Sprintf("%d VMs use it", n)
		if n == 1 {
			use = "1 VM uses it"
		}
		return &event{is.Reason, "exception " + is.Message + "; " + use}
	case v1alpha1.ReasonExpired:
		keep := fmt.Sprintf("%d VMs keep what they have until their spec is updated", n)
		if n == 1 {
			keep = "1 VM keeps what it has until its spec is updated"
		}
		return &event{is.Reason, "exception " + is.Message + "; " + keep}
	}
	return nil
}

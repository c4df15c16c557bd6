package presetstatus

import (
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

const (
	maxProblems     = 5
	maxMessageBytes = 4 << 10 // limits messages, well below the 32 KiB of conditions
	maxVMNames      = 50
)

// An observation holds the facts about a generation of a preset that status reports.
type observation struct {
	verdict      presetcache.Verdict
	lateReplicas []string
	violations   field.ErrorList     // why the preset would be rejected if it were created today
	usage        *presetusage.Counts // counts VMs by their records; nil until they are counted
	scan         *Counts             // counts stored VMs; nil until they are scanned
	// findings concern the preset among other presets. They are unknown unless analysed is set, and
	// may be incomplete if partial is set.
	findings []fleet.Finding
	analysed bool
	partial  bool
}

// decide changes the status of a preset to match an observation, and reports whether it changed.
func decide(preset v1alpha1.Preset, o observation, now metav1.Time) bool {
	status := preset.GetStatus()
	before := status.DeepCopy()
	condition := metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: o.verdict.Generation, LastTransitionTime: now}
	meta.SetStatusCondition(&status.Conditions, readyCondition(condition, preset, o))
	if len(o.violations) > 0 {
		deprecated := condition
		deprecated.Type, deprecated.Reason = v1alpha1.ConditionDeprecated, v1alpha1.ReasonWouldBeRejected
		deprecated.Message = "the preset still applies, but would be rejected if it were created today: " + message(o.violations)
		meta.SetStatusCondition(&status.Conditions, deprecated)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionDeprecated)
	}
	setCounts(preset, o)
	setFindings(status, condition, o, presets.ParseRef(preset.GetNamespace(), presets.RefOf(preset)))
	status.ObservedGeneration = o.verdict.Generation
	return !apiequality.Semantic.DeepEqual(before, status)
}

func readyCondition(c metav1.Condition, preset v1alpha1.Preset, o observation) metav1.Condition {
	c.Type, c.Reason, c.Message = v1alpha1.ConditionReady, v1alpha1.ReasonCompiled, "in use"
	switch {
	case len(o.verdict.Problems) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalid, message(o.verdict.Problems)
	case len(o.lateReplicas) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonPending, "not in use yet by "+strings.Join(o.lateReplicas, ", ")
	case preset.GetSpec().Mode == v1alpha1.ModeOff:
		c.Message = "in use, but without effect: mode is Off"
	}
	return c
}

func setCounts(preset v1alpha1.Preset, o observation) {
	status := preset.GetStatus()
	dryRun := isDryRun(preset.GetSpec().Mode)
	if o.usage != nil {
		setUsage(status, o, dryRun)
	}
	switch {
	case o.scan != nil:
		status.Violating, status.Drifted = o.scan.Violating, o.scan.Drifted
		status.ObservedAt = new(metav1.NewTime(o.scan.At.Truncate(time.Second)))
		if dryRun {
			status.Matched = o.scan.Acting
		}
	case status.ObservedGeneration != o.verdict.Generation: // the counts are about another generation
		status.Violating, status.Drifted, status.ObservedAt = nil, nil, nil
		if dryRun {
			status.Matched = nil
		}
	}
}

// isDryRun reports whether presets of a mode only report what they would change.
func isDryRun(mode v1alpha1.Mode) bool {
	return mode == v1alpha1.ModeWarn || mode == v1alpha1.ModeAudit
}

// setUsage sets the counts by records, which do not have presets in a dry run.
func setUsage(status *v1alpha1.PresetStatus, o observation, dryRun bool) {
	status.Outdated = &o.usage.Outdated
	if len(o.verdict.Problems) > 0 {
		status.Outdated = nil // the content of this generation is unknown
	}
	if !dryRun {
		status.Matched = &o.usage.Matched
	}
	// Minutes are precise enough, and frequent changes of VMs cause few writes.
	last := metav1.NewTime(o.usage.LastApplied.Truncate(time.Minute))
	if is := status.LastAppliedTime; !last.IsZero() && (is == nil || is.Before(&last)) {
		status.LastAppliedTime = &last
	}
}

var findingConditions = []struct {
	check             *fleet.Check
	condition, reason string
}{
	{fleet.Conflicting, v1alpha1.ConditionConflicting, v1alpha1.ReasonSamePriority},
	{fleet.Shadowed, v1alpha1.ConditionShadowed, v1alpha1.ReasonOverruled},
	{fleet.Unreachable, v1alpha1.ConditionUnreachable, v1alpha1.ReasonMatchesNothing},
}

// setFindings sets or removes the conditions of findings, once presets were analysed.
func setFindings(status *v1alpha1.PresetStatus, c metav1.Condition, o observation, name presets.PresetName) {
	for _, kind := range findingConditions {
		messages := findingMessages(o.findings, kind.check, name)
		switch {
		case len(o.verdict.Problems) == 0 && !o.analysed:
		case len(messages) == 0 && o.partial: // the finding may be missing
		case len(messages) == 0:
			meta.RemoveStatusCondition(&status.Conditions, kind.condition)
		default:
			c.Type, c.Reason, c.Message = kind.condition, kind.reason, joined(messages)
			meta.SetStatusCondition(&status.Conditions, c)
		}
	}
}

// findingMessages returns the messages of a check. A finding about another preset names it.
func findingMessages(findings []fleet.Finding, check *fleet.Check, name presets.PresetName) []string {
	var out []string
	for _, f := range findings {
		switch {
		case f.Check != check:
		case f.Preset == name:
			out = append(out, f.Message)
		default:
			out = append(out, "preset "+f.Preset.Ref+": "+f.Message)
		}
	}
	return out
}

func message(problems field.ErrorList) string {
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		lines = append(lines, p.Error())
	}
	return joined(lines)
}

// joined joins the first texts and counts the rest.
func joined(texts []string) string {
	out := tree.Truncate(presets.Escape(strings.Join(texts[:min(len(texts), maxProblems)], "; ")), maxMessageBytes)
	if more := len(texts) - maxProblems; more > 0 {
		out += fmt.Sprintf("; and %d more", more)
	}
	return out
}

// An exceptionDecision holds the next actions for an exception.
type exceptionDecision struct {
	changed      bool
	requeueAfter time.Duration // zero unless the clock changes status
	reason, note string        // of an event; empty for none
}

// decideException changes the status of an exception to match the VMs that use it, which are nil
// until they are counted, and the time.
func decideException(e *v1alpha1.PresetException, use *presetusage.ExceptionUse, now time.Time) exceptionDecision {
	var out exceptionDecision
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
		active.Status, active.Reason, active.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalid, tree.Truncate(presets.Escape(problems.ToAggregate().Error()), maxMessageBytes)
	case compiled.Until.IsZero():
	case compiled.Expired(now):
		active.Status, active.Reason, active.Message = metav1.ConditionFalse, v1alpha1.ReasonExpired, "ended at "+compiled.Until.UTC().Format(time.RFC3339)
	case compiled.Until.Sub(now) <= presets.ExceptionWarningPeriod:
		active.Reason, active.Message = v1alpha1.ReasonEndsSoon, "ends at "+compiled.Until.UTC().Format(time.RFC3339)
		out.requeueAfter = compiled.Until.Sub(now)
	default:
		out.requeueAfter = compiled.Until.Sub(now) - presets.ExceptionWarningPeriod
	}
	if was := meta.FindStatusCondition(before.Conditions, active.Type); was == nil || was.Reason != active.Reason {
		out.reason, out.note = exceptionEvent(active, e.Status.Matched)
	}
	meta.SetStatusCondition(&e.Status.Conditions, active)
	out.changed = !apiequality.Semantic.DeepEqual(before, &e.Status)
	return out
}

func setUse(status *v1alpha1.PresetExceptionStatus, use *presetusage.ExceptionUse) {
	if use == nil {
		return
	}
	status.Matched = new(int64(len(use.VMs)))
	status.VMs = use.VMs[:min(len(use.VMs), maxVMNames)]
	// Minutes are precise enough, and frequent changes of VMs cause few writes.
	last := metav1.NewTime(use.LastUsed.Truncate(time.Minute))
	if !use.LastUsed.IsZero() && (status.LastUsed == nil || status.LastUsed.Before(&last)) {
		status.LastUsed = &last
	}
}

func exceptionEvent(active metav1.Condition, matched *int64) (reason, note string) {
	texts, ok := map[string]struct{ one, many string }{
		v1alpha1.ReasonEndsSoon: {"1 VM uses it", "%d VMs use it"},
		v1alpha1.ReasonExpired:  {"1 VM keeps what it has until its spec is updated", "%d VMs keep what they have until their spec is updated"},
	}[active.Reason]
	if !ok {
		return "", ""
	}
	n := ptr.Deref(matched, 0)
	text := fmt.Sprintf(texts.many, n)
	if n == 1 {
		text = texts.one
	}
	return active.Reason, "exception " + active.Message + "; " + text
}

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
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetscan"
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
	// usage has the counts of VMs by their records; nil while they are not counted.
	usage *presetusage.Counts
	// scan has the counts of whole VMs; nil while they were not scanned.
	scan *presetscan.Counts
	// findings are those about the preset beside others, if analysed says that they are known.
	findings []fleet.Finding
	analysed bool
	// partial says that there may be other findings.
	partial bool
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
	if setCounts(preset, seen) {
		changed = true
	}
	if setBesideOthers(status, seen, presets.NameIn(preset.GetNamespace(), presets.RefOf(preset)), now) {
		changed = true
	}
	if status.ObservedGeneration != verdict.Generation {
		status.ObservedGeneration, changed = verdict.Generation, true
	}
	return changed
}

// setCounts sets the counts, as far as VMs are counted, and reports whether that changed anything.
func setCounts(preset v1alpha1.Preset, seen observation) bool {
	status, mode := preset.GetStatus(), preset.GetSpec().Mode
	before := *status
	tries := mode == v1alpha1.ModeWarn || mode == v1alpha1.ModeAudit
	if seen.usage != nil {
		setUsage(status, seen, tries)
	}
	switch scan := seen.scan; {
	case scan != nil:
		status.Violating, status.ObservedAt = scan.Violating, new(metav1.NewTime(scan.At.Truncate(time.Second)))
		if tries {
			status.Matched = scan.Acting
		}
	case status.ObservedGeneration != seen.verdict.Generation: // they are about another generation
		status.Violating, status.ObservedAt = nil, nil
		if tries {
			status.Matched = nil
		}
	}
	return !apiequality.Semantic.DeepEqual(before, *status)
}

// setUsage sets what records of VMs say. They do not say on which VMs a preset would act.
func setUsage(status *v1alpha1.PresetStatus, seen observation, tries bool) {
	status.Outdated = &seen.usage.Outdated
	if len(seen.verdict.Problems) > 0 {
		status.Outdated = nil // what it would give is unknown
	}
	if !tries {
		status.Matched = &seen.usage.Matched
	}
	// To the minute, so that VMs that are changed again and again cause few writes.
	last := metav1.NewTime(seen.usage.LastApplied.Truncate(time.Minute))
	if is := status.LastAppliedTime; !last.IsZero() && (is == nil || is.Before(&last)) {
		status.LastAppliedTime = &last
	}
}

// besideOthers are the conditions of a preset that does not work with others, by check.
var besideOthers = []struct {
	check        *fleet.Check
	kind, reason string
}{
	{fleet.Conflicting, v1alpha1.ConditionConflicting, v1alpha1.ReasonSamePriority},
	{fleet.Shadowed, v1alpha1.ConditionShadowed, v1alpha1.ReasonOverruled},
	{fleet.Unreachable, v1alpha1.ConditionUnreachable, v1alpha1.ReasonMatchesNothing},
}

// setBesideOthers sets or removes the conditions that other presets cause, once presets were
// analysed, and reports whether that changed anything.
func setBesideOthers(status *v1alpha1.PresetStatus, seen observation, name presets.PresetName, now metav1.Time) bool {
	changed := false
	for _, c := range besideOthers {
		texts := textsOf(seen.findings, c.check, name)
		switch {
		case len(seen.verdict.Problems) == 0 && !seen.analysed:
		case len(texts) == 0 && seen.partial: // it may hold still
		case len(texts) == 0:
			changed = meta.RemoveStatusCondition(&status.Conditions, c.kind) || changed
		default:
			changed = meta.SetStatusCondition(&status.Conditions, metav1.Condition{
				Type: c.kind, Status: metav1.ConditionTrue, Reason: c.reason, Message: joined(texts),
				ObservedGeneration: seen.verdict.Generation, LastTransitionTime: now,
			}) || changed
		}
	}
	return changed
}

// textsOf are the messages of a check. One that is about the other preset names it.
func textsOf(findings []fleet.Finding, check *fleet.Check, name presets.PresetName) []string {
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
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		lines = append(lines, p.Error())
	}
	return joined(lines)
}

// joined has the first texts, and how many there are more.
func joined(texts []string) string {
	out := presets.Cut(strings.Join(texts[:min(len(texts), maxProblems)], "; "), maxMessageBytes)
	if more := len(texts) - maxProblems; more > 0 {
		out += fmt.Sprintf("; and %d more", more)
	}
	return out
}

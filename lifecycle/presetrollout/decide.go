package presetrollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// observed are the presets of a rollout as they are.
type observed struct {
	uid types.UID // of the rollout
	// presets as they are, by reference; none for presets that do not exist.
	presets map[string]version
	// lost are the presets whose stable revision was deleted.
	lost []string
	// aborted is the target that people aborted.
	aborted string
}

// A version is a preset in one generation.
type version struct {
	uid        types.UID
	generation int64
}

// retarget returns the status after changes of presets, and after an abort. A change begins again
// before the first wave. A preset that was deleted is gone everywhere, at once; so is a stable
// revision that was deleted.
func retarget(spec *v1alpha1.PresetRolloutSpec, before *v1alpha1.PresetRolloutStatus, now observed) *v1alpha1.PresetRolloutStatus {
	out := before.DeepCopy()
	out.Presets = nil
	restart := false
	for _, ref := range spec.Presets {
		p := v1alpha1.RolloutPreset{Name: ref, UID: now.presets[ref].uid, Target: now.presets[ref].generation}
		p.Stable = p.Target
		if i := slices.IndexFunc(before.Presets, func(p v1alpha1.RolloutPreset) bool { return p.Name == ref }); i >= 0 {
			p = since(before.Presets[i], p)
			restart = restart || p.Target != before.Presets[i].Target || !presets.IsOf(before.Presets[i], p.UID)
		}
		if p.Target == 0 || slices.Contains(now.lost, ref) {
			p.Stable = p.Target
		}
		out.Presets = append(out.Presets, p)
	}
	out.Target = targetOf(now.uid, out.Presets)
	if out.Target != before.Target || restart {
		out.Aborted = false
		if restart || isActive(out) { // otherwise the change is complete, and the last counts stay
			reach(out, "", "")
		}
	}
	out.Aborted = out.Aborted || isActive(out) && now.aborted == out.Target
	return out
}

// since returns the revisions of a preset after a change. A preset with another UID is a new one,
// which no VM has. A generation that is older than the last one comes from an old cache.
func since(before, now v1alpha1.RolloutPreset) v1alpha1.RolloutPreset {
	if presets.IsOf(before, now.UID) {
		now.Stable, now.Target = before.Stable, max(now.Target, before.Target)
	} else {
		now.Stable = 0
	}
	return now
}

// targetOf identifies the change that is rolled out.
func targetOf(uid types.UID, presets []v1alpha1.RolloutPreset) string {
	var text strings.Builder
	text.WriteString(string(uid))
	for _, p := range presets {
		if p.Stable != p.Target {
			fmt.Fprintf(&text, " %s %s %d", p.Name, p.UID, p.Target)
		}
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:4])
}

// isActive reports whether VMs have different revisions.
func isActive(s *v1alpha1.PresetRolloutStatus) bool {
	return slices.ContainsFunc(s.Presets, func(p v1alpha1.RolloutPreset) bool { return p.Stable != p.Target })
}

// reach begins a step.
func reach(s *v1alpha1.PresetRolloutStatus, wave, step string) {
	s.Wave, s.Step, s.BakesSince = wave, step, nil
	s.Selected, s.Updated, s.Waiting, s.Held, s.Failed, s.Failures = nil, nil, nil, nil, nil, nil
}

// counts are the numbers of VMs in the steps that were reached. Those that wait are updated, and
// those that the rollout restarts, or has restarted, are some of these.
type counts struct{ selected, updated, waiting, restarting, held, failed int64 }

func (c counts) pending() int64 { return c.selected - c.updated - c.held - c.failed }

// orders are what people want of a rollout.
type orders struct {
	paused   bool
	approved string // TARGET/WAVE
}

// Reasons of the condition Progressing.
const (
	reasonUpdating = "Updating"
	reasonBaking   = "Baking"
	reasonComplete = "Complete"
	reasonPaused   = "Paused"
	reasonApproval = "WaitingForApproval"
	reasonFailed   = "Failed"
	reasonAborting = "Aborting"
	reasonAborted  = "Aborted"
	reasonInvalid  = "Invalid"
)

// A step is what a rollout does next.
type step struct {
	reason  string
	message string
	// update says that VMs are updated, or taken back to the stable revision. Between steps, only
	// those that have failed are left.
	update bool
	// restart says that VMs are restarted within budgets.
	restart bool
	// wait is the time until the next decision; 0 if a change comes first.
	wait time.Duration
}

// advance returns the next status and what to do. Of counts the VMs of the steps that were reached.
func advance(spec *v1alpha1.PresetRolloutSpec, before *v1alpha1.PresetRolloutStatus, of counts, wanted orders, now time.Time) (*v1alpha1.PresetRolloutStatus, step) {
	out := before.DeepCopy()
	restarts := spec.Restart == v1alpha1.RestartRolling && of.restarting > 0
	switch {
	case !isActive(out):
		return complete(out)
	case wanted.paused:
		out.BakesSince = nil // nothing bakes during a pause
		return out, step{reason: reasonPaused, message: "paused by the annotation " + v1alpha1.AnnotationRolloutPaused + ": use virtwright rollout resume"}
	case out.Aborted:
		return out, undo(before, of, restarts)
	case out.Wave == "":
		return enter(spec, out, 0, wanted)
	}
	wave := slices.IndexFunc(spec.Waves, func(w v1alpha1.RolloutWave) bool { return w.Name == out.Wave })
	if wave < 0 { // it was removed
		reach(out, "", "")
		return enter(spec, out, 0, wanted)
	}
	out.BakesSince = notAfter(out.BakesSince, now)
	left := bakeOf(&spec.Waves[wave], out.BakesSince, now)
	isBaking := out.BakesSince != nil && left > 0 // owners restart VMs then, too
	if next, done := work(spec, out, of, restarts && !isBaking); !done {
		if next.reason == reasonFailed {
			out.BakesSince = nil
		}
		return out, next
	}
	if out.BakesSince == nil {
		out.BakesSince = &metav1.Time{Time: now}
	}
	if left > 0 {
		return out, step{reason: reasonBaking, message: fmt.Sprintf("wave %s bakes up to %s", out.Wave, out.Step), update: true, wait: left}
	}
	if next := nextStep(&spec.Waves[wave], out.Step); next != "" {
		reach(out, out.Wave, next)
		return out, step{reason: reasonUpdating, message: fmt.Sprintf("wave %s begins up to %s", out.Wave, next)}
	}
	return enter(spec, out, wave+1, wanted)
}

// notAfter corrects a time by the clock of an earlier leader that was wrong.
func notAfter(t *metav1.Time, now time.Time) *metav1.Time {
	if t != nil && t.After(now) {
		return &metav1.Time{Time: now}
	}
	return t
}

// bakeOf returns how long a step has to bake; nil for one that has not begun to.
func bakeOf(w *v1alpha1.RolloutWave, since *metav1.Time, now time.Time) time.Duration {
	switch {
	case w.Bake == nil:
		return 0
	case since == nil:
		return w.Bake.Duration
	}
	return w.Bake.Duration - now.Sub(since.Time)
}

// undo takes VMs back. When that is done, those that need a restart later, or fail, do so for other
// reasons.
func undo(before *v1alpha1.PresetRolloutStatus, of counts, restarts bool) step {
	left, failed := of.pending(), of.failed
	if c := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionProgressing); c != nil && c.Reason == reasonAborted {
		failed, restarts = 0, false
	}
	if left+failed == 0 && !restarts {
		return step{reason: reasonAborted, message: "VMs have the stable revision until a preset changes"}
	}
	if left == 0 && !restarts {
		return step{reason: reasonFailed, message: fmt.Sprintf("VMs that cannot go back to the stable revision, or are not ready with it: %d; see status.failures", failed), update: true}
	}
	message := fmt.Sprintf("VMs that go back to the stable revision: %d", left)
	if failed > 0 {
		message += fmt.Sprintf("; failed: %d", failed)
	}
	if restarts {
		message += fmt.Sprintf("; waiting for a restart, or to be ready: %d", of.restarting)
	}
	return step{reason: reasonAborting, message: message, update: true, restart: restarts}
}

// work returns the rest of the work in the step that was reached. Done says that there is none.
func work(spec *v1alpha1.PresetRolloutSpec, at *v1alpha1.PresetRolloutStatus, of counts, restarts bool) (next step, done bool) {
	hasFailed := of.failed > allowed(spec, of.selected)
	switch {
	case of.pending() > 0:
		message := fmt.Sprintf("VMs left in wave %s up to %s: %d", at.Wave, at.Step, of.pending())
		return step{reason: reasonUpdating, message: message, update: true, restart: restarts && !hasFailed}, false
	case hasFailed:
		message := fmt.Sprintf("VMs that failed: %d; status.failures says why", of.failed)
		return step{reason: reasonFailed, message: message, update: true}, false
	case restarts:
		message := fmt.Sprintf("VMs of wave %s up to %s that wait for a restart, or to be ready: %d", at.Wave, at.Step, of.restarting)
		return step{reason: reasonUpdating, message: message, update: true, restart: true}, false
	}
	return step{}, true
}

// enter begins a wave, or completes the rollout.
func enter(spec *v1alpha1.PresetRolloutSpec, s *v1alpha1.PresetRolloutStatus, wave int, wanted orders) (*v1alpha1.PresetRolloutStatus, step) {
	if wave == len(spec.Waves) {
		for i := range s.Presets {
			s.Presets[i].Stable = s.Presets[i].Target
		}
		return complete(s)
	}
	w := &spec.Waves[wave]
	if w.Approval == v1alpha1.ApprovalRequired && wanted.approved != s.Target+"/"+w.Name {
		return s, step{reason: reasonApproval, message: fmt.Sprintf("wave %s needs an approval: use virtwright rollout approve", w.Name), update: true}
	}
	reach(s, w.Name, nextStep(w, ""))
	return s, step{reason: reasonUpdating, message: fmt.Sprintf("wave %s begins up to %s", s.Wave, s.Step)}
}

// complete ends a rollout. The status keeps the last counts, also of VMs that were held or failed.
// It is not complete without a preset: one that was deleted is gone everywhere, at once.
func complete(s *v1alpha1.PresetRolloutStatus) (*v1alpha1.PresetRolloutStatus, step) {
	s.Wave, s.Step, s.BakesSince = "", "", nil
	for _, p := range s.Presets {
		if p.Target == 0 {
			return s, step{reason: reasonInvalid, message: fmt.Sprintf("preset %s does not exist, so nothing of it is rolled out: create it, or leave it out", p.Name)}
		}
	}
	return s, step{reason: reasonComplete, message: "all waves have the current revision"}
}

const all = "100%"

// nextStep returns the step of a wave after one, or the first one after ""; empty if there is none.
func nextStep(w *v1alpha1.RolloutWave, after string) string {
	steps := w.Steps
	if len(steps) == 0 {
		steps = []string{all}
	}
	for _, s := range steps {
		if percentOf(s) > percentOf(after) {
			return s
		}
	}
	return ""
}

// percentOf reads a percentage; 0 if there is none.
func percentOf(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil {
		return 0
	}
	return n
}

// allowed returns how many of the VMs may fail.
func allowed(spec *v1alpha1.PresetRolloutSpec, selected int64) int64 {
	limit := spec.Failure.MaxFailed
	switch {
	case limit == nil:
		return 0
	case limit.StrVal != "":
		return selected * int64(percentOf(limit.StrVal)) / 100
	}
	return int64(limit.IntVal)
}

package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks"
)

// rollout adds a rollout that API servers and the validating webhook accept. It changes no verdict
// about VMs.
func (p *presetReader) rollout(e *entry) []Problem {
	if answer := (webhooks.PresetRollout{Snapshots: loaded[presets.Snapshot]{}, Rollouts: p}).Handle(p.ctx, creation(e)); !answer.Allowed {
		return answer.Problems
	}
	out := &v1alpha1.PresetRollout{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, out); err != nil {
		return []Problem{{Message: err.Error()}}
	}
	if problems := checkRolloutSchema(out); len(problems) > 0 {
		return problemsOf(problems)
	}
	p.rollouts = append(p.rollouts, out)
	return nil
}

// warnOfRollout warns about parts of a rollout that have no effect and, unless the snapshot is nil,
// about missing presets.
func warnOfRollout(ctx context.Context, e *entry, s *presets.Snapshot) {
	answer := (webhooks.PresetRollout{Snapshots: loaded[presets.Snapshot]{s}}).Handle(ctx, creation(e))
	e.warnings = append(e.warnings, answer.Warnings...)
}

// Taken reports that a rollout that was read before has a preset of another one.
func (p *presetReader) Taken(from *v1alpha1.PresetRollout) *field.Error {
	return presets.Taken(slices.Values(p.rollouts), from)
}

// heldBack notes presets that rollouts give to some VMs in another revision than the snapshot has.
func (c *Cluster) heldBack() (notes []string) {
	for _, r := range c.rollouts {
		for _, p := range r.Status.Presets {
			now, exists := c.snapshot.Lookup("", p.Name)
			if !exists || p.Stable == p.Target && now.Generation <= p.Stable {
				continue
			}
			who, stable := "VMs that it has not reached", "nothing"
			if r.Status.Aborted {
				who = "VMs"
			}
			if p.Stable != 0 {
				stable = fmt.Sprintf("revision %d", p.Stable)
			}
			notes = append(notes, fmt.Sprintf("PresetRollout %s: %s, also new ones, get %s of %s, and not the present one as assumed here", r.Name, who, stable, p.Name))
		}
	}
	return notes
}

// A ProposedRollout is one for presets that change, and that are in no rollout yet.
type ProposedRollout struct {
	Name    string
	Presets []string
	// HasNew says that one of the presets is new, and HasOld that one exists.
	HasNew, HasOld bool
	// Percentiles of the VMs that change, ascending, as of presets.Percentile.
	Percentiles []int
	// Restarts counts those of them that run and need a restart.
	Restarts int
}

// propose returns a proposal without VMs; nil if no cluster preset needs a rollout.
func (c *Cluster) propose(plan *fleet.Plan) *ProposedRollout {
	out := &ProposedRollout{}
	for _, p := range plan.Presets {
		isTaken := slices.ContainsFunc(c.rollouts, func(r *v1alpha1.PresetRollout) bool { return slices.Contains(r.Spec.Presets, p.Name) })
		if _, exists := c.snapshot.Lookup("", p.Name); p.Namespace == "" && exists && !isTaken {
			out.Presets = append(out.Presets, p.Name)
			out.HasNew, out.HasOld = out.HasNew || p.Action == fleet.Added, out.HasOld || p.Action != fleet.Added
		}
	}
	if len(out.Presets) == 0 {
		return nil
	}
	out.Name = "presets"
	if len(out.Presets) == 1 {
		_, out.Name, _ = strings.Cut(out.Presets[0], "/")
	}
	for slices.ContainsFunc(c.rollouts, func(r *v1alpha1.PresetRollout) bool { return r.Name == out.Name }) {
		out.Name += "-2"
	}
	return out
}

// add adds a VM that changes, and that a rollout would update.
func (p *ProposedRollout) add(of *Cluster, c Compared) {
	if p != nil && slices.ContainsFunc(p.Presets, c.ChangedBy) && !presets.IsLeftOut(of.namespace(c.Namespace), &c.entry.meta.ObjectMeta) {
		p.Percentiles = append(p.Percentiles, int(presets.Percentile(c.Namespace, c.Name)))
		if c.isRunning() && c.Effect() == fleet.EffectRestart {
			p.Restarts++
		}
	}
}

// Steps are percentages: the first reaches one VM that changes or a few, the second a tenth of
// them, the last all.
func (p *ProposedRollout) Steps() []int {
	var out []int
	if n := len(p.Percentiles); n > 1 {
		out = append(out, p.Percentiles[0]+1)
		if tenth := p.Percentiles[max(n/10, 1)-1] + 1; tenth > out[0] {
			out = append(out, tenth)
		}
	}
	if len(out) > 0 && out[len(out)-1] == 100 {
		return out
	}
	return append(out, 100)
}

// Reached returns how many VMs that change a step reaches.
func (p *ProposedRollout) Reached(percent int) int {
	n, _ := slices.BinarySearch(p.Percentiles, percent)
	return n
}

// A stagedRollout counts the VMs that a rollout brings the changes of a plan to.
type stagedRollout struct {
	*presets.Rollout

	refs   []string
	counts *fleet.Staged
}

// waves adds the rollouts of presets that change to a plan.
func (c *Cluster) waves(plan *fleet.Plan) []stagedRollout {
	var out []stagedRollout
	for _, r := range c.rollouts {
		compiled, err := presets.NewRollout(r)
		if err != nil || !slices.ContainsFunc(plan.Presets, func(p *fleet.ObjectChange) bool {
			return p.Namespace == "" && slices.Contains(r.Spec.Presets, p.Name)
		}) {
			continue
		}
		staged := &fleet.Staged{Rollout: r.Name}
		for _, w := range r.Spec.Waves {
			staged.Waves = append(staged.Waves, fleet.StagedWave{Name: w.Name, Approval: w.Approval == v1alpha1.ApprovalRequired})
		}
		plan.Rollouts = append(plan.Rollouts, staged)
		out = append(out, stagedRollout{compiled, r.Spec.Presets, staged})
	}
	return out
}

// add counts a VM of a cluster that changes by a preset of the rollout.
func (r stagedRollout) add(of *Cluster, c Compared) {
	if !slices.ContainsFunc(r.refs, c.ChangedBy) {
		return
	}
	in, vm := of.namespace(c.Namespace), &c.entry.meta.ObjectMeta
	if presets.IsLeftOut(in, vm) {
		r.counts.Held++
	} else if wave := r.Wave(in, vm); wave >= 0 {
		r.counts.Waves[wave].VMs++
	}
}

package simulate

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/webhooks"
)

// rollout adds a rollout that the validating webhook accepts. Only a plan reads it.
func (p *presetReader) rollout(e *entry) []Problem {
	if answer := (webhooks.PresetRollout{Snapshots: loaded[presets.Snapshot]{}, Rollouts: p}).Handle(p.ctx, creation(e)); !answer.Allowed {
		return answer.Problems
	}
	out := &v1alpha1.PresetRollout{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, out); err != nil {
		return []Problem{{Message: err.Error()}}
	}
	p.rollouts = append(p.rollouts, out)
	return nil
}

// Taken reports that a rollout that was read before has a preset of another one.
func (p *presetReader) Taken(from *v1alpha1.PresetRollout) *field.Error {
	return presets.Taken(slices.Values(p.rollouts), from)
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

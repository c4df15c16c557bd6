package presetcache

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// retryPause is the time until revisions that could not be read are read again.
const retryPause = time.Second

type revisionKey struct {
	uid        types.UID
	generation int64
}

// rolloutState is what a snapshot depends on.
type rolloutState struct {
	Presets            []v1alpha1.RolloutPreset
	Target, Wave, Step string
	Aborted            bool
}

func stateOf(r *v1alpha1.PresetRollout) rolloutState {
	return rolloutState{r.Status.Presets, r.Status.Target, r.Status.Wave, r.Status.Step, r.Status.Aborted}
}

func isPreset(kind string) bool {
	return kind == v1alpha1.KindVirtualMachinePreset || kind == v1alpha1.KindClusterVirtualMachinePreset
}

// Taken reports that an older rollout has a preset of a rollout; nil if none has.
func (c *Cache) Taken(from *v1alpha1.PresetRollout) *field.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return presets.Taken(c.compiled.rollouts(), from)
}

// rollouts yields all rollouts.
func (s set) rollouts() iter.Seq[*v1alpha1.PresetRollout] {
	return func(yield func(*v1alpha1.PresetRollout) bool) {
		for _, v := range s {
			if v.rollout != nil && !yield(v.rollout) {
				return
			}
		}
	}
}

// rollouts returns the rollouts that hold presets back. A preset belongs to the oldest one that has
// it.
func (c *Cache) rollouts(ctx context.Context, s set) ([]*presets.Rollout, error) {
	if c.Revision == nil {
		return nil, nil
	}
	var out []*presets.Rollout
	used := map[revisionKey]*presets.Compiled{}
	all := slices.SortedFunc(s.rollouts(), func(a, b *v1alpha1.PresetRollout) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range all {
		rollout, err := presets.NewRollout(r)
		if err != nil {
			continue // the API server validates selectors
		}
		rollout.Stable = map[string]*presets.Compiled{}
		for _, p := range r.Status.Presets {
			only := &v1alpha1.PresetRollout{ObjectMeta: r.ObjectMeta, Spec: v1alpha1.PresetRolloutSpec{Presets: []string{p.Name}}}
			if presets.Taken(slices.Values(all), only) != nil {
				continue
			}
			if err := c.hold(ctx, s, rollout, p, used); err != nil {
				return nil, err
			}
		}
		if len(rollout.Stable) > 0 {
			out = append(out, rollout)
		}
	}
	c.revisions = used
	return out, nil
}

// hold adds the stable revision of a preset to a rollout, unless every VM has the current one. A
// revision that is newer than the target has reached no VM.
func (c *Cache) hold(ctx context.Context, s set, to *presets.Rollout, p v1alpha1.RolloutPreset, used map[revisionKey]*presets.Compiled) error {
	current, exists := s[KeyOf(presets.PresetName{Ref: p.Name})]
	if !exists || current.Generation == p.Stable && presets.IsOf(p, current.UID) {
		return nil
	}
	var stable *presets.Compiled
	if p.Stable != 0 && presets.IsOf(p, current.UID) {
		key := revisionKey{current.UID, p.Stable}
		var known bool
		if stable, known = c.revisions[key]; !known {
			var err error
			if stable, err = c.Revision(ctx, key.uid, key.generation); err != nil {
				return err
			}
		}
		if stable == nil {
			return nil // it is not kept
		}
		used[key] = stable
	}
	to.Stable[p.Name] = stable
	if current.Generation != p.Target || !presets.IsOf(p, current.UID) {
		to.Withdraw()
	}
	return nil
}

// retry notes changes again, except for objects that have changed since.
func (c *Cache) retry(changes map[Key]client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == nil {
		c.changes = map[Key]client.Object{}
	}
	for key, object := range changes {
		if _, newer := c.changes[key]; !newer {
			c.changes[key] = object
		}
	}
	time.AfterFunc(retryPause, func() {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	})
}

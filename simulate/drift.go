package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/webhooks"
)

// A StoredDrift is a stored VM with what a reapply of all presets would do to it.
type StoredDrift struct {
	VM
	fleet.Drift
	// Needs is what the VM needs before the changes are effective, if it runs.
	Needs fleet.Effect
}

// Drift compares each stored VM with its reapply, in order.
func Drift(ctx context.Context, objects []manifest.Object, settings Settings) (out []StoredDrift, notes []string, err error) {
	settings.Reapply = true
	c, err := storedCluster(ctx, objects, settings)
	if err != nil {
		return nil, nil, err
	}
	for found := range InOrder(ctx, slices.Values(c.VMs), func(ctx context.Context, m VM) result[StoredDrift] {
		drift, err := c.drift(ctx, m)
		out := StoredDrift{VM: m, Drift: drift, Needs: fleet.EffectNone}
		if len(drift.Changes) > 0 && m.isRunning() {
			out.Needs = fleet.Difference{Changes: drift.Changes}.Effect()
		}
		return result[StoredDrift]{out, err}
	}) {
		if found.err != nil {
			return nil, nil, found.err
		}
		out = append(out, found.of)
	}
	return out, slices.Concat(c.Notes, c.Unlabelled(nil)), ctx.Err()
}

type result[T any] struct {
	of  T
	err error
}

// storedCluster has only the stored VMs to which presets apply.
func storedCluster(ctx context.Context, objects []manifest.Object, settings Settings) (*Cluster, error) {
	c, err := NewCluster(ctx, objects, settings)
	if err != nil {
		return nil, err
	}
	excluded := webhooks.ExcludedNamespaces(managerNamespace)
	ignored := 0
	c.VMs = slices.DeleteFunc(c.VMs, func(m VM) bool {
		if m.Kind != presets.VirtualMachine || slices.Contains(excluded, m.Namespace) {
			return true
		}
		if !m.isStored() {
			ignored++
		}
		return !m.isStored()
	})
	if ignored > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("ignored VMs without a resourceVersion, because they are not stored: %d; virtwright validate checks them", ignored))
	}
	for _, m := range c.VMs {
		c.existing.store(m)
	}
	return c, nil
}

func (c *Cluster) drift(ctx context.Context, m VM) (out fleet.Drift, err error) {
	raw, _, err := c.stored(ctx, m)
	if rejection, ok := errors.AsType[*Rejection](err); ok {
		out.Problems = rejection.Problems
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var before, after unstructured.Unstructured
	if err := errors.Join(before.UnmarshalJSON(m.JSON), after.UnmarshalJSON(raw)); err != nil {
		return out, m.rejection(err)
	}
	out.Changes, err = fleet.ReappliedChanges(&before, &after, c.settings.updates())
	return out, err
}

// A StoredViolation is a violation of a preset's rule by a stored VM.
type StoredViolation struct {
	VM
	Preset *presets.Compiled
	presets.Violation
}

// Violations returns how stored VMs violate the rules of presets, in order, and the number of VMs.
// It returns the violations of the preset with a Ref, or of all presets if ref is empty.
func Violations(ctx context.Context, objects []manifest.Object, settings Settings, ref string) (out []StoredViolation, vms int, notes []string, err error) {
	c, err := storedCluster(ctx, objects, settings)
	if err != nil {
		return nil, 0, nil, err
	}
	if err := c.hasPreset(ref); err != nil {
		return nil, 0, nil, err
	}
	for found := range InOrder(ctx, slices.Values(c.VMs), func(ctx context.Context, m VM) result[[]StoredViolation] {
		inspected, err := c.settings.Engine.Inspect(ctx, c.snapshot, c.request(ctx, m))
		var of []StoredViolation
		for _, i := range inspected {
			if ref != "" && i.Preset.Ref != ref {
				continue
			}
			for _, v := range i.Violations {
				of = append(of, StoredViolation{m, i.Preset, v})
			}
		}
		return result[[]StoredViolation]{of, err}
	}) {
		if found.err != nil {
			return nil, 0, nil, found.err
		}
		out = append(out, found.of...)
	}
	return out, len(c.VMs), slices.Concat(c.Notes, c.Unlabelled(nil)), ctx.Err()
}

func (c *Cluster) hasPreset(ref string) error {
	refs := map[string]bool{"": true}
	for p := range c.snapshot.All() {
		refs[p.Ref] = true
	}
	if refs[ref] {
		return nil
	}
	return fmt.Errorf("--preset %s: there is no such preset%s", ref, spelling.DidYouMean(ref, maps.Keys(refs)))
}

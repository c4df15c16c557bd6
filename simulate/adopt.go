package simulate

import (
	"bytes"
	"context"
	"reflect"
	"slices"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// An Adoption compares presets and sparse VMs of a folder with a cluster.
type Adoption struct {
	// Presets are those of the folder.
	Presets []AdoptedPreset
	// Plan is the effect on stored VMs of the presets in mode Enforce.
	Plan *fleet.Plan
	// Equal counts the sparse VMs that would be created as the stored VMs would. Changed would be
	// created differently, or rejected. Unknown are not stored; Left are stored, but not sparse.
	Equal                  int
	Changed, Unknown, Left []string
}

// An AdoptedPreset is a preset of the folder.
type AdoptedPreset struct {
	Where manifest.Position
	// IsEnforced is true if its mode in the folder is Enforce.
	IsEnforced bool
	// IsApplied is true if the cluster has it in any mode, IsActive if in mode Enforce.
	IsApplied, IsActive bool
}

// Adopt compares a folder with the objects of a cluster.
func Adopt(ctx context.Context, folder, cluster []manifest.Object, settings Settings) (*Adoption, error) {
	out := &Adoption{}
	var given, vms []manifest.Object
	var names []presets.PresetName
	for _, o := range folder {
		if IsVM(o) {
			vms = append(vms, o)
		}
		if !IsPreset(o) {
			continue
		}
		e := &entry{Object: o, role: preset}
		e.readMeta()
		names, given = append(names, e.presetName()), append(given, o)
		out.Presets = append(out.Presets, AdoptedPreset{Where: o.Where, IsApplied: true, IsActive: true})
	}
	enforced, err := enforce(given)
	if err != nil {
		return nil, err
	}
	for i, o := range enforced {
		out.Presets[i].IsEnforced = bytes.Equal(o.JSON, given[i].JSON)
	}
	after := Replace(cluster, enforced, settings.Namespace)
	plan := Comparison{Before: cluster, After: after, Settings: settings}
	if out.Plan, err = plan.Plan(ctx); err != nil {
		return nil, err
	}
	for _, c := range out.Plan.Presets {
		if i := slices.Index(names, presets.PresetName{Namespace: c.Namespace, Ref: c.Name}); i >= 0 {
			out.Presets[i].IsActive = false
			out.Presets[i].IsApplied = len(c.Edits) == 1 && c.Edits[0].Field == "spec.mode"
		}
	}
	return out, out.compare(ctx, after, vms, settings)
}

// compare creates the stored VMs and the sparse ones with the same presets.
func (a *Adoption) compare(ctx context.Context, cluster, sparse []manifest.Object, settings Settings) error {
	full, err := NewCluster(ctx, cluster, settings)
	if err != nil {
		return err
	}
	stored := map[string]VM{}
	for _, m := range full.VMs {
		stored[m.String()] = m
	}
	c, err := NewCluster(ctx, slices.Concat(slices.DeleteFunc(slices.Clone(cluster), IsVM), sparse), settings)
	if err != nil {
		return err
	}
	for _, m := range c.VMs {
		was, isStored := stored[m.String()]
		delete(stored, m.String())
		if !isStored {
			a.Unknown = append(a.Unknown, m.String())
			continue
		}
		want, err := full.recreated(ctx, was)
		if err != nil {
			return err
		}
		if got, err := c.recreated(ctx, m); err != nil || !reflect.DeepEqual(got, want) {
			a.Changed = append(a.Changed, m.String())
			continue
		}
		a.Equal++
	}
	for _, m := range full.VMs {
		if _, isLeft := stored[m.String()]; isLeft {
			a.Left = append(a.Left, m.String())
		}
	}
	return nil
}

// recreated returns a VM as it would be stored if it was created now.
func (c *Cluster) recreated(ctx context.Context, m VM) (map[string]any, error) {
	m, err := c.asNew(m)
	if err != nil {
		return nil, err
	}
	return c.admitted(ctx, m)
}

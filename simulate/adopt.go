package simulate

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// An Adoption compares presets and sparse VMs of a folder with a cluster.
type Adoption struct {
	// Presets are those of the folder.
	Presets []AdoptedPreset
	// Plan is the effect on stored VMs of the presets in mode Enforce.
	Plan *fleet.Plan
	// Sparse are VMs that get from presets what their manifests leave out. Full would be created as
	// they are stored, but have all fields from their authors yet. Changed would be created
	// differently, or rejected. Unknown are not stored; Left are stored, but not in the folder, and
	// Owned are left to other objects.
	Sparse, Full, Changed, Unknown, Left, Owned []string
	// Reasons say why VMs are Changed.
	Reasons []string
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
		if err := e.place(settings.Namespace); err != nil {
			return nil, err
		}
		names, given = append(names, e.presetName()), append(given, o)
		out.Presets = append(out.Presets, AdoptedPreset{Where: o.Where, IsApplied: true, IsActive: true})
	}
	enforced, err := Enforce(given)
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
		if stored[m.String()] = m; m.IsOwned() {
			delete(stored, m.String())
			a.Owned = append(a.Owned, m.String())
		}
	}
	c, err := NewCluster(ctx, slices.Concat(slices.DeleteFunc(slices.Clone(cluster), IsVM), sparse), settings)
	if err != nil {
		return err
	}
	for _, m := range c.VMs {
		if slices.Contains(a.Owned, m.String()) {
			continue
		}
		was, isStored := stored[m.String()]
		delete(stored, m.String())
		if !isStored {
			a.Unknown = append(a.Unknown, m.String())
			continue
		}
		want, failed := full.recreated(ctx, was)
		got, err := c.recreated(ctx, m)
		switch reason := difference(m.Kind, want, got, errors.Join(failed, err)); {
		case reason != "":
			a.Changed, a.Reasons = append(a.Changed, m.String()), append(a.Reasons, m.String()+": "+reason)
		case handedOver(recordIn(got), was.entry.meta.Annotations[v1alpha1.AnnotationProvenance]):
			a.Sparse = append(a.Sparse, m.String())
		default:
			a.Full = append(a.Full, m.String())
		}
	}
	for _, m := range full.VMs {
		if _, isLeft := stored[m.String()]; isLeft {
			a.Left = append(a.Left, m.String())
		}
	}
	return nil
}

// difference says where the manifest of a VM gives something else than the stored one; empty if it
// does not.
func difference(kind presets.Kind, want, got map[string]any, err error) string {
	want, got = fleet.WithoutRecord(want), fleet.WithoutRecord(got)
	switch {
	case err != nil:
		return err.Error()
	case reflect.DeepEqual(got, want):
		return ""
	}
	var fields []string
	for _, pair := range [][2]map[string]any{{want, got}, {got, want}} {
		leaves, err := presets.Fields(kind, pair[0])
		if err != nil {
			return err.Error()
		}
		for _, leaf := range leaves {
			if !reflect.DeepEqual(leaf.Value, presets.ValueAt(kind, pair[1], leaf.Path)) {
				fields = append(fields, leaf.Path.String())
			}
		}
	}
	if len(fields) == 0 {
		return "the stored VM has another order of elements"
	}
	slices.Sort(fields)
	return "the stored VM has another " + strings.Join(slices.Compact(fields), ", ")
}

// recreated returns a VM as it would be stored if it was created now.
func (c *Cluster) recreated(ctx context.Context, m VM) (map[string]any, error) {
	m, err := c.asNew(m)
	if err != nil {
		return nil, err
	}
	return c.asStored(ctx, m)
}

func recordIn(object map[string]any) string {
	_, annotations := metadataOf(object)
	text, _ := annotations[v1alpha1.AnnotationProvenance].(string)
	return text
}

// handedOver reports whether the fields that presets give in one record belong to them in the
// stored record, too. The run state stays the author's.
func handedOver(created, stored string) bool {
	want, err := provenance.Decode(created)
	if err != nil {
		return true // nothing is given
	}
	have, err := provenance.Decode(stored)
	if err != nil {
		have = provenance.New()
	}
	for p, n := range want.Decided() {
		is, isGiven := have.SourceOf(p)
		byPlatform := isGiven && is.Role == provenance.Platform // at first, when the author gave the rest
		if by := want.Sources[n.Source]; by.Role != provenance.Platform && by.Preset != is.Preset && !byPlatform && !fleet.IsRunState(p) {
			return false
		}
	}
	return true
}

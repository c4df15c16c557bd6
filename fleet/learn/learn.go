// Package learn finds presets that make the VMs of a fleet sparse: defaults for VMs that have
// labels, namespaces or instancetypes in common.
//
// It is undercover matrix factorization with defaults: a preset may set a field only where every VM
// that it selects has the field. VMs with another value keep it, so no VM changes. The presets are
// chosen greedily, by their cost for each field of a VM that they save. (Avellaneda and Villemaire,
// Undercover Boolean Matrix Factorization with MaxSAT, AAAI 2022; Hochbaum, Heuristics for the
// fixed cost median problem, Mathematical Programming, 1982.)
package learn

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A VM is a VirtualMachine or a VirtualMachineInstance without the fields that existing presets and
// the platform give it.
type VM struct {
	Kind      presets.Kind
	Name      string // empty if the API server chooses it
	Namespace presets.Namespace
	Object    map[string]any
}

// Options limit the presets.
type Options struct {
	// Presets is the largest number of presets for the fleet, or for each namespace if Namespaced;
	// 0 for any number.
	Presets int
	// Support is the least number of VMs that a preset saves each of its fields for, at least 2.
	Support int
	// Namespaced makes presets of namespaces instead of presets of the cluster.
	Namespaced bool
	// Taken are the names of presets that exist, and Below is their lowest priority: learned
	// presets have a lower one, so that they change no VM that existing ones complete.
	Taken map[string]bool
	Below int
	// Read are the labels by which existing presets select these VMs. No preset gives them, because
	// a label that a preset gives selects none.
	Read map[string]bool
	// Judge also compares presets of most VMs with the others, and finds a lower bound. Labels
	// proposes labels instead.
	Judge, Labels bool
	// withheld are fields, as text, that presets for all VMs do not give; Incomplete finds more.
	withheld []string
	// Check returns an error for a preset that a cluster would reject.
	Check func(v1alpha1.Preset) error
	// Incomplete returns, for each of the presets, fields that make a VM invalid whose author sets
	// nothing else, in a cluster with all; may be nil. The name of that VM is Example.
	Example    string
	Incomplete func(ctx context.Context, of, others []v1alpha1.Preset) ([][]provenance.Path, error)
}

// A Result has presets and what they save.
type Result struct {
	Presets []Preset
	// Least is a lower bound of the fields of sparse VMs, and of fields and conditions of presets,
	// together: no presets that could be learned with these labels need fewer.
	Least int
	// HeldOut tells how presets of most VMs fit the others.
	HeldOut HeldOut
	Unusual []Unusual
	// Proposals are labels that VMs do not have.
	Proposals []Proposal
}

// A Preset is a learned preset.
type Preset struct {
	// Object is a *v1alpha1.ClusterVirtualMachinePreset or a *v1alpha1.VirtualMachinePreset.
	Object v1alpha1.Preset
	// Selects describes its selector; empty if it selects all VMs.
	Selects string
	// VMs is the number of VMs that it selects.
	VMs int
	// Terms and Fields are the numbers of conditions of its selector, and of fields that it sets.
	Terms, Fields int
	// Saved is the number of fields that VMs need not have because of it.
	Saved int
}

// Cost is the number of fields of VMs that a preset must save to be worth it: one for itself, one
// for each condition and one for each field that it sets.
func (p Preset) Cost() int { return 1 + p.Terms + p.Fields }

// HeldOut are fields of VMs that presets were not learned from.
type HeldOut struct {
	VMs int
	// Fields are those of the VMs. Saved are those that presets give as they are. Added are fields
	// that presets give and the VMs do not have.
	Fields, Saved, Added int
}

// An Unusual is a field with another value than almost all similar VMs have.
type Unusual struct {
	Namespace, Name string
	Path            provenance.Path
	Preset          string
	// VMs of the preset, and Same, those with its value.
	VMs, Same int
}

// Learn finds presets. The error is a *Rejection for an object that is no VM, or the context's.
func Learn(ctx context.Context, vms []VM, o Options) (*Result, error) {
	o.Support = max(o.Support, 2)
	groups := [][]VM{vms}
	if o.Namespaced {
		groups = byNamespace(vms)
	}
	out := &Result{}
	var labels map[string]bool
	if o.Labels {
		labels = labelsOf(vms)
	}
	for _, group := range groups {
		if err := out.learn(ctx, group, o, labels); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// learn adds the presets of the VMs of a fleet, or of a namespace. It proposes none of the labels.
func (out *Result) learn(ctx context.Context, vms []VM, o Options, labels map[string]bool) error {
	names := newNamer(o.Taken)
	all, chosen, err := find(ctx, vms, o)
	if err != nil {
		return err
	}
	made := make([]Preset, len(chosen))
	lower(chosen, o)
	for i, is := range chosen {
		if made[i], err = all.build(is, names.name(all.terms(is))); err != nil {
			return err
		}
	}
	all.count(chosen, made)
	out.Unusual = append(out.Unusual, all.unusual(chosen, made)...)
	slices.SortStableFunc(made, func(a, b Preset) int { return b.Saved - a.Saved })
	out.Presets = append(out.Presets, made...)
	if o.Labels {
		proposals, err := all.propose(ctx, vms, chosen, newNamer(labels))
		out.Proposals = append(out.Proposals, proposals...)
		return err
	}
	if !o.Judge {
		return nil
	}
	least, err := all.lowerBound(ctx)
	if err != nil {
		return err
	}
	out.Least += least
	o.Incomplete, o.withheld = nil, all.withheldTexts()
	return out.HeldOut.add(ctx, vms, o)
}

// labelsOf returns the keys of all labels of VMs.
func labelsOf(vms []VM) map[string]bool {
	out := map[string]bool{}
	for _, m := range vms {
		for key := range m.labels() {
			out[key] = true
		}
	}
	return out
}

// find chooses presets for VMs: first those that give no labels, then, with the labels by which
// these select, all.
func find(ctx context.Context, vms []VM, o Options) (*fleet, []*choice, error) {
	f, err := newFleet(vms, o, nil)
	if err != nil {
		return nil, nil, err
	}
	f.Incomplete = nil // only the labels matter
	chosen, err := f.choose(ctx)
	if err != nil {
		return nil, nil, err
	}
	if f, err = newFleet(vms, o, f.read(chosen)); err != nil {
		return nil, nil, err
	}
	chosen, err = f.choose(ctx)
	return f, chosen, err
}

// read returns the labels of VMs that choices read.
func (f *fleet) read(chosen []*choice) map[string]bool {
	out := map[string]bool{}
	for _, c := range chosen {
		for _, is := range f.terms(c) {
			if is.kind == label || is.kind == labelExists {
				out[is.key] = true
			}
		}
		for _, value := range c.values {
			if key, derived := f.derived[value]; derived {
				out[key] = true
			}
		}
	}
	return out
}

// lower ranks choices below all existing presets, if there are any.
func lower(chosen []*choice, o Options) {
	if len(o.Taken) == 0 {
		return
	}
	highest := 0
	for _, is := range chosen {
		highest = max(highest, is.rank)
	}
	for _, is := range chosen {
		is.rank -= highest + 1
		is.below = o.Below
	}
}

func byNamespace(vms []VM) (out [][]VM) {
	sorted := slices.Clone(vms)
	slices.SortStableFunc(sorted, func(a, b VM) int { return strings.Compare(a.Namespace.Name, b.Namespace.Name) })
	for len(sorted) > 0 {
		n := slices.IndexFunc(sorted, func(m VM) bool { return m.Namespace.Name != sorted[0].Namespace.Name })
		if n < 0 {
			n = len(sorted)
		}
		out, sorted = append(out, sorted[:n]), sorted[n:]
	}
	return out
}

// add learns from four of five VMs, and compares the presets with the others.
func (h *HeldOut) add(ctx context.Context, vms []VM, o Options) error {
	var others []VM
	known := slices.DeleteFunc(slices.Clone(vms), func(m VM) bool {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(m.Namespace.Name + "/" + m.Name))
		out := hash.Sum32()%5 == 0
		if out {
			others = append(others, m)
		}
		return out
	})
	from, chosen, err := find(ctx, known, o)
	if err != nil {
		return err
	}
	with, err := newFleet(slices.Concat(known, others), o, from.selecting) // names are generalized in the same way
	if err != nil {
		return err
	}
	for _, r := range with.rows[len(known):] {
		h.VMs++
		h.Fields += len(r.fields)
		for path, value := range from.given(chosen, r) {
			at, known := with.pathNumbers[path]
			switch is, has := r.fields[at]; {
			case !known || !has:
				h.Added++
			case with.texts[is] == value:
				h.Saved++
			}
		}
	}
	return nil
}

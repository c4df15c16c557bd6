package learn

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// A Proposal is VMs that have values in common, but no label by which a preset could select them.
type Proposal struct {
	// Label is a key that no VM has. It tells what the VMs have in common.
	Label string
	VMs   []VM
	// Fields are the values that they have in common, as path: JSON.
	Fields []string
	rows   []int
}

const (
	// mostProposals of a fleet, or of a namespace.
	mostProposals = 20
	// labelPrefix keeps labels apart from those that people and presets use.
	labelPrefix = "group/"
	// mostLabel is the length of a label without the number that makes it unique.
	mostLabel = 50
)

// propose finds labels by which presets would select, so that presets, VMs and these labels need
// fewer fields. For that, presets for the labelled VMs are chosen.
func (f *fleet) propose(ctx context.Context, vms []VM, chosen []*choice, names *namer) (out []Proposal, err error) {
	for _, g := range f.groups(ctx, chosen) {
		out = append(out, f.proposal(g, names))
	}
	for len(out) > 0 {
		labelled := slices.Clone(vms)
		for _, p := range out {
			for _, i := range p.rows {
				labelled[i] = labelled[i].with(p.Label)
			}
		}
		with, then, err := find(ctx, labelled, f.Options)
		if err != nil {
			return nil, err
		}
		selecting, all := with.read(then), len(out)
		if out = slices.DeleteFunc(out, func(p Proposal) bool { return !selecting[p.Label] }); len(out) < all {
			continue // the other labels only cost something
		}
		if with.total(then) < f.total(chosen) {
			return out, nil
		}
		out = out[:all-1]
	}
	return nil, ctx.Err()
}

// with returns a VM with a label.
func (m VM) with(label string) VM {
	m.Object = maps.Clone(m.Object)
	metadata := maps.Clone(tree.AsObject(m.Object["metadata"]))
	labels := maps.Clone(tree.AsObject(metadata["labels"]))
	if labels == nil {
		labels = map[string]any{}
	}
	labels[label] = "true"
	metadata["labels"], m.Object["metadata"] = labels, metadata
	return m
}

// A group is rows with values that a preset could give them.
type group struct{ rows, values []int }

// saved is the number of fields that a preset saves, less one for each label that the VMs need, for
// the preset, for its condition and for each of its values.
func (g group) saved() int { return len(g.rows)*(len(g.values)-1) - 2 - len(g.values) }

// groups returns groups of values that VMs have left, the one that saves most first. The VMs of a
// group are all that have one value.
func (f *fleet) groups(ctx context.Context, chosen []*choice) (out []group) {
	left := f.left(chosen)
	all := f.aroundValues(left)
	for len(out) < mostProposals && len(all) > 0 && ctx.Err() == nil {
		best := slices.MaxFunc(slices.Collect(maps.Keys(all)), func(a, b int) int {
			return cmp.Or(cmp.Compare(all[a].saved(), all[b].saved()), cmp.Compare(b, a))
		})
		g := around(all[best].rows, left)
		switch isSame := len(g.values) == len(all[best].values); {
		case g.saved() <= 0:
			delete(all, best)
		case isSame:
			out = append(out, g)
			for _, i := range g.rows {
				left[i] = slices.DeleteFunc(left[i], func(value int) bool { return slices.Contains(g.values, value) })
			}
			delete(all, best)
		default: // an earlier group has taken some of the values
			all[best] = g
		}
	}
	return out
}

// aroundValues returns the group of all VMs that have a value, by the value.
func (f *fleet) aroundValues(left [][]int) map[int]group {
	rows := map[int][]int{}
	for i, values := range left {
		for _, value := range values {
			rows[value] = append(rows[value], i)
		}
	}
	out := map[int]group{}
	for value, of := range rows {
		if len(of) >= f.Support {
			out[value] = around(of, left)
		}
	}
	return out
}

// around returns the group of rows with all values that they have in common.
func around(rows []int, left [][]int) group {
	common := slices.Clone(left[rows[0]])
	for _, i := range rows {
		common = slices.DeleteFunc(common, func(value int) bool {
			_, has := slices.BinarySearch(left[i], value)
			return !has
		})
	}
	return group{rows, common}
}

// left returns the values of each row that presets could give it and no choice gives it, in order.
func (f *fleet) left(chosen []*choice) [][]int {
	out := make([][]int, len(f.rows))
	for i, path := range f.rest(chosen) {
		if value := f.rows[i].fields[path]; !f.unfit[value] && !isLabel(f.paths[path]) {
			out[i] = append(out[i], value)
		}
	}
	for i, r := range f.rows {
		if r.Name == "" || texts(tree.AsObject(tree.AsObject(r.Object["metadata"])["annotations"]))[v1alpha1.AnnotationExclude] != "" {
			out[i] = nil // it may exclude the preset
		}
		slices.Sort(out[i])
	}
	return out
}

func isLabel(path provenance.Path) bool {
	return path.HasPrefix(labels) || path.HasPrefix(templateLabels)
}

func (f *fleet) proposal(g group, names *namer) Proposal {
	out := Proposal{rows: g.rows}
	base := ""
	for _, number := range g.values {
		path, _, _ := strings.Cut(f.texts[number], "\n")
		text, _ := json.Marshal(computed(f.values[number]))
		out.Fields = append(out.Fields, path+": "+string(text))
		switch value := f.values[number].(type) {
		case string, bool, int64, float64:
			if text := fmt.Sprint(value); base == "" && !strings.Contains(text, nameMark) {
				base = path[strings.LastIndexByte(path, '.')+1:] + "-" + short(text)
			}
		}
	}
	base = strings.Map(plain, base)
	out.Label = names.unique(labelPrefix + cmp.Or(strings.Trim(base[:min(len(base), mostLabel)], "-"), "vms"))
	for _, i := range g.rows {
		out.VMs = append(out.VMs, f.rows[i].VM)
	}
	slices.Sort(out.Fields)
	return out
}

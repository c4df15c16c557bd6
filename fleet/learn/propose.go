package learn

import (
	"maps"
	"slices"
	"strings"
)

// A Proposal is VMs that have values in common, but nothing by which a preset could select them.
// With a label, a preset could give them these values.
type Proposal struct {
	// Label tells what the VMs have in common. It can be the key of a label.
	Label string
	VMs   []VM
	// Fields are the values that they have in common, as path: JSON. NAME stands for the name of a VM.
	Fields []string
	// Saved is the number of fields that the VMs need not have, less the labels and the preset.
	Saved int
}

// mostProposals of a fleet.
const mostProposals = 20

// A group is rows with values that a preset could give them.
type group struct{ rows, values []int }

// saved is the number of fields that a preset would save, less one for each label that the VMs need,
// for the preset, for its condition and for each of its values.
func (g group) saved() int { return len(g.rows)*(len(g.values)-1) - 2 - len(g.values) }

// propose finds groups, the one that saves most first.
func (f *fleet) propose(chosen []*choice) (out []Proposal) {
	names := newNamer(nil)
	left := f.left(chosen)
	for range mostProposals {
		best := f.largest(left)
		if best.saved() <= 0 {
			break
		}
		out = append(out, f.proposal(best, names))
		for _, i := range best.rows {
			left[i] = slices.DeleteFunc(left[i], func(value int) bool { return slices.Contains(best.values, value) })
		}
	}
	return out
}

// left returns the values of each row that no choice gives it, in order.
func (f *fleet) left(chosen []*choice) [][]int {
	out := make([][]int, len(f.rows))
	for class, c := range f.classes {
		by := givers(chosen, class)
		for _, i := range c.rows {
			for path, value := range f.rows[i].fields {
				giver, given := by[path]
				if isGiven := given && chosen[giver].values[path] == value; !isGiven && !f.unfit[value] && f.rows[i].Name != "" {
					out[i] = append(out[i], value)
				}
			}
			slices.Sort(out[i])
		}
	}
	return out
}

// largest returns the group that saves most, of those whose VMs are all that have one value.
func (f *fleet) largest(left [][]int) (best group) {
	rows := map[int][]int{}
	for i, values := range left {
		for _, value := range values {
			rows[value] = append(rows[value], i)
		}
	}
	for _, value := range slices.Sorted(maps.Keys(rows)) {
		of := rows[value]
		if len(of) < f.Support {
			continue
		}
		common := slices.Clone(left[of[0]])
		for _, i := range of {
			common = slices.DeleteFunc(common, func(value int) bool {
				_, has := slices.BinarySearch(left[i], value)
				return !has
			})
		}
		if g := (group{of, common}); best.rows == nil || g.saved() > best.saved() {
			best = g
		}
	}
	return best
}

func (f *fleet) proposal(g group, names *namer) Proposal {
	out := Proposal{Saved: g.saved()}
	var about feature
	for _, number := range g.values {
		path, text, _ := strings.Cut(f.texts[number], "\n")
		out.Fields = append(out.Fields, path+": "+strings.ReplaceAll(text, nameMark, "NAME"))
		if about.key == "" {
			about = feature{label, path[strings.LastIndexByte(path, '.')+1:], strings.Trim(text, `"`)}
		}
	}
	out.Label = names.name([]feature{about})
	for _, i := range g.rows {
		out.VMs = append(out.VMs, f.rows[i].VM)
	}
	slices.Sort(out.Fields)
	return out
}

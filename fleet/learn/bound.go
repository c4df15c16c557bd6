package learn

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// total is the number of fields of VMs that choices do not save, and of the presets with their
// conditions and fields.
func (f *fleet) total(chosen []*choice) int {
	out := f.others
	for _, is := range chosen {
		out += is.cost()
	}
	for range f.rest(chosen) {
		out++
	}
	return out
}

// rest yields the fields of VMs that no choice gives, as the numbers of the row and of the path.
func (f *fleet) rest(chosen []*choice) iter.Seq2[int, int] {
	return func(yield func(row, path int) bool) {
		for class, c := range f.classes {
			by := givers(chosen, class)
			for _, i := range c.rows {
				for path, value := range f.rows[i].fields {
					giver, given := by[path]
					if isGiven := given && chosen[giver].values[path] == value; !isGiven && !yield(i, path) {
						return
					}
				}
			}
		}
	}
}

// A cover is the number of VMs that one selector can save a value for.
type cover struct{ at, vms int }

// lowerBound returns a number of fields and conditions that VMs and presets need, together.
//
// It is a solution of the dual of the linear relaxation: a VM pays a share of at most 1 for each of
// its fields, the same for the same value, so that no preset costs less than what its VMs pay for
// the values that it gives. What all VMs pay is the bound. A VM pays nothing for a computed value
// if others have it as a literal, because a preset could give it that.
func (f *fleet) lowerBound(ctx context.Context) (int, error) {
	covers, budgets, err := f.covers(ctx)
	if err != nil {
		return 0, err
	}
	uses := map[int]int{}
	for _, r := range f.rows {
		for _, value := range r.fields {
			uses[value]++
		}
	}
	shares := map[int]float64{}
	for value, all := range covers {
		most := slices.MaxFunc(all, func(a, b cover) int { return a.vms - b.vms })
		shares[value] = 1 / float64(most.vms) // pays for the value, but not for the preset
	}
	for _, value := range slices.SortedFunc(maps.Keys(covers), func(a, b int) int { return strings.Compare(f.texts[a], f.texts[b]) }) {
		f.raise(shares, value, covers[value], budgets)
	}
	out := float64(f.others)
	for _, r := range f.rows {
		for _, value := range r.fields {
			switch share, isCovered := shares[value]; {
			case uses[f.literal(r, value)] > 0:
			case isCovered:
				out += share
			default:
				out++
			}
		}
	}
	return int(math.Ceil(out - 1e-6)), nil
}

// literal returns the number of the literal value that a VM has for a computed one; -1 if no field
// had it, or the value is not computed.
func (f *fleet) literal(r row, value int) int {
	text := f.texts[value]
	if of := f.literals[value]; of != nil {
		text = of(r)
	}
	if literal, known := f.numbers[strings.ReplaceAll(text, nameMark, r.Name)]; known && literal != value {
		return literal
	}
	return -1
}

// raise raises the share of a value as far as the budgets of all presets allow that give it.
func (f *fleet) raise(shares map[int]float64, value int, covers []cover, budgets []float64) {
	share := 1.0
	for _, c := range covers {
		share = min(share, (1+budgets[c.at])/float64(c.vms))
	}
	if share <= shares[value] {
		return
	}
	shares[value] = share
	for _, c := range covers {
		budgets[c.at] -= max(0, share*float64(c.vms)-1)
	}
}

// covers returns the selectors of presets that can give a value, by its number, and what a preset
// costs besides its values, by selector.
func (f *fleet) covers(ctx context.Context) (out map[int][]cover, costs []float64, err error) {
	selectors, err := f.selectors(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := &chooser{fleet: f, selectors: selectors, given: make([]map[int]*choice, len(f.classes))}
	out = map[int][]cover{}
	for at, s := range selectors {
		costs = append(costs, float64(1+len(s.terms)))
		for _, g := range c.gains(at, 0) {
			out[g.value] = append(out[g.value], cover{at, g.saves})
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	return out, costs, nil
}

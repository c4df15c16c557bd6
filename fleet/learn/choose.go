package learn

import (
	"cmp"
	"container/heap"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/virtwright/virtwright/presets/vmschema"
)

// A choice is a selector with the values that its preset gives, by path.
type choice struct {
	selector
	values map[int]int
	// rank orders choices that give the same field: the highest wins. Ranks are priorities above
	// or below another one.
	rank, below int
}

// cost is that of the preset: one for itself, one for each term and one for each value.
func (c *choice) cost() int { return 1 + len(c.terms) + len(c.values) }

// choose opens stars, the one with the lowest price first, while that saves fields. Prices change
// with each star, mostly upward: a star is measured again when it is its turn, and all of them at
// the end.
func (f *fleet) choose(ctx context.Context) ([]*choice, error) {
	if len(f.rows) == 0 {
		return nil, nil
	}
	selectors, err := f.selectors(ctx)
	if err != nil {
		return nil, err
	}
	c := &chooser{fleet: f, selectors: selectors, open: map[int]*choice{}, given: make([]map[int]*choice, len(f.classes))}
	for i := range c.given {
		c.given[i] = map[int]*choice{}
	}
	for grows, attempt := true, 0; grows; attempt++ {
		if grows, err = c.round(ctx); err != nil {
			return nil, err
		}
		left, err := c.leave(ctx)
		if err != nil {
			return nil, err
		}
		grows = grows || left && attempt < mostAttempts
	}
	return c.finish(ctx)
}

// finish prunes choices, which may make parts of elements.
func (c *chooser) finish(ctx context.Context) ([]*choice, error) {
	for {
		chosen := c.prune()
		if left, err := c.leave(ctx); !left || err != nil {
			return chosen, err
		}
	}
}

type chooser struct {
	*fleet
	selectors []selector
	open      map[int]*choice
	order     []*choice // as they were opened
	// given is the choice that gives a field to the VMs of a class.
	given    []map[int]*choice
	low, top int // ranks in use
}

// queue has the stars that save fields.
func (c *chooser) queue(ctx context.Context) *stars {
	out := &stars{}
	for i := range c.selectors {
		if ctx.Err() != nil {
			break
		}
		if s := c.best(i); s.gain > s.cost {
			*out = append(*out, s)
		}
	}
	heap.Init(out)
	return out
}

func (c *chooser) round(ctx context.Context) (grows bool, err error) {
	queue := c.queue(ctx)
	for queue.Len() > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		s, _ := heap.Pop(queue).(star)
		now := c.best(s.at)
		switch {
		case now.gain <= now.cost, c.isFull() && c.open[now.at] == nil:
		case queue.Len() > 0 && now.isWorse((*queue)[0]):
			heap.Push(queue, now)
		default:
			c.take(now)
			grows = true
			heap.Push(queue, c.best(now.at))
		}
	}
	return grows, ctx.Err()
}

func (c *chooser) isFull() bool { return c.Presets > 0 && len(c.open) == c.Presets }

// best returns the star of a selector with the lowest price: of a new choice above or below all
// others, or with more values of an old one.
func (c *chooser) best(at int) star {
	if is := c.open[at]; is != nil {
		return c.star(at, is.rank, 0)
	}
	above := c.star(at, c.top+1, 1+len(c.selectors[at].terms))
	if below := c.star(at, c.low-1, 1+len(c.selectors[at].terms)); !below.isWorse(above) {
		return below
	}
	return above
}

// A gain is a value with the number of VMs that it saves a field for.
type gain struct {
	path, value, saves int
}

func (c *chooser) star(at, rank, opening int) star {
	out := star{at: at, rank: rank, cost: opening, values: map[int]int{}}
	for _, g := range c.gains(at, rank) {
		if out.gain > 0 && g.saves*out.cost < out.gain { // it would raise the price
			break
		}
		out.values[g.path] = g.value
		out.cost++
		out.gain += g.saves
	}
	return out
}

// gains returns the best value for each field that enough VMs save, the best first. At least four
// of five VMs have it, so that no preset for all VMs has the most frequent size.
func (c *chooser) gains(at, rank int) (out []gain) {
	for path, values := range c.sums(c.selectors[at].extent, rank) {
		if !c.mayGive(at, path) {
			continue
		}
		best := gain{path: path}
		for _, t := range values {
			if t.saved > best.saves && t.vms*5 >= c.selectors[at].vms*4 && !c.unfit[t.value] {
				best.value, best.saves = t.value, t.saved
			}
		}
		if best.saves >= c.Support {
			out = append(out, best)
		}
	}
	slices.SortFunc(out, func(a, b gain) int { return cmp.Or(cmp.Compare(b.saves, a.saves), cmp.Compare(a.path, b.path)) })
	return out
}

// mayGive reports whether the choice of a selector may give one more field.
func (c *chooser) mayGive(at, path int) bool {
	if is := c.open[at]; is != nil && has(is.values, path) {
		return false
	}
	return !c.withheld[path] || !c.selectsAll(c.selectors[at].terms)
}

func has(values map[int]int, path int) bool {
	_, ok := values[path]
	return ok
}

// sums counts, for each field that all VMs of an extent have, the VMs that a value would save it
// for, less those that lose the value that a lower choice gives.
func (c *chooser) sums(extent set, rank int) map[int][]tally {
	paths := slices.Collect(maps.Keys(c.common(extent)))
	sums := make([][]tally, len(paths))
	var workers sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for first := range min(n, len(paths)) {
		workers.Go(func() {
			var buffer []tally
			for i := first; i < len(paths); i += n {
				all, lost := c.tallies(buffer[:0], paths[i], extent, rank)
				sums[i], buffer = summed(all, lost), all
			}
		})
	}
	workers.Wait()
	out := make(map[int][]tally, len(paths))
	for i, path := range paths {
		out[path] = sums[i]
	}
	return out
}

// tallies appends the numbers of all classes of an extent. Lost are the VMs that lose the value of
// a lower choice.
func (c *chooser) tallies(to []tally, path int, extent set, rank int) (all []tally, lost int) {
	all = to
	for i := range extent.all {
		counts := c.classes[i].counts[path]
		all = append(all, counts...)
		by := c.given[i][path]
		switch {
		case by == nil:
		case by.rank < rank:
			lost += numberOf(counts, by.values[path])
		default:
			for j := len(all) - len(counts); j < len(all); j++ {
				all[j].saved = 0
			}
		}
	}
	return all, lost
}

// summed adds up the numbers of each value. The loss is that of each.
func summed(all []tally, lost int) (out []tally) {
	slices.SortFunc(all, func(a, b tally) int { return a.value - b.value })
	for _, t := range all {
		if n := len(out); n > 0 && out[n-1].value == t.value {
			out[n-1].vms += t.vms
			out[n-1].saved += t.saved
		} else {
			out = append(out, tally{t.value, t.vms, t.saved - lost})
		}
	}
	return out
}

// common returns the fields that all VMs of an extent have.
func (c *chooser) common(extent set) map[int]bool {
	var out map[int]bool
	for i := range extent.all {
		if out != nil {
			maps.DeleteFunc(out, func(path int, _ bool) bool { return c.classes[i].counts[path] == nil })
			continue
		}
		out = make(map[int]bool, len(c.classes[i].counts))
		for path := range c.classes[i].counts {
			out[path] = true
		}
	}
	return out
}

func (c *chooser) take(s star) {
	is := c.open[s.at]
	if is == nil {
		is = &choice{selector: c.selectors[s.at], values: map[int]int{}, rank: s.rank}
		c.open[s.at] = is
		c.order = append(c.order, is)
		c.low, c.top = min(c.low, s.rank), max(c.top, s.rank)
	}
	maps.Copy(is.values, s.values)
	for i := range is.extent.all {
		for path := range s.values {
			if by := c.given[i][path]; by == nil || by.rank < is.rank {
				c.given[i][path] = is
			}
		}
	}
}

// prune drops values and choices that save no more than they cost, now that others exist, and ranks
// the rest.
func (c *chooser) prune() []*choice {
	for changed := true; changed; {
		changed = false
		for _, is := range slices.Backward(c.order) {
			changed = c.pruneOne(is) || changed
		}
		c.order = slices.DeleteFunc(c.order, func(is *choice) bool { return len(is.values) == 0 })
	}
	c.rank()
	return c.order
}

func (c *chooser) pruneOne(is *choice) (changed bool) {
	saves := 0
	for _, path := range slices.Sorted(maps.Keys(is.values)) {
		if lost := c.lost(is, path); lost >= c.Support {
			saves += lost
		} else {
			c.drop(is, path)
			changed = true
		}
	}
	if len(is.values) == 0 || saves > is.cost() {
		return changed
	}
	for path := range is.values {
		c.drop(is, path)
	}
	return true
}

// rank ranks the choices 0, or above those from which they differ.
func (c *chooser) rank() {
	slices.SortFunc(c.order, func(a, b *choice) int { return cmp.Compare(a.rank, b.rank) })
	for i, is := range c.order {
		is.rank = 0
		for _, lower := range c.order[:i] {
			if lower.rank >= is.rank && c.differ(is, lower) {
				is.rank = lower.rank + 1
			}
		}
	}
}

// lost is the number of VMs that would need a field again without a value of a choice.
func (c *chooser) lost(of *choice, path int) int {
	lost := 0
	for i := range of.extent.all {
		if c.given[i][path] != of {
			continue
		}
		counts := c.classes[i].counts[path]
		lost += numberOf(counts, of.values[path])
		if next := c.next(i, path, of); next != nil {
			lost -= numberOf(counts, next.values[path])
		}
	}
	return lost
}

// next is the highest choice but one that gives a field to a class.
func (c *chooser) next(class int, path int, but *choice) (out *choice) {
	for _, is := range c.order {
		if is != but && is.extent.has(class) && has(is.values, path) && (out == nil || is.rank > out.rank) {
			out = is
		}
	}
	return out
}

func (c *chooser) drop(of *choice, path int) {
	for i := range of.extent.all {
		if c.given[i][path] == of {
			if next := c.next(i, path, of); next != nil {
				c.given[i][path] = next
			} else {
				delete(c.given[i], path)
			}
		}
	}
	delete(of.values, path)
}

// differ reports whether a VM, perhaps a future one, can get different values of a field from two
// choices, or fields that exclude each other.
func (c *chooser) differ(a, b *choice) bool {
	if c.exclude(a, b) {
		return false
	}
	for path, value := range a.values {
		if other, both := b.values[path]; both && other != value {
			return true
		}
	}
	members := map[string]bool{}
	for path := range b.values {
		for member := range vmschema.AlternativesOf(c.paths[path]) {
			members[member.String()] = true
		}
	}
	for path := range a.values {
		for _, alternative := range vmschema.AlternativesOf(c.paths[path]) {
			if members[alternative.String()] {
				return true
			}
		}
	}
	return false
}

// exclude reports whether no VM has the terms of both choices.
func (c *chooser) exclude(a, b *choice) bool {
	for _, one := range c.terms(a) {
		for _, other := range c.terms(b) {
			if one.kind == other.kind && one.key == other.key && one.value != other.value {
				return true
			}
		}
	}
	return false
}

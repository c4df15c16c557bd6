package fleet

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

const (
	// maxFacts is how many values that conditions of a preset ask for are tried.
	maxFacts = 24
	// maxTripled is up to how many of them three at a time are tried, too.
	maxTripled = 12
	// maxWays is how many ways to meet the conditions of a preset are kept, and maxCombined how many
	// of those of several presets together.
	maxWays, maxCombined = 16, 64
	// trialParts is how many parts of presets, and trialPresets how many presets, make a trial cost
	// as much as another one.
	trialParts, trialPresets = 20, 10
)

// find returns an object for which shows is true with these presets alone, and with all presets of
// the set; nil without one. It tries the smallest object that the selectors select, then values that
// meet the conditions, then elements that linked ones need.
func (a *analysis) find(all []*member, shows func(*trial) bool) *Witness {
	base := a.smallest(all)
	if base == nil {
		return nil
	}
	alone, links := snapshotOf(all), linksFor(all)
	for _, facts := range a.combinations(all) {
		for _, elements := range linked(links) {
			w := base.with(facts, elements)
			if a.tried(w, alone, all, shows) && w.isPlausible(facts) && a.tried(w, a.all, a.members, shows) {
				return a.whole(w, alone, all, shows)
			}
			if a.ended() {
				return nil
			}
		}
	}
	return nil
}

// tried reports whether a candidate shows it with some presets. What it costs follows the size of the
// presets that act.
func (a *analysis) tried(w *Witness, with *presets.Snapshot, all []*member, shows func(*trial) bool) bool {
	a.left--
	if a.ended() {
		return false
	}
	t := a.resolve(w, with)
	if t.result != nil {
		a.left -= len(t.result.Matched) / trialPresets
	}
	if len(all) < len(a.members) {
		for _, m := range all {
			a.left -= len(m.parts) / trialParts
		}
	}
	return shows(t)
}

func snapshotOf(all []*member) *presets.Snapshot {
	compiled := make([]*presets.Compiled, 0, len(all))
	for _, m := range all {
		compiled = append(compiled, m.Compiled)
	}
	return presets.NewSnapshot(compiled, nil)
}

// combinations are sets of values that meet the conditions of all presets, the smallest first.
func (a *analysis) combinations(all []*member) [][]presets.Fact {
	out := [][]presets.Fact{nil}
	for _, m := range all {
		var next [][]presets.Fact
		for _, facts := range out {
			for _, way := range a.waysOf(m) {
				if both, ok := together(facts, way); ok {
					next = append(next, both)
				}
			}
		}
		slices.SortStableFunc(next, func(x, y []presets.Fact) int { return cmp.Compare(len(x), len(y)) })
		out = next[:min(len(next), maxCombined)]
	}
	return out
}

// together joins sets of values, unless they give one field two values.
func together(x, y []presets.Fact) ([]presets.Fact, bool) {
	out := slices.Clone(x)
	for _, fact := range y {
		i := slices.IndexFunc(out, func(o presets.Fact) bool { return slices.Equal(o.Path, fact.Path) })
		switch {
		case i < 0:
			out = append(out, fact)
		case !reflect.DeepEqual(out[i].Value, fact.Value):
			return nil, false
		}
	}
	return out, true
}

// waysOf are sets of values with which the conditions of a preset hold, none of them alike.
func (a *analysis) waysOf(m *member) [][]presets.Fact {
	if m.searched {
		return m.ways
	}
	m.searched = true
	base := a.smallest([]*member{m})
	if base == nil {
		return nil
	}
	alone := snapshotOf([]*member{m})
	holds := func(facts []presets.Fact) bool {
		w := base.with(facts, nil)
		return a.tried(w, alone, []*member{m}, func(t *trial) bool { return t.matched(m) || t.refusal != nil }) && w.isPlausible(facts)
	}
	if len(m.Conditions()) == 0 || holds(nil) {
		m.ways = [][]presets.Fact{nil}
	} else {
		m.ways = a.ways(m.Facts(), holds)
	}
	return m.ways
}

// ways are the smallest sets of values for which holds is true.
func (a *analysis) ways(facts []presets.Fact, holds func([]presets.Fact) bool) [][]presets.Fact {
	facts = facts[:min(len(facts), maxFacts)]
	most := 2
	if len(facts) <= maxTripled {
		most = 3
	}
	var out [][]presets.Fact
	for size := 1; size <= most && len(out) == 0; size++ {
		eachSubset(facts, size, nil, func(some []presets.Fact) bool {
			if holds(some) {
				out = append(out, slices.Clone(some))
			}
			return len(out) < maxWays && !a.ended()
		})
	}
	return out
}

// eachSubset calls visit for each subset of a size that gives no field two values, until visit is
// false.
func eachSubset(facts []presets.Fact, size int, some []presets.Fact, visit func([]presets.Fact) bool) bool {
	if size == 0 {
		return visit(some)
	}
	for i, fact := range facts {
		next, ok := together(some, []presets.Fact{fact})
		if ok && len(next) > len(some) && !eachSubset(facts[i+1:], size-1, next, visit) {
			return false
		}
	}
	return true
}

// linked are the sets of elements that are tried: none, and all.
func linked(links []change) [][]change {
	if len(links) == 0 {
		return [][]change{nil}
	}
	return [][]change{nil, links}
}

// linksFor adds the elements that linked elements of presets need.
func linksFor(all []*member) []change {
	var out []change
	seen := map[string]bool{}
	for _, m := range all {
		for _, p := range m.parts {
			if list, name := linkedElement(p.Path); name != "" && !seen[list+name] {
				seen[list+name] = true
				out = append(out, func(w *Witness) { w.addElement(list, name) })
			}
		}
	}
	return out
}

// isPlausible reports whether a VM may have the values: no rule rejects them wherever they stand.
func (w *Witness) isPlausible(facts []presets.Fact) bool {
	if len(facts) == 0 {
		return true
	}
	object := w.Object
	if w.Kind == presets.VirtualMachineInstance {
		object = map[string]any{"spec": map[string]any{"template": map[string]any{"spec": w.Object["spec"]}}}
	}
	raw, err := json.Marshal(object)
	return err == nil && len((&validation.Config{}).ValidateLeaves(raw)) == 0
}

// whole returns the witness with memory, which every VM needs, if no preset gives it memory and it
// shows the same with it.
func (a *analysis) whole(w *Witness, alone *presets.Snapshot, all []*member, shows func(*trial) bool) *Witness {
	gives := func(p part) bool {
		return strings.Contains(p.path, ".domain.memory.") || strings.Contains(p.path, ".domain.resources.") || strings.HasPrefix(p.path, "spec.instancetype")
	}
	if slices.ContainsFunc(all, func(m *member) bool { return slices.ContainsFunc(m.parts, gives) }) {
		return w
	}
	out := w.with(nil, []change{func(w *Witness) { set(w.Object, append(specPath(w.Kind), "domain", "memory", "guest"), "1Gi") }})
	if !shows(a.resolve(out, alone)) || !shows(a.resolve(out, a.all)) {
		return w
	}
	return out
}

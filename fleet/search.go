package fleet

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/validation"
)

const (
	maxFacts   = 24
	maxTripled = 12
	// maxWays and maxCombined limit the solutions for the conditions of one and several presets.
	maxWays, maxCombined = 16, 64
	// So many parts, or presets, add the cost of one trial.
	trialParts, trialPresets = 20, 10
)

// findWitness returns an object for which shows is true with these presets alone, and also with the
// whole set; nil for none. It tries the smallest matching object, then adds values that meet
// conditions, and then elements that other elements need.
func (a *analysis) findWitness(all []*member, shows func(*trial) bool) *Witness {
	base := a.smallest(all)
	if base == nil {
		return nil
	}
	alone, additions := snapshotOf(all), [][]change{nil}
	if links := linksFor(all, anyElement); len(links) > 0 {
		additions = append(additions, links)
	}
	for _, facts := range a.combinations(all) {
		for _, elements := range additions {
			w := base.with(facts, elements)
			if a.tried(w, alone, all, shows) && w.isPlausible(facts) && a.tried(w, a.all, a.members, shows) {
				return a.withMemory(w, alone, all, shows)
			}
			if a.ended() {
				return nil
			}
		}
	}
	return nil
}

// The cost of a trial depends on the size of the presets that act.
func (a *analysis) tried(w *Witness, with *presets.Snapshot, all []*member, shows func(*trial) bool) bool {
	a.trialsLeft--
	if a.ended() {
		return false
	}
	t := a.resolve(w, with)
	if t.result != nil {
		a.trialsLeft -= len(t.result.Matched) / trialPresets
	}
	if len(all) < len(a.members) {
		for _, m := range all {
			a.trialsLeft -= len(m.parts) / trialParts
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

// combinations returns sets of values that meet the conditions of all presets, smallest first.
func (a *analysis) combinations(all []*member) [][]condition.Candidate {
	out := [][]condition.Candidate{nil}
	for _, m := range all {
		var next [][]condition.Candidate
		for _, facts := range out {
			for _, way := range a.solutionsOf(m) {
				next = append(next, together(facts, way)...)
			}
		}
		slices.SortStableFunc(next, func(x, y []condition.Candidate) int { return cmp.Compare(len(x), len(y)) })
		out = next[:min(len(next), maxCombined)]
	}
	return out
}

// together joins sets of values. If they have different numbers for a field, one of them may meet
// the conditions of both, as cores > 4 and cores > 8: each is tried. It returns none if they have
// other different values for a field.
func together(x, y []condition.Candidate) [][]condition.Candidate {
	first, second := slices.Clone(x), slices.Clone(x)
	for _, fact := range y {
		i := slices.IndexFunc(x, func(o condition.Candidate) bool { return slices.Equal(o.Path, fact.Path) })
		switch {
		case i < 0:
			first, second = append(first, fact), append(second, fact)
		case reflect.DeepEqual(x[i].Value, fact.Value):
		case isNumber(x[i].Value) && isNumber(fact.Value):
			second[i] = fact
		default:
			return nil
		}
	}
	if reflect.DeepEqual(first, second) {
		return [][]condition.Candidate{first}
	}
	return [][]condition.Candidate{first, second}
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// solutionsOf returns different sets of values that meet the conditions of a preset.
func (a *analysis) solutionsOf(m *member) [][]condition.Candidate {
	if m.searched {
		return m.solutions
	}
	m.searched = true
	base := a.smallest([]*member{m})
	if base == nil {
		return nil
	}
	alone := snapshotOf([]*member{m})
	holds := func(facts []condition.Candidate) bool {
		w := base.with(facts, nil)
		return a.tried(w, alone, []*member{m}, func(t *trial) bool { return t.matched(m) || t.rejection != nil }) && w.isPlausible(facts)
	}
	if len(m.Conditions()) == 0 || holds(nil) {
		m.solutions = [][]condition.Candidate{nil}
	} else {
		m.solutions = a.smallestSolutions(m.Expressions().Candidates(), holds)
	}
	return m.solutions
}

// smallestSolutions returns the smallest sets of values for which holds is true.
func (a *analysis) smallestSolutions(facts []condition.Candidate, holds func([]condition.Candidate) bool) [][]condition.Candidate {
	facts = facts[:min(len(facts), maxFacts)]
	most := 2
	if len(facts) <= maxTripled {
		most = 3
	}
	var out [][]condition.Candidate
	for size := 1; size <= most && len(out) == 0; size++ {
		eachSubset(facts, size, nil, func(some []condition.Candidate) bool {
			if holds(some) {
				out = append(out, slices.Clone(some))
			}
			return len(out) < maxWays && !a.ended()
		})
	}
	return out
}

// eachSubset calls visit for each consistent subset of a size, until visit returns false.
func eachSubset(facts []condition.Candidate, size int, some []condition.Candidate, visit func([]condition.Candidate) bool) bool {
	if size == 0 {
		return visit(some)
	}
	for i, fact := range facts {
		next := together(some, []condition.Candidate{fact})
		if len(next) == 1 && len(next[0]) > len(some) && !eachSubset(facts[i+1:], size-1, next[0], visit) {
			return false
		}
	}
	return true
}

func anyElement(string, string) bool { return true }

// incomplete reports for which elements of presets only the author of a VM sets the partner.
func incomplete(all []*member) func(list, name string) bool {
	halves := map[string]map[string]bool{} // the lists of an element
	for _, m := range all {
		for _, p := range m.parts {
			if list, name := linkedElement(p.Path); name != "" && p.gives() {
				at := list + name
				if halves[at] == nil {
					halves[at] = map[string]bool{}
				}
				i := slices.IndexFunc(p.Path, func(s provenance.Segment) bool { return s.Kind != provenance.Field })
				halves[at][p.Path[i-1].Name] = true
			}
		}
	}
	return func(list, name string) bool { return len(halves[list+name]) < 2 }
}

// linksFor returns changes that add the elements that other elements of presets require, if wanted.
func linksFor(all []*member, wanted func(list, name string) bool) []change {
	var out []change
	seen := map[string]bool{}
	for _, m := range all {
		for _, p := range m.parts {
			if list, name := linkedElement(p.Path); name != "" && !seen[list+name] && wanted(list, name) {
				seen[list+name] = true
				out = append(out, func(w *Witness) { w.addElement(list, name) })
			}
		}
	}
	return out
}

// isPlausible reports whether validation rules accept the values.
func (w *Witness) isPlausible(facts []condition.Candidate) bool {
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

// withMemory adds memory, which every VM needs, if no preset sets it.
func (a *analysis) withMemory(w *Witness, alone *presets.Snapshot, all []*member, shows func(*trial) bool) *Witness {
	gives := func(p *part) bool {
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

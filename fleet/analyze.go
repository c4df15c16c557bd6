package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Finding is something that is wrong with a preset of a set.
type Finding struct {
	*Check
	// Preset that should be changed, and the field of it that shows the finding, such as
	// spec.defaults.spec.running.
	Preset presets.PresetName
	Field  string
	// OnKey says that the name of the field is wrong, and not its value.
	OnKey   bool
	Message string
	// Other is the other preset of the finding; its zero value is none.
	Other presets.PresetName
	// Witness shows the finding; nil where none is needed.
	Witness *Witness
}

const (
	// maxFindings is how many findings of a set are reported.
	maxFindings = 1000
	// maxTrials is how many objects are tried as witnesses in one analysis. A trial takes some 100 µs.
	maxTrials = 50_000
)

// Analyze reports what is wrong with a set of presets that are valid each by itself. The
// findings are sorted by preset, check and field. Complete is false where there may be more: there
// were too many findings or too many pairs of presets to try, or the context ended.
//
// Namespaces that are known have only the labels that they have; any others may exist.
func Analyze(ctx context.Context, all []*presets.Compiled, known ...presets.Namespace) (found []Finding, complete bool) {
	a := newAnalysis(ctx, all)
	a.namespaces = known
	for _, step := range []func(*analysis){
		(*analysis).unreachable, (*analysis).contradictions, (*analysis).removals, (*analysis).forbidden,
		(*analysis).shadowed, (*analysis).underInstancetypes,
	} {
		step(a)
	}
	slices.SortStableFunc(a.found, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Preset.Namespace, y.Preset.Namespace), cmp.Compare(x.Preset.Ref, y.Preset.Ref),
			cmp.Compare(x.ID, y.ID), cmp.Compare(x.Field, y.Field), cmp.Compare(x.Other.Ref, y.Other.Ref))
	})
	return a.found, !a.ended()
}

// A member is a preset of the set that is analysed.
type member struct {
	*presets.Compiled
	parts []part
	// vms and namespaces are what its selectors require, by label key.
	vms, namespaces map[string]requirement
	// dead says that it can match nothing.
	dead bool
	// ways are sets of values that meet its conditions, once they were searched for.
	ways     [][]presets.Fact
	searched bool
}

// A part is a presets.Part with the texts of its path and value.
type part struct {
	presets.Part
	path, value string
}

// A claim is a part and its preset.
type claim struct {
	*member
	part
}

func (m *member) name() presets.PresetName {
	return presets.PresetName{Namespace: m.Namespace, Ref: m.Ref}
}

type analysis struct {
	ctx     context.Context
	members []*member
	// at has the claims on a path of a VM, and under those on a path or beneath it.
	at, under map[string][]claim
	found     []Finding
	// left is how many objects may still be tried.
	left int
	// all has the presets of the whole set.
	all        *presets.Snapshot
	namespaces []presets.Namespace
}

// newAnalysis sorts the presets, so that the findings do not depend on their order.
func newAnalysis(ctx context.Context, all []*presets.Compiled) *analysis {
	a := &analysis{ctx: ctx, left: maxTrials, all: presets.NewSnapshot(all, nil), at: map[string][]claim{}, under: map[string][]claim{}}
	for _, c := range all {
		vms, namespaces := c.Selectors()
		m := &member{Compiled: c, vms: requirements(vms), namespaces: requirements(namespaces)}
		for _, p := range c.Parts() {
			m.parts = append(m.parts, part{p, p.Path.String(), show(p.Value)})
		}
		a.members = append(a.members, m)
	}
	slices.SortFunc(a.members, func(x, y *member) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Ref, y.Ref))
	})
	for _, m := range a.members {
		for _, p := range m.parts {
			a.at[p.path] = append(a.at[p.path], claim{m, p})
			for i := range p.Path {
				prefix := p.Path[:i+1].String()
				a.under[prefix] = append(a.under[prefix], claim{m, p})
			}
		}
	}
	return a
}

// beneath lists the claims at or beneath a path, which may have patterns.
func (a *analysis) beneath(p part) []claim {
	every := slices.IndexFunc(p.Path, func(s provenance.Segment) bool { return s.Kind == provenance.Every })
	if every < 0 {
		return a.under[p.path]
	}
	return slices.DeleteFunc(slices.Clone(a.under[p.Path[:every].String()]), func(c claim) bool { return !c.Path.HasPrefix(p.Path) })
}

// ended reports whether the analysis should find no more.
func (a *analysis) ended() bool {
	return len(a.found) >= maxFindings || a.left <= 0 || a.ctx.Err() != nil
}

func (a *analysis) report(check *Check, m *member, f Finding) {
	if !a.ended() {
		f.Check, f.Preset = check, m.name()
		a.found = append(a.found, f)
	}
}

// unreachable reports presets that match nothing, or do nothing.
func (a *analysis) unreachable() {
	for _, m := range a.members {
		vms, namespaces := m.Selectors()
		_, some := satisfy(vms)
		_, somewhere := satisfy(namespaces)
		switch i := m.FalseCondition(); {
		case !some:
			m.dead = true
			a.report(Unreachable, m, Finding{Field: "spec.match.labels", Message: fmt.Sprintf("no labels meet the selector %s", vms)})
		case !somewhere:
			m.dead = true
			a.report(Unreachable, m, Finding{Field: "spec.match.namespaces", Message: fmt.Sprintf("no namespace labels meet the selector %s", namespaces)})
		case i >= 0:
			m.dead = true
			a.report(Unreachable, m, Finding{
				Field: fmt.Sprintf("spec.match.conditions[%d].expression", i), Message: "the condition is false for every VM",
			})
		case len(m.parts) == 0:
			m.dead = true
			a.report(NoOp, m, Finding{Field: "spec", Message: "the preset has no defaults, overrides, remove or forbid"})
		}
	}
}

// acts reports whether the preset can act on VMs.
func (m *member) acts() bool { return !m.dead && m.Mode == v1alpha1.ModeEnforce }

// meets reports whether two presets may act on one object.
func (m *member) meets(o *member) bool {
	if m == o || !m.acts() || !o.acts() || m.ApplyAt != o.ApplyAt || m.Namespace != "" && o.Namespace != "" && m.Namespace != o.Namespace {
		return false
	}
	return compatible(m.vms, o.vms) && compatible(m.namespaces, o.namespaces)
}

// contradictions reports pairs of equal standing that set a leaf to different values.
func (a *analysis) contradictions() {
	claims := map[string][]claim{}
	seen := map[[2]*member]bool{}
	for _, m := range a.members {
		for _, p := range m.parts {
			if !m.acts() || p.IsKey || p.Role == provenance.Forbid {
				continue
			}
			for _, key := range append([]string{p.path}, p.Choices...) {
				place := fmt.Sprint(m.Namespace, " ", m.Priority, " ", layerOf(p.Role), " ", key)
				a.contend(claim{m, p}, claims[place], seen)
				claims[place] = append(claims[place], claim{m, p})
			}
		}
	}
}

// contend compares a claim with earlier ones on the same place. Each pair of presets is judged
// once.
func (a *analysis) contend(c claim, earlier []claim, seen map[[2]*member]bool) {
	for _, other := range earlier {
		pair := [2]*member{other.member, c.member}
		if !a.ended() && differ(other.part, c.part) && other.meets(c.member) && !seen[pair] {
			seen[pair] = true
			a.contradiction(other.member, c.member)
		}
	}
}

// layerOf is the role that stands for the layer of a role.
func layerOf(r provenance.Role) provenance.Role {
	if r == provenance.Remove {
		return provenance.Override
	}
	return r
}

// differ reports whether two parts for one place may want different things.
func differ(x, y part) bool {
	return x.Role != y.Role || x.Computed || y.Computed || x.path != y.path || x.value != y.value
}

// contradiction reports the conflicts between two presets that a witness shows.
func (a *analysis) contradiction(first, second *member) {
	var conflicts []presets.Conflict
	witness := a.find([]*member{first, second}, func(t *trial) bool {
		if !t.matched(first, second) {
			return false
		}
		conflicts = slices.DeleteFunc(slices.Clone(t.result.Conflicts), func(c presets.Conflict) bool {
			return (c.Winner != first.Ref || c.Loser != second.Ref) && (c.Winner != second.Ref || c.Loser != first.Ref)
		})
		return len(conflicts) > 0
	})
	if witness == nil {
		return
	}
	for _, c := range conflicts {
		mine, gives := claimFor(second, c.Path)
		theirs, alsoGives := claimFor(first, c.Path)
		if !gives || !alsoGives {
			continue
		}
		what := fmt.Sprintf("set %s at the same priority: %s here, %s there", c.Path, shown(c.Path, mine.Value), shown(c.Path, theirs.Value))
		if mine.path != theirs.path {
			what = fmt.Sprintf("choose different alternatives at the same priority: %s here, %s there", mine.path, theirs.path)
		}
		a.report(Conflicting, second, Finding{
			Field: mine.Field, Other: first.name(), Witness: witness,
			Message: fmt.Sprintf("presets %s and %s %s; only their names decide", second.Ref, first.Ref, what),
		})
	}
}

// claimFor returns the part of a preset that sets what lies at a path of a VM, or takes a side in
// the same choice.
func claimFor(m *member, path string) (part, bool) {
	for _, match := range []func(part) bool{
		func(p part) bool { return p.path == path },
		func(p part) bool {
			return slices.ContainsFunc(p.Choices, func(c string) bool {
				one, other, _ := strings.Cut(c, "|")
				return beneath(path, one) || beneath(path, other)
			})
		},
		func(p part) bool { return beneath(path, p.path) },
	} {
		i := slices.IndexFunc(m.parts, func(p part) bool { return p.Role != provenance.Forbid && match(p) })
		if i >= 0 {
			return m.parts[i], true
		}
	}
	return part{}, false
}

// beneath reports whether a path in text form is at or beneath another.
func beneath(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// shown is a value as messages and statuses show it. Values that may be secrets are left out.
func shown(path string, v any) string {
	if presets.HoldsSecret(path) {
		return "one value"
	}
	return presets.Cut(show(v), maxShown)
}

// maxShown is how many bytes of a value a message shows.
const maxShown = 80

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// Package fleet evaluates presets for many VMs: it finds conflicts between presets and presets
// without effect, and compares two sets of presets. It compares VMs with the expectations of tests,
// measures test coverage, and imports presets and instancetypes of KubeVirt.
//
// The effects on a single VM are computed only by the engine of package presets: each finding has a
// witness VM for which the engine confirms it. The package is pure.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation"
)

// A Finding is a problem of a preset.
type Finding struct {
	*Check
	// Preset that should be changed, or exception/NAME, and its field that shows the finding, for
	// example spec.defaults.spec.running.
	Preset presets.PresetName
	Field  string
	// OnKey is true if the name of the field is wrong, not its value.
	OnKey   bool
	Message string
	// Other is the other preset of the finding; may be empty.
	Other presets.PresetName
	// Witness shows the finding; may be nil.
	Witness *Witness

	// problem is that of an invalid value; nil for other findings.
	problem *field.Error
}

// Settings say what Analyze knows of a cluster.
type Settings struct {
	// Namespaces are known. They have only the given labels. Other namespaces may exist.
	Namespaces []presets.Namespace
	// VMLabels are the values of the labels of known VMs, by key. Other VMs may exist.
	VMLabels map[string][]string
	// Exceptions are checked at the time Now.
	Exceptions []*presets.Exception
	Now        time.Time
	// Rules find VMs that presets make invalid; nil leaves that out.
	Rules *validation.Config
	// Render returns why a VMI, which the rules admit, cannot run; may be nil.
	Render func(*kubevirtv1.VirtualMachineInstance) field.ErrorList
}

const (
	maxFindings = 1000
	// maxTrials limits the objects tried in one analysis; one takes about 100 µs.
	maxTrials = 50_000
)

// Analyze checks a set of valid presets. The findings are sorted by preset, check and field. If
// complete is false, there may be more findings: there were too many, there were too many pairs of
// presets to try, or the context ended.
func Analyze(ctx context.Context, all []*presets.Compiled, settings Settings) (found []Finding, complete bool) {
	a := newAnalysis(ctx, all, settings)
	for _, step := range []func(*analysis){
		(*analysis).unreachable, (*analysis).contradictions, (*analysis).removals, (*analysis).forbidden,
		(*analysis).shadowed, (*analysis).underInstancetypes, (*analysis).unpaired, (*analysis).misspelt, (*analysis).misspeltRules, (*analysis).selectedPresetValues, (*analysis).suspicious, (*analysis).idleRules, (*analysis).selectsNothing, (*analysis).idleExceptions, (*analysis).failing, (*analysis).invalid,
	} {
		if !a.ended() {
			step(a)
		}
	}
	slices.SortStableFunc(a.found, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(x.Preset.Namespace, y.Preset.Namespace), cmp.Compare(x.Preset.Ref, y.Preset.Ref),
			cmp.Compare(x.ID, y.ID), cmp.Compare(x.Field, y.Field), cmp.Compare(x.Other.Ref, y.Other.Ref))
	})
	return a.found, !a.ended()
}

type member struct {
	*presets.Compiled
	parts []*part
	// vms and namespaces are the requirements of its selectors, by label key.
	vms, namespaces map[string]requirement
	// demands are those of its conditions.
	demands []condition.Demand
	around  labels.Set // known labels of the preset's own namespace
	// matchesNothing is true if no VM can match.
	matchesNothing bool
	// solutions are sets of values that meet its conditions; empty until searched is true.
	solutions [][]condition.Candidate
	searched  bool
}

// part is a presets.Part with its path and value as text.
type part struct {
	presets.Action
	path, value string
}

// gives reports whether the part sets a value.
func (p *part) gives() bool { return p.Role == provenance.Default || p.Role == provenance.Override }

type claim struct {
	*member
	*part
}

type analysis struct {
	Settings
	ctx     context.Context
	members []*member
	// at has the claims by path of a VM; under has them by each prefix of their path.
	at, under  map[string][]claim
	found      []Finding
	trialsLeft int
	all        *presets.Snapshot
	// standalone sets platform defaults; nil alongside KubeVirt.
	standalone *presets.Engine
}

// newAnalysis sorts the presets, so that findings do not depend on their order.
func newAnalysis(ctx context.Context, all []*presets.Compiled, settings Settings) *analysis {
	a := &analysis{Settings: settings, ctx: ctx, trialsLeft: maxTrials, all: presets.NewSnapshot(all, nil), at: map[string][]claim{}, under: map[string][]claim{}}
	for _, c := range all {
		vms, namespaces := c.Selectors()
		m := &member{Compiled: c, vms: requirements(vms), namespaces: requirements(namespaces), demands: c.Expressions().Demands()}
		for _, p := range c.Actions() {
			m.parts = append(m.parts, &part{p, p.Path.String(), tree.Format(p.Value)})
		}
		a.members = append(a.members, m)
	}
	slices.SortFunc(a.members, func(x, y *member) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Ref, y.Ref))
	})
	if rules := settings.Rules; rules != nil && !rules.Addon {
		a.standalone = &presets.Engine{Platform: &presets.Platform{Architecture: rules.Architecture}}
	}
	for _, m := range a.members {
		m.around, _ = a.labelsOf(m.Namespace)
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

// beneath returns the claims at or beneath a path, which may have patterns.
func (a *analysis) beneath(p *part) []claim {
	every := slices.IndexFunc(p.Path, func(s provenance.Segment) bool { return s.Kind == provenance.AnyElement })
	if every < 0 {
		return a.under[p.path]
	}
	return slices.DeleteFunc(slices.Clone(a.under[p.Path[:every].String()]), func(c claim) bool { return !c.Path.HasPrefix(p.Path) })
}

func (a *analysis) ended() bool {
	return len(a.found) >= maxFindings || a.trialsLeft <= 0 || a.ctx.Err() != nil
}

func (a *analysis) report(check *Check, m *member, f Finding) { a.reportOf(check, m.Name(), f) }

func (a *analysis) reportOf(check *Check, of presets.PresetName, f Finding) {
	if !a.ended() {
		f.Check, f.Preset = check, of
		a.found = append(a.found, f)
	}
}

func (a *analysis) unreachable() {
	for _, m := range a.members {
		vms, namespaces := m.Selectors()
		_, some := satisfy(vms)
		_, somewhere := satisfy(namespaces)
		contradicted, why := m.Expressions().Contradiction()
		implausible, whyNot := a.neverPlausible(m)
		switch i := m.Expressions().FalseCondition(); {
		case !some:
			m.matchesNothing = true
			a.report(Unreachable, m, Finding{Field: "spec.match.labels" + unmet(m.vms), Message: fmt.Sprintf("no labels meet the selector %s", vms)})
		case !somewhere:
			m.matchesNothing = true
			a.report(Unreachable, m, Finding{Field: "spec.match.namespaces" + unmet(m.namespaces), Message: fmt.Sprintf("no namespace labels meet the selector %s", namespaces)})
		case i >= 0:
			m.matchesNothing = true
			a.report(Unreachable, m, Finding{
				Field: fmt.Sprintf("spec.match.conditions[%d].expression", i), Message: "the condition is false for every VM",
			})
		case contradicted >= 0:
			m.matchesNothing = true
			a.report(Unreachable, m, Finding{Field: fmt.Sprintf("spec.match.conditions[%d].expression", contradicted), Message: "the condition is " + why})
		case implausible >= 0:
			m.matchesNothing = true
			a.report(Unreachable, m, Finding{Field: fmt.Sprintf("spec.match.conditions[%d].expression", implausible), Message: "the condition is never true: " + whyNot})
		case len(m.parts) == 0:
			m.matchesNothing = true
			a.report(NoOp, m, Finding{Field: "spec", Message: "the preset has no defaults, overrides, remove, forbid or require"})
		}
	}
}

// neverPlausible returns the index of a condition that requires a value which no VM may have, and
// says why; -1 if there is none.
func (a *analysis) neverPlausible(m *member) (index int, why string) {
	for _, d := range m.demands {
		named := slices.Contains([]string{"namespaceObject.metadata.name", "namespaceObject.metadata.labels." + corev1.LabelMetadataName}, strings.Join(d.Path, "."))
		if named && m.Namespace != "" && len(d.Values) > 0 && !slices.Contains(d.Values, any(m.Namespace)) {
			return d.Condition, fmt.Sprintf("the preset acts in its own namespace %s only", m.Namespace)
		}
		if d.MayBeAbsent || len(d.Values) == 0 || d.Path[0] != "object" {
			continue
		}
		isPlausible := func(v any) bool {
			w := &Witness{Kind: presets.VirtualMachine, Object: newObject(presets.VirtualMachine, "any", nil)}
			facts := []condition.Candidate{{Path: d.Path, Value: v}}
			return w.with(facts, nil).isPlausible(facts)
		}
		if !slices.ContainsFunc(d.Values, isPlausible) {
			return d.Condition, fmt.Sprintf("no VM has %s in %s", tree.Format(d.Values[0]), strings.Join(d.Path[1:], "."))
		}
	}
	return -1, ""
}

// unmet returns the field of the first requirement that no label meets.
func unmet(required map[string]requirement) string {
	for _, key := range slices.Sorted(maps.Keys(required)) {
		if len(choices(required[key], required[key])) == 0 {
			return "." + required[key].field()
		}
	}
	return ""
}

func (m *member) acts() bool { return !m.matchesNothing && m.Mode == v1alpha1.ModeEnforce }

func (m *member) meets(o *member) bool {
	if m == o || !m.acts() || !o.acts() || m.ApplyAt != o.ApplyAt || m.Namespace != "" && o.Namespace != "" && m.Namespace != o.Namespace {
		return false
	}
	return compatible(m.vms, o.vms) && compatible(m.namespaces, o.namespaces)
}

// contradictions reports presets of equal precedence that set a leaf to different values.
func (a *analysis) contradictions() {
	claims := map[string][]claim{}
	seen := map[[2]*member]bool{}
	for _, m := range a.members {
		for _, p := range m.parts {
			if !m.acts() || p.IsKey || p.Role.IsRule() {
				continue
			}
			keys := append([]string{p.path}, p.Choices...)
			if every := everyElement(p.Path); len(a.at[every]) > 0 && every != p.path {
				keys = append(keys, every)
			}
			for _, key := range keys {
				place := fmt.Sprint(m.Namespace, " ", m.Priority, " ", layerOf(p.Role), " ", key)
				a.contend(claim{m, p}, claims[place], seen)
				claims[place] = append(claims[place], claim{m, p})
			}
		}
	}
}

// everyElement returns a path with [*] for each element.
func everyElement(p provenance.Path) string {
	p = slices.Clone(p)
	for i := range p {
		if p[i].Kind == provenance.Element {
			p[i] = provenance.Segment{Name: presets.EveryElement, Kind: provenance.AnyElement}
		}
	}
	return p.String()
}

// contend checks each pair of presets once.
func (a *analysis) contend(c claim, earlier []claim, seen map[[2]*member]bool) {
	for _, other := range earlier {
		pair := [2]*member{other.member, c.member}
		if !a.ended() && differ(other.part, c.part) && other.meets(c.member) && !seen[pair] {
			seen[pair] = true
			a.contradiction(other.member, c.member)
		}
	}
}

func layerOf(r provenance.Role) provenance.Role {
	if r == provenance.Remove {
		return provenance.Override
	}
	return r
}

// differ reports whether two parts for one place may want different things.
func differ(x, y *part) bool {
	return x.Role != y.Role || x.Computed || y.Computed || x.path != y.path || x.value != y.value
}

func (a *analysis) contradiction(first, second *member) {
	var conflicts []presets.Conflict
	witness := a.findWitness([]*member{first, second}, func(t *trial) bool {
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
		what := fmt.Sprintf("set %s at the same priority: %s here, %s there", c.Path, mine.shown(c.Path), theirs.shown(c.Path))
		if everyElement(mine.Path) != everyElement(theirs.Path) {
			what = fmt.Sprintf("choose different alternatives at the same priority: %s here, %s there", mine.path, theirs.path)
		}
		a.report(Conflicting, second, Finding{
			Field: mine.Field, Other: first.Name(), Witness: witness,
			Message: fmt.Sprintf("presets %s and %s %s; only their names decide", second.Ref, first.Ref, what),
		})
	}
}

// claimFor returns the part that sets a path of a VM, or takes a side in the same choice.
func claimFor(m *member, path string) (*part, bool) {
	if part, found := claimAt(m, path); found {
		return part, true
	}
	p, err := presets.ParsePath(path)
	if err != nil {
		return nil, false
	}
	return claimAt(m, everyElement(p))
}

func claimAt(m *member, path string) (*part, bool) {
	for _, match := range []func(*part) bool{
		func(p *part) bool { return p.path == path },
		func(p *part) bool {
			return slices.ContainsFunc(p.Choices, func(c string) bool {
				one, other, _ := strings.Cut(c, "|")
				return beneath(path, one) || beneath(path, other)
			})
		},
		func(p *part) bool { return beneath(path, p.path) },
	} {
		i := slices.IndexFunc(m.parts, func(p *part) bool { return !p.Role.IsRule() && match(p) })
		if i >= 0 {
			return m.parts[i], true
		}
	}
	return nil, false
}

func beneath(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// shown is a value as messages and statuses show it. Values that may be secrets are left out.
func shown(path string, v any) string {
	if presets.MayHoldSecret(path) {
		return "one value"
	}
	return tree.Truncate(tree.Format(v), maxShown)
}

// shown is the part's value for a path as messages show it, or the expression that computes it.
func (p *part) shown(path string) string {
	if p.Computed && !presets.MayHoldSecret(path) {
		return tree.Truncate(p.Expression, maxShown)
	}
	return shown(path, p.Value)
}

const maxShown = 80

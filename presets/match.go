package presets

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
)

// clusterCost and namespaceCost are the budgets of the conditions of one request, in units of CEL
// cost. A namespace cannot use up the budget of cluster presets.
const (
	clusterCost   = celconfig.RuntimeCELCostBudget / 5
	namespaceCost = celconfig.RuntimeCELCostBudget / 20
)

type query struct {
	labels         labels.Set
	templateLabels labels.Set
	namespace      Namespace
	selection      presetSelection
	// hasOwner says that a VM controls the VMI. Definition presets have acted on that VM.
	hasOwner bool
	// lenient says that problems with annotations that select presets are old: they are warnings.
	lenient bool
	isVMI   bool
	// recordedExceptions are those of the stored VM, if its stored intent is expanded; else nil.
	recordedExceptions []provenance.Exception
	// reapplied presets have the current exceptions instead.
	reapplied      []string
	excludesLegacy bool
	eval           condition.Evaluation
	// clusterLeft and namespaceLeft are the CEL budgets that matching leaves for computed values.
	clusterLeft, namespaceLeft int64
}

// selects reports whether c matches, apart from its conditions.
func (q *query) selects(c *Compiled) bool {
	if c.Mode == v1alpha1.ModeOff || !q.actsNow(c) {
		return false
	}
	if c.legacy { // its selector reads only the VMI's own labels
		return !q.excludesLegacy && matches(c.labels, q.templateLabels)
	}
	return matches(c.labels, q.labels) && matches(c.namespaces, q.namespace.Labels)
}

// matches reports whether s, or no selector at all, selects the labels.
func matches(s labels.Selector, set labels.Set) bool { return s == nil || s.Matches(set) }

// actsNow reports whether c acts on this kind of object. VMIs without a VM get all presets.
func (q *query) actsNow(c *Compiled) bool {
	if c.ApplyAt == v1alpha1.ApplyAtLaunch {
		return q.isVMI
	}
	return !q.hasOwner
}

type matchResult struct {
	// presets that match, strongest first.
	presets []*Compiled
	// unevaluable presets have a condition that cannot be evaluated.
	unevaluable []*Compiled
	// overBudget are unevaluable presets with conditions that cost too much together.
	overBudget []*Compiled
	exceptions []provenance.Exception
	// budgetWarnings are about overBudget, warnings about other conditions that failed.
	budgetWarnings, warnings []string
}

// match finds the presets that match. If a condition fails, a preset that only has defaults is
// skipped with a warning, and one that could overrule the user rejects the request. Cluster presets
// are evaluated first, with a budget of their own.
func (s *Snapshot) match(q *query) (matchResult, field.ErrorList) {
	if s.platformOnly {
		return matchResult{}, nil
	}
	var found []*Compiled
	keep := func(c *Compiled) {
		if q.selects(c) {
			found = append(found, c)
		}
	}
	s.candidates(q.labels, q.namespace, keep)
	var m matchResult
	errs := slices.Concat(q.selection.problems, s.addNamed(q, &m, keep))
	if q.lenient {
		for _, e := range errs {
			m.warnings = append(m.warnings, e.Error())
		}
		errs = nil
	}
	slices.SortFunc(found, byPrecedence)
	// An In selector with two values that both keys carry cannot find a preset twice, but an
	// annotation may name one twice.
	found = slices.Compact(found)
	m.presets = found
	m.applyExceptions(s, q)
	q.eval.Budget = clusterCost
	errs = append(errs, m.evaluate(q, true)...)
	q.clusterLeft, q.eval.Budget = q.eval.Budget, namespaceCost
	errs = append(errs, m.evaluate(q, false)...)
	q.namespaceLeft = q.eval.Budget
	return m, errs
}

// evaluate removes the presets of one scope with a condition that is false.
func (m *matchResult) evaluate(q *query, cluster bool) field.ErrorList {
	var errs field.ErrorList
	var defaults, overrides tally
	m.presets = slices.DeleteFunc(m.presets, func(c *Compiled) bool {
		if c.Cluster() != cluster {
			return false
		}
		ok, err := q.conditionsHold(c)
		switch {
		case err == nil:
			return !ok
		case errors.Is(err, condition.ErrBudget):
			m.overBudget = append(m.overBudget, c)
			skipped := &defaults
			if c.MayOverrule() {
				skipped = &overrides
			}
			skipped.add(func() string { return c.Ref })
		case c.MayOverrule():
			errs = append(errs, field.Forbidden(field.NewPath("spec"), fmt.Sprintf("cannot evaluate the conditions of preset %s, which may overrule this object: %v", c.Ref, err)).
				WithOrigin(originPresets+c.Ref))
		default:
			m.warnings = append(m.warnings, fmt.Sprintf("preset %s skipped: %v", c.Ref, err))
		}
		m.unevaluable = append(m.unevaluable, c)
		return true
	})
	if defaults.count+overrides.count > 0 {
		errs = append(errs, m.budgetProblems(q, cluster, defaults, overrides)...)
	}
	return errs
}

// budgetProblems warns about presets with defaults only, and rejects the request for others.
func (m *matchResult) budgetProblems(q *query, cluster bool, defaults, overrides tally) field.ErrorList {
	scope := "cluster presets"
	if !cluster {
		scope = "presets of namespace " + q.namespace.Name
	}
	tooMuch := "the conditions of the " + scope + " cost too much for one request; make them cheaper, or select by labels; %d "
	if defaults.count > 0 {
		m.budgetWarnings = append(m.budgetWarnings, listing(fmt.Sprintf(tooMuch+"skipped:", defaults.count), defaults))
	}
	if overrides.count == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), listing(fmt.Sprintf(tooMuch+"may overrule this object:", overrides.count), overrides))}
}

func (c *Compiled) outranksUser() bool {
	return c.overrides != nil || len(c.removes) > 0 || c.HasRules()
}

// MayOverrule reports whether the preset may reject VMs, or overrule their authors.
func (c *Compiled) MayOverrule() bool { return c.outranksUser() && c.Mode == v1alpha1.ModeEnforce }

func (q *query) conditionsHold(c *Compiled) (bool, error) {
	unmet, err := q.unmetCondition(c)
	return unmet == nil, err
}

// unmetCondition returns the first condition that is not true, or fails; nil if all are true.
func (q *query) unmetCondition(c *Compiled) (*condition.Expression, error) {
	for i := range c.conditions {
		if ok, err := q.eval.Holds(c.conditions[i]); err != nil || !ok {
			return &c.conditions[i], err
		}
	}
	return nil, nil
}

// idleExclusions warns about exclusions of unknown presets, and of defaults that a preset does not
// have, unless the stored VM has them.
func (s *Snapshot) idleExclusions(q *query, old []exclusion) []string {
	var out []string
	for _, e := range q.selection.excluded {
		known := slices.ContainsFunc(old, func(o exclusion) bool { return o.ref == e.ref && o.path.Equal(e.path) })
		if known || e.ref == "*" || s.broken[ParseRef(q.namespace.Name, e.ref)] || len(out) >= maxSuggestions {
			continue
		}
		c, exists := s.Lookup(q.namespace.Name, e.ref)
		switch {
		case !exists:
			out = append(out, fmt.Sprintf("annotation %s: preset %q does not exist%s", v1alpha1.AnnotationExclude, e.ref, s.suggestion(q.namespace.Name, e.ref)))
		case !c.defaults.meets(e.path):
			out = append(out, fmt.Sprintf("annotation %s: preset %s has no default %s, and exclusions concern defaults only", v1alpha1.AnnotationExclude, e.ref, cmp.Or(e.path.String(), "to exclude")))
		}
	}
	return out
}

// maxSuggestions limits the search for similar names, which takes time if there are many presets.
const maxSuggestions = 8

func (s *Snapshot) addNamed(q *query, m *matchResult, keep func(*Compiled)) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPresets)
	for _, ref := range q.selection.named {
		c, ok := s.Lookup(q.namespace.Name, ref)
		switch {
		case ok && !q.selects(c) && q.actsNow(c):
			reason, _ := q.mismatchReason(s, c, nil)
			m.warnings = append(m.warnings, fmt.Sprintf("preset %s in annotation %s does not match: %s", ref, v1alpha1.AnnotationPresets, reason))
		case ok && c.Explicit:
			keep(c)
		case ok: // it needs no name to act
		case s.broken[ParseRef(q.namespace.Name, ref)]:
			errs = append(errs, field.Invalid(at, ref, "preset is invalid: see its status"))
		case len(errs) < maxSuggestions:
			errs = append(errs, field.Invalid(at, ref, "preset does not exist"+s.suggestion(q.namespace.Name, ref)))
		default:
			errs = append(errs, field.Invalid(at, ref, "preset does not exist"))
		}
	}
	return errs
}

// suggestion suggests another name for an unknown preset: the same one of the other scope, or a
// similar one.
func (s *Snapshot) suggestion(namespace, ref string) string {
	name, isCluster := SplitRef(ref)
	names := map[bool][]string{}
	for _, known := range s.refs(namespace) {
		other, is := SplitRef(known)
		names[is] = append(names[is], other)
	}
	best, is := name, !isCluster
	if !slices.Contains(names[is], name) {
		best, is = spelling.Nearest(name, slices.Values(names[isCluster])), isCluster
	}
	if best == "" {
		best, is = spelling.Nearest(name, slices.Values(names[!isCluster])), !isCluster
	}
	switch {
	case best == "":
		return ""
	case is:
		best = "cluster/" + best
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// matchLabels merges the labels that selectors read; later sets win.
func matchLabels(sets ...any) labels.Set {
	out := labels.Set{}
	for _, set := range sets {
		for k, v := range tree.AsObject(set) {
			if text, ok := v.(string); ok {
				out[k] = text
			}
		}
	}
	return out
}

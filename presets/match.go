package presets

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A query is what matching looks at.
type query struct {
	labels labels.Set
	// instanceLabels are those of the instance itself.
	instanceLabels labels.Set
	namespace      Namespace
	selection      presetSelection
	// owned says that a VM controls the instance, whose Definition presets
	// have acted on the VM.
	owned bool
	// lenient says that an annotation that selects presets that is wrong was so before, and
	// is a warning and refuses nothing.
	lenient bool
	// launch says that the object is an instance.
	launch bool
	// recorded are the exceptions of the stored VM, where its stored intent is expanded; else nil.
	recorded []provenance.Exception
	// noLegacy says that the instance keeps legacy presets away.
	noLegacy bool
	eval     evaluation
	// clusterLeft and namespaceLeft are left of the CEL budgets, for computed values.
	clusterLeft, namespaceLeft int64
}

// wants reports whether everything but conditions lets c match.
func (q *query) wants(c *Compiled) bool {
	if c.Mode == v1alpha1.ModeOff || !q.isMoment(c) {
		return false
	}
	if c.legacy { // its selector sees the instance's own labels only
		return !q.noLegacy && (c.labels == nil || c.labels.Matches(q.instanceLabels))
	}
	return (c.labels == nil || c.labels.Matches(q.labels)) &&
		(c.namespaces == nil || c.namespaces.Matches(labels.Set(q.namespace.Labels)))
}

// isMoment reports whether c acts at this moment of a machine's life. An
// instance that is made directly gets the presets of both.
func (q *query) isMoment(c *Compiled) bool {
	if c.ApplyAt == v1alpha1.ApplyAtLaunch {
		return q.launch
	}
	return !q.owned
}

// A matching is the outcome of a query.
type matching struct {
	// presets that match, strongest first.
	presets []*Compiled
	// undecided presets may match: a condition could not be evaluated.
	undecided []*Compiled
	// overBudget are those of them whose conditions cost too much together.
	overBudget []*Compiled
	// exceptions kept other presets from acting.
	exceptions []provenance.Exception
	// budgetWarnings are about these, warnings about other conditions that failed.
	budgetWarnings, warnings []string
}

// match finds the presets that match. A preset whose condition fails at run
// time is left out with a warning when it only has defaults; one that could
// overrule the user refuses the request. Cluster presets are evaluated first,
// within a budget of their own.
func (s *Snapshot) match(q *query) (matching, field.ErrorList) {
	var found []*Compiled
	keep := func(c *Compiled) {
		if q.wants(c) {
			found = append(found, c)
		}
	}
	s.cluster.candidates(q.labels, q.namespace.Labels, keep)
	if x := s.namespaced[q.namespace.Name]; x != nil {
		x.candidates(q.labels, q.namespace.Labels, keep)
	}
	var m matching
	errs := q.forgive(append(q.selection.problems, s.addNamed(q, &m, keep)...), &m)
	slices.SortFunc(found, byPrecedence)
	// An In selector with two values that both keys carry cannot find a
	// preset twice, but an annotation may name one twice.
	found = slices.Compact(found)
	m.presets = found
	m.except(s, q)
	q.eval.left = clusterCost
	errs = append(errs, m.evaluate(q, true)...)
	q.clusterLeft, q.eval.left = q.eval.left, namespaceCost
	errs = append(errs, m.evaluate(q, false)...)
	q.namespaceLeft = q.eval.left
	return m, errs
}

// evaluate leaves out those cluster presets, or presets of the namespace, whose
// conditions do not hold.
func (m *matching) evaluate(q *query, cluster bool) field.ErrorList {
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
		case errors.Is(err, errBudget):
			m.overBudget = append(m.overBudget, c)
			if c.MayOverrule() {
				overrides.add(func() string { return c.Ref })
			} else {
				defaults.add(func() string { return c.Ref })
			}
		case c.MayOverrule():
			errs = append(errs, field.Forbidden(field.NewPath("spec"), fmt.Sprintf("preset %s may overrule this object, and its conditions cannot be evaluated: %v", c.Ref, err)))
		default:
			m.warnings = append(m.warnings, fmt.Sprintf("preset %s skipped: %v", c.Ref, err))
		}
		m.undecided = append(m.undecided, c)
		return true
	})
	if defaults.count+overrides.count > 0 {
		errs = append(errs, m.exhausted(q, cluster, defaults, overrides)...)
	}
	return errs
}

// exhausted says which presets of a scope were not evaluated: it warns about
// those that only have defaults, and refuses the others.
func (m *matching) exhausted(q *query, cluster bool, defaults, overrides tally) field.ErrorList {
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

// forgive turns problems into warnings where the request did not cause them.
func (q *query) forgive(errs field.ErrorList, m *matching) field.ErrorList {
	if !q.lenient {
		return errs
	}
	for _, e := range errs {
		m.warnings = append(m.warnings, e.Error())
	}
	return nil
}

func (c *Compiled) outranksUser() bool {
	return c.overrides != nil || len(c.removes) > 0 || len(c.forbids) > 0
}

// MayOverrule reports whether the preset may refuse VMs, or overrule their authors.
func (c *Compiled) MayOverrule() bool { return c.outranksUser() && c.Mode == v1alpha1.ModeEnforce }

func (q *query) conditionsHold(c *Compiled) (bool, error) {
	unmet, err := q.unmetCondition(c)
	return unmet == nil, err
}

// unmetCondition returns the first condition of a preset that is false, or that cannot be
// evaluated; nil where all hold.
func (q *query) unmetCondition(c *Compiled) (*expression, error) {
	for i := range c.conditions {
		if ok, err := q.eval.holds(c.conditions[i]); err != nil || !ok {
			return &c.conditions[i], err
		}
	}
	return nil, nil
}

// unknownExclusions warns of names in an exclude annotation that no preset has. The
// exclusions of old were looked at before.
func (s *Snapshot) unknownExclusions(q *query, old []exclusion) []string {
	var out []string
	for _, e := range q.selection.excluded {
		_, ok := s.Lookup(q.namespace.Name, e.ref)
		known := slices.ContainsFunc(old, func(o exclusion) bool { return o.ref == e.ref })
		if ok || known || e.ref == "*" || s.broken[NameIn(q.namespace.Name, e.ref)] || len(out) >= maxSuggestions {
			continue
		}
		out = append(out, fmt.Sprintf("annotation %s: no such preset %q%s", v1alpha1.AnnotationExclude, e.ref, s.meant(q.namespace.Name, e.ref)))
	}
	return out
}

// maxSuggestions is for how many names that mean nothing one is looked for that
// does: with many presets that takes time.
const maxSuggestions = 8

// addNamed keeps the explicit presets that the object names, and refuses names
// that mean nothing.
func (s *Snapshot) addNamed(q *query, m *matching, keep func(*Compiled)) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPresets)
	for _, ref := range q.selection.named {
		c, ok := s.Lookup(q.namespace.Name, ref)
		switch {
		case ok && !q.wants(c) && q.isMoment(c):
			m.warnings = append(m.warnings, fmt.Sprintf("preset %s is named in %s and does not match: %s", ref, v1alpha1.AnnotationPresets, q.whyNot(s, c)))
		case ok && c.Explicit:
			keep(c)
		case ok: // it matches by itself, or does not
		case s.broken[NameIn(q.namespace.Name, ref)]:
			errs = append(errs, field.Invalid(at, ref, "this preset exists but is invalid: see its status"))
		case len(errs) < maxSuggestions:
			errs = append(errs, field.Invalid(at, ref, "no such preset"+s.meant(q.namespace.Name, ref)))
		default:
			errs = append(errs, field.Invalid(at, ref, "no such preset"))
		}
	}
	return errs
}

// meant suggests another name for one that no preset has: in the other scope, or near it.
func (s *Snapshot) meant(namespace, ref string) string {
	refs := s.refs(namespace)
	name, _ := Bare(ref)
	best := Nearest(ref, slices.Values(refs))
	for _, candidate := range refs { // in the other scope, or near it there
		other, _ := Bare(candidate)
		if other == name {
			best = candidate
			break
		}
		if best == "" && Nearest(name, slices.Values([]string{other})) != "" {
			best = candidate
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// matchLabels are the labels that selectors see: the owner's, the VM's and the
// template's, later ones on top.
func matchLabels(sets ...any) labels.Set {
	out := labels.Set{}
	for _, set := range sets {
		fields, _ := set.(map[string]any)
		for k, v := range fields {
			if text, ok := v.(string); ok {
				out[k] = text
			}
		}
	}
	return out
}

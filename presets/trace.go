package presets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A Trace reports how one preset affected one request.
type Trace struct {
	Preset *Compiled
	// Matched says that selectors and conditions chose the VM.
	Matched bool
	// Conditions are the results of the preset's conditions, in order, up to the first that is
	// false or fails; nil if the selectors do not match.
	Conditions []bool
	// Applied are indexes of Actions: leaves with a value from this preset, removals that removed a
	// value or kept a weaker preset from setting one, rules that the VM violates.
	Applied []int
}

// Trace reports how each preset affects the creation of an object, even if the object is rejected.
// Presets in mode Warn and Audit count as enforced; those in mode Off and those of other namespaces
// are left out. Errors are those of Resolve, without those of rules.
func (e *Engine) Trace(ctx context.Context, s *Snapshot, req Request) ([]Trace, error) {
	s = s.For(req)
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	x, err := e.prepare(ctx, s, r, req)
	if err != nil {
		return nil, err
	}
	x.enforced = x.match.presets
	e.apply(x)
	var out []Trace
	for _, c := range s.all {
		if c.Mode == v1alpha1.ModeOff || !c.Cluster() && c.Namespace != req.Namespace.Name {
			continue
		}
		t := Trace{Preset: c, Matched: slices.Contains(x.enforced, c), Conditions: x.query.results(c)}
		if t.Matched {
			t.Applied = r.reached(c)
		}
		out = append(out, t)
	}
	return out, nil
}

// TraceLaunch is Trace for the VMI that the VM of a request would have if it started now.
func (e *Engine) TraceLaunch(ctx context.Context, s *Snapshot, req Request) ([]Trace, error) {
	launch, err := launchRequest(req)
	if err != nil {
		return nil, err
	}
	return e.Trace(ctx, s, launch)
}

func (q *query) results(c *Compiled) []bool {
	if !q.selects(c) || c.Explicit && !q.selection.names(c.Ref) {
		return nil
	}
	q.eval.Budget = clusterCost // other conditions do not count
	out := make([]bool, 0, len(c.conditions))
	for i := range c.conditions {
		ok, err := q.eval.Holds(c.conditions[i])
		out = append(out, ok && err == nil)
		if !out[i] {
			break
		}
	}
	return out
}

// reached lists the indexes of the actions of c that decided a field of the object.
func (r *mergeState) reached(c *Compiled) []int {
	leaves := r.reachedLeaves(c)
	var out []int
	index := 0
	next := func(reached bool) {
		if reached {
			out = append(out, index)
		}
		index++
	}
	visitLeaves(c.overrides, func(leaf *fieldNode) { next(leaves[leaf]) })
	for _, removed := range c.removes {
		n := r.record.At(removed.path)
		next(n != nil && (n.Change == provenance.Removed || n.Withheld) && r.isBy(removed.path, c.source(provenance.Remove)))
	}
	visitLeaves(c.defaults, func(leaf *fieldNode) { next(leaves[leaf]) })
	violations := r.violations([]*Compiled{c})
	for _, f := range slices.Concat(c.forbids, c.requires) {
		next(slices.ContainsFunc(violations, func(v violation) bool { return v.rule.required == f.required && v.rule.path.Equal(f.path) }))
	}
	return out
}

// reachedLeaves returns the leaves of c, as its author wrote them, that set values of the object.
// The key of an element counts if c added the element or set a field of it.
func (r *mergeState) reachedLeaves(c *Compiled) map[*fieldNode]bool {
	out := map[*fieldNode]bool{}
	for _, l := range r.layers {
		if l.preset != c {
			continue
		}
		given := map[string]bool{}
		var keys []*fieldNode
		visitLeaves(l.root, func(leaf *fieldNode) {
			switch {
			case r.isBy(leaf.path, c.source(l.role)):
				out[cmp.Or(leaf.original, leaf)], given[elementOver(leaf.path)] = true, true
			case leaf.isKey:
				keys = append(keys, leaf)
			}
		})
		for _, key := range keys {
			if given[elementOver(key.path)] {
				out[cmp.Or(key.original, key)] = true
			}
		}
	}
	return out
}

func elementOver(p provenance.Path) string {
	for i, seg := range slices.Backward(p) {
		if seg.Kind == provenance.Element {
			return p[:i+1].String()
		}
	}
	return ""
}

func (r *mergeState) isBy(p provenance.Path, by provenance.Source) bool {
	n := r.record.At(p)
	return n.IsDecided() && r.record.Sources[n.Source] == by
}

// An Inspection says how a preset relates to a stored VM.
type Inspection struct {
	Preset *Compiled
	// WouldAct says that the preset, in mode Warn or Audit, would change or reject the VM if it
	// were created now.
	WouldAct bool
	// Violations are those of the stored VM of forbid and require, in any mode but Off.
	Violations []Violation
}

// A Violation is a value that a preset forbids, or a missing one that it requires.
type Violation struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Inspect reports the presets that the stored VM of a request violates, and those in mode Warn or
// Audit that would act on it.
func (e *Engine) Inspect(ctx context.Context, s *Snapshot, req Request) ([]Inspection, error) {
	s = s.For(req)
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	u := &update{engine: e, snapshot: s, req: req, old: r.root, sent: r.root}
	u.readRecord()
	x, err := u.expand(ctx, u.userIntent(r.root), nil)
	if err != nil {
		return nil, err
	}
	var would []Preview
	if len(x.notEnforced) > 0 {
		x.original, _ = tree.Clone(x.root).(map[string]any)
		e.apply(x)
		would = x.preview(e.Platform).would
	}
	var out []Inspection
	for _, c := range x.match.presets {
		i := Inspection{Preset: c}
		for _, v := range r.violations([]*Compiled{c}) {
			i.Violations = append(i.Violations, Violation{v.path.String(), v.rule.text()})
		}
		i.WouldAct = slices.ContainsFunc(would, func(w Preview) bool { return w.Preset == c })
		if i.WouldAct || len(i.Violations) > 0 {
			out = append(out, i)
		}
	}
	return out, nil
}

// An Action is one effect of a preset on the VMs that it matches.
type Action struct {
	// Role is Default, Override, Remove, Forbid or Require.
	Role provenance.Role
	// Path in the VM. The path of a rule may have patterns.
	Path provenance.Path
	// Value that the preset sets, as decoded JSON; nil for Remove, rules and computed values.
	Value any
	// Field of the preset, such as spec.overrides.spec.running.
	Field string
	// Choices are the one-of alternatives that the action decides. Two actions compete for a choice
	// if they have an entry in common.
	Choices []string
	// IsKey says that the value is the key of an element, Computed that it is computed.
	IsKey, Computed bool
	// Expression computes the value, and ends with the variables that it uses; empty for other
	// values. Pattern has its literal texts, with * for the others, for example *-root.
	Expression, Pattern string
	// Message of a rule.
	Message string
	// Partners has the lists in which an element of the same name belongs to this element, if the
	// action sets its name.
	Partners []provenance.Path
}

// Actions lists the effects of the preset in the order of its fields: overrides, removals,
// defaults, forbid rules, require rules.
func (c *Compiled) Actions() []Action {
	out := partsOf(c.overrides, provenance.Override, "spec.overrides.")
	for i, removed := range c.removes {
		out = append(out, Action{Role: provenance.Remove, Path: removed.path, Field: fmt.Sprintf("spec.remove[%d]", i)})
	}
	out = append(out, partsOf(c.defaults, c.defaultRole(), "spec.defaults.")...)
	for i, f := range c.forbids {
		out = append(out, Action{Role: provenance.Forbid, Path: f.path, Field: fmt.Sprintf("spec.forbid[%d].path", i), Message: f.message})
	}
	for i, f := range c.requires {
		out = append(out, Action{Role: provenance.Require, Path: f.path, Field: fmt.Sprintf("spec.require[%d].path", i), Message: f.message})
	}
	return out
}

func partsOf(root *fieldNode, role provenance.Role, prefix string) []Action {
	var out []Action
	visitLeaves(root, func(leaf *fieldNode) {
		p := Action{Role: role, Path: leaf.path, Field: prefix + leaf.text, IsKey: leaf.isKey, Computed: leaf.computed != nil}
		if p.Computed {
			p.Expression, p.Pattern = leaf.computed.Text, leaf.computed.Pattern()
		} else {
			p.Value = leaf.value
		}
		if l := vmschema.PairingOf(leaf.path[:len(leaf.path)-1]); l != nil && p.IsKey {
			for _, list := range l.Partners {
				p.Partners = append(p.Partners, slices.Concat(vmschema.TemplateSpec, list))
			}
		}
		for member, alternative := range vmschema.AlternativesOf(leaf.path) {
			sides := []string{member.String(), alternative.String()}
			slices.Sort(sides)
			p.Choices = append(p.Choices, strings.Join(sides, "|"))
		}
		out = append(out, p)
	})
	return out
}

// Selectors returns the label selectors for VMs and for namespaces; nil selects all.
func (c *Compiled) Selectors() (vms, namespaces labels.Selector) { return c.labels, c.namespaces }

// Variables returns the expressions of the preset's variables by name.
func (c *Compiled) Variables() map[string]string {
	out := map[string]string{}
	for _, v := range c.variables {
		out[v.Name] = v.Text
	}
	return out
}

// Conditions lists the expressions of the preset's conditions, each with the variables that it
// uses.
func (c *Compiled) Conditions() []string {
	var out []string
	for _, x := range c.conditions {
		out = append(out, x.Text)
	}
	return out
}

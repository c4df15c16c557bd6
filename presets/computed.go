package presets

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// ComputedKey marks a computed value in defaults and overrides: {"$cel": EXPRESSION}.
const ComputedKey = "$cel"

// A computed is the value of a computed leaf: a placeholder until it is evaluated.
type computed struct {
	condition.Expression
	shape vmschema.Shape
}

func (x *computed) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{ComputedKey: x.Text})
}

type computation struct {
	state     *mergeState
	query     *query
	view      map[string]any     // the object with all plain values and no computed ones
	conflicts []Conflict         // of computed values with other values of the same standing
	winners   map[*computed]bool // those that no other value outranks
	trial     *provenance.Record // of the competition of all values
	values    map[*computed]any
	failed    map[*computed]error
}

// compute replaces the computed values of the layers with their results. Expressions read the
// object with all plain values, so the order of evaluation does not matter. If a default fails, the
// next default in precedence applies; if an override fails, the object is rejected.
func (r *mergeState) compute(q *query) {
	if !slices.ContainsFunc(r.layers, func(l layer) bool { return l.root != nil && l.preset.computes }) {
		return
	}
	c := &computation{state: r, query: q, values: map[*computed]any{}, failed: map[*computed]error{}}
	c.findWinners()
	c.evaluate(func(l *layer, x *computed) bool { // an override also wins if the VM names no instancetype
		return c.winners[x] || l.role.OutranksUser()
	})
	if len(c.failed) > 0 { // the next defaults in precedence apply
		c.evaluate(func(l *layer, x *computed) bool { return !l.role.OutranksUser() })
	}
	c.noteConflicts()
	for i := range r.layers {
		if l := &r.layers[i]; l.root != nil && l.preset.computes {
			l.root = c.substitute(l, l.root, l.root.path)
		}
	}
}

// noteConflicts records conflicts of computed values of the same standing with different results.
func (c *computation) noteConflicts() {
	for _, conflict := range c.conflicts {
		if conflict.isChoice && !c.anyFailed(conflict.Winner) {
			c.state.addConflict(conflict) // a computed loser is not applied again
		}
		x, ok := conflict.Lost.(*computed)
		i := slices.IndexFunc(c.state.layers, func(l layer) bool { return l.preset.Ref == conflict.Loser })
		if !ok || i < 0 {
			continue
		}
		if won, ok := conflict.Won.(*computed); ok {
			conflict.Won = c.values[won]
		}
		v, err := c.value(c.state.layers[i].preset.Cluster(), x)
		if conflict.Lost = v; err == nil && !tree.Equal(v, conflict.Won) {
			c.state.addConflict(conflict)
		}
	}
}

// anyFailed reports whether a computed value of a preset failed.
func (c *computation) anyFailed(preset string) bool {
	return slices.ContainsFunc(c.state.layers, func(l layer) bool {
		return l.root != nil && l.preset.Ref == preset && c.hasFailed(l.root)
	})
}

func (c *computation) findWinners() {
	trial := c.state.rehearsal()
	trial.trial = true
	trial.spreadEvery()
	trial.applyLayers()
	trial.compactLists()
	c.winners, c.conflicts, c.trial = map[*computed]bool{}, trial.conflicts, trial.record
	root := trial.root
	c.stripComputed(root)
	if c.state.sentVMI != nil {
		root["metadata"] = c.query.eval.Object["metadata"]
	}
	c.view = withRequiredParents(root)
}

// stripComputed removes computed values from v, and reports whether that emptied it.
func (c *computation) stripComputed(v any) bool {
	switch at := v.(type) {
	case *computed:
		c.winners[at] = true
		return true
	case map[string]any:
		before := len(at)
		for name, sub := range at {
			if c.stripComputed(sub) {
				delete(at, name)
			}
		}
		return before > 0 && len(at) == 0
	case []any:
		for _, e := range at {
			c.stripComputed(e)
		}
	}
	return false
}

// evaluate evaluates, once, the wanted computed values and all in elements with a computed
// key. It also evaluates those for every element, because such an element may be one.
func (c *computation) evaluate(wanted func(*layer, *computed) bool) {
	for i := range c.state.layers {
		l := &c.state.layers[i]
		if l.root == nil || !l.preset.computes || c.timedOut() {
			continue
		}
		l.root.visitLeaves(false, func(leaf *fieldNode, unkeyed bool) {
			if x := leaf.computed; x != nil && (unkeyed || slices.Contains(leaf.path, every) || wanted(l, x)) && !l.excludes(leaf) {
				c.evaluateLeaf(l, leaf, unkeyed)
			}
		})
	}
}

func (c *computation) evaluateLeaf(l *layer, leaf *fieldNode, unkeyed bool) {
	x := leaf.computed
	if c.values[x] != nil || c.failed[x] != nil || c.timedOut() {
		return
	}
	v, err := c.value(l.preset.Cluster(), x)
	if c.values[x] = v; err != nil {
		c.failed[x] = err
		c.report(l, leaf, err, unkeyed)
	}
}

// timedOut reports whether the request ran out of time, which rejects it.
func (c *computation) timedOut() bool {
	err := c.query.eval.Context.Err()
	if err != nil {
		c.state.fail(field.InternalError(field.NewPath("spec"), fmt.Errorf("cannot evaluate the computed values of presets in time: %w", err)))
	}
	return err != nil
}

func (c *computation) value(cluster bool, x *computed) (any, error) {
	left := &c.query.namespaceLeft
	if cluster {
		left = &c.query.clusterLeft
	}
	eval := c.query.eval
	eval.Object, eval.Budget = c.view, *left
	v, err := eval.Value(x.Expression)
	*left = eval.Budget
	if err != nil {
		return nil, err
	}
	return x.convert(v)
}

func (x *computed) convert(v any) (any, error) {
	if n, ok := v.(uint64); ok {
		v = int64(n)
	}
	q, err := tree.ParseQuantity(v)
	_, isText := v.(string)
	switch isQuantity := x.shape == vmschema.Quantity; {
	case !fits(x.shape, v), isQuantity && err != nil:
		return nil, fmt.Errorf("must be %s, but is %s", x.shape, tree.Show(v))
	case isQuantity && !isText:
		return q.String(), nil
	}
	return v, nil
}

// report records that a computed value failed. A default is skipped, with a warning if it would
// have won. An override that wins rejects the object, on updates too.
func (c *computation) report(l *layer, leaf *fieldNode, err error, unkeyed bool) {
	wins := unkeyed || c.winners[leaf.computed]
	switch {
	case l.role.OutranksUser() && (wins || !c.outranked(leaf.path)):
		c.state.computeErrs = append(c.state.computeErrs, field.Forbidden(field.NewPath(leaf.text), fmt.Sprintf("preset %s computes this field: %v", l.preset.Ref, err)).
			WithOrigin(originPresets+l.preset.Ref))
	case wins:
		l.note(leaf.text, Skipped{Reason: err.Error(), Failed: true}, true)
	}
}

// outranked reports whether another override or removal decided p or an alternative of it.
func (c *computation) outranked(p provenance.Path) bool {
	decided := func(p provenance.Path) bool {
		n := firstDecided(c.trial.At(p))
		return n != nil && c.trial.Sources[n.Source].Role.OutranksUser()
	}
	for i := range p {
		if n := c.trial.At(p[:i+1]); n.IsDecided() && c.trial.Sources[n.Source].Role == provenance.Remove {
			return true
		}
	}
	for _, alternative := range vmschema.AlternativesOf(p) {
		if decided(alternative) {
			return true
		}
	}
	return decided(p)
}

// hasFailed reports whether a computed value of an element failed and no other layer sets that
// field: without it, the element may be useless.
func (c *computation) hasFailed(f *fieldNode) bool {
	if len(c.failed) == 0 || !f.computes {
		return false
	}
	found := false
	visitLeaves(f, func(leaf *fieldNode) {
		found = found || leaf.computed != nil && c.failed[leaf.computed] != nil && !slices.ContainsFunc(c.state.layers, func(l layer) bool {
			other := l.root.find(leaf.path)
			return other != nil && other.computed != leaf.computed
		})
	})
	return found
}

// substitute returns f, moved to p, with the results of computed leaves; nil if it is empty.
func (c *computation) substitute(l *layer, f *fieldNode, p provenance.Path) *fieldNode {
	if !f.computes && p.Equal(f.path) {
		return f
	}
	out := f.moved(p)
	if f.computed != nil {
		return c.substituteLeaf(out)
	}
	out.children, out.unkeyed = nil, nil
	for _, kid := range f.children {
		if kid.segment.Kind != provenance.Element || !c.hasFailed(kid) {
			out.add(c.substitute(l, kid, out.pathOf(kid)))
		}
	}
	for _, kid := range f.unkeyed {
		out.add(c.substituteElement(l, kid, out))
	}
	if !f.leaf && len(out.children) == 0 {
		return nil
	}
	return out
}

// pathOf returns the path of a child of f, or of a node that f is a copy of.
func (f *fieldNode) pathOf(child *fieldNode) provenance.Path {
	if f.path.Equal(child.path[:len(child.path)-1]) {
		return child.path
	}
	return f.path.With(child.segment)
}

func (c *computation) substituteLeaf(f *fieldNode) *fieldNode {
	f.value = c.values[f.computed]
	if f.value == nil || c.failed[f.computed] != nil {
		return nil
	}
	if q, err := tree.ParseQuantity(f.value); f.computed.shape == vmschema.Quantity && err == nil {
		f.quantity = &q
	}
	return f
}

func (f *fieldNode) add(kid *fieldNode) {
	if kid != nil {
		f.children, f.computes = append(f.children, kid), f.computes || kid.computes
	}
}

// substituteElement returns an element with its computed key, unless list has that key.
func (c *computation) substituteElement(l *layer, f, list *fieldNode) *fieldNode {
	if c.hasFailed(f) {
		return nil
	}
	fields := map[string]any{}
	visitLeaves(f, func(leaf *fieldNode) {
		if leaf.isKey && leaf.computed != nil {
			leaf = c.substituteLeaf(leaf.moved(leaf.path))
		}
		if leaf != nil && leaf.isKey {
			setField(fields, leaf.path[len(f.path):], leaf.value)
		}
	})
	key, missing := vmschema.ElementKey(list.schema.Keys, fields)
	var problem error
	if missing != "" {
		problem = fmt.Errorf("the %s of an element is empty", missing)
	} else if slices.ContainsFunc(list.children, func(kid *fieldNode) bool { return kid.segment.Name == key }) {
		problem = fmt.Errorf("two elements have the key %q", key)
	}
	if problem != nil {
		c.report(l, &fieldNode{text: list.text, path: list.path}, problem, true)
		return nil
	}
	return c.substitute(l, f, list.path.Element(key))
}

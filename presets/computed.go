package presets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// celKey marks a computed value in defaults and overrides: {"$cel": EXPRESSION}.
	celKey = "$cel"
	// MaxComputed is how many computed values defaults and overrides may each have.
	MaxComputed = 64
)

// computed is the value of a computed leaf. In a VM it stands for a value that is yet
// to be evaluated.
type computed struct {
	expression
	shape shape
}

// MarshalJSON writes the value as its author did.
func (x *computed) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{celKey: x.text})
}

// expression returns the expression of a computed value.
func (c *fieldCompiler) expression(value any, p provenance.Path) (string, bool) {
	fields, _ := value.(map[string]any)
	if _, ok := fields[celKey]; !ok {
		return "", false
	}
	text, ok := fields[celKey].(string)
	switch {
	case !ok:
		c.wrongType(p.With(provenance.Segment{Name: celKey}), fields[celKey], "a CEL expression")
	case len(fields) > 1:
		c.fail(p, celKey, "%s must be the only key of a computed value", celKey)
	}
	return text, true
}

var celTypes = map[shape][]*cel.Type{
	shapeString: {cel.StringType}, shapeBool: {cel.BoolType}, shapeInteger: {cel.IntType}, shapeNumber: {cel.DoubleType, cel.IntType},
	shapeQuantity: {cel.StringType, cel.IntType, cel.DoubleType}, shapeIntOrString: {cel.IntType, cel.StringType},
}

// compute compiles a computed value.
func (c *fieldCompiler) compute(out *fieldNode, text string, p provenance.Path) *fieldNode {
	types := celTypes[out.schema.shape]
	switch c.expressions++; {
	case types == nil || c.atomic:
		c.fail(p, celKey, "%s computes single values, which are not in a list without keys; here, write the value itself", celKey)
		return nil
	case c.expressions > MaxComputed:
		c.errs = append(c.errs, field.TooMany(c.root.Child(p.String()), c.expressions, MaxComputed))
		return nil
	}
	x, err := compileExpression(text, "must be "+wanted[out.schema.shape], types...)
	if err != nil {
		c.fail(p, text, "%s", err)
		return nil
	}
	x.name = "the value of " + p.String()
	out.computed = &computed{x, out.schema.shape}
	out.leaf, out.value = true, out.computed
	return out
}

func hasComputedKey(keys []listKey, element map[string]any) bool {
	return slices.ContainsFunc(keys, func(k listKey) bool {
		v, _ := lookupDotted(element, k.field)
		fields, _ := v.(map[string]any)
		return fields[celKey] != nil
	})
}

// hasComputed reports whether a value at or beneath p is computed.
func (p *fieldNode) hasComputed() bool {
	found := false
	visitLeaves(p, func(leaf *fieldNode) { found = found || leaf.computed != nil })
	return found
}

// A computation evaluates the computed values of the layers of one object.
type computation struct {
	w *resolution
	q *query
	// view is the object as all plain values leave it, and lost the conflicts of the
	// computed values that other ones of the same standing outrank.
	view map[string]any
	lost []Conflict
	// won are the computed leaves that no other value outranks.
	won map[*computed]bool
	// values of expressions, and those that failed.
	values map[*computed]any
	failed map[*computed]error
	// left of the CEL budgets, of cluster presets and of the namespace's.
	left map[bool]int64
}

// compute replaces the computed values in layers by what they evaluate to. They see the
// object as all plain values leave it, so the order of evaluation never matters. A
// default that fails gives way to the next in precedence; an override refuses.
func (w *resolution) compute(q *query) {
	if !slices.ContainsFunc(w.layers, func(l layer) bool { return l.root != nil && l.preset.computes }) {
		return
	}
	c := &computation{w: w, q: q, values: map[*computed]any{}, failed: map[*computed]error{}, left: map[bool]int64{true: clusterCost, false: namespaceCost}}
	for again := true; again; {
		c.look()
		again = false
		for i := range w.layers {
			again = c.evaluate(&w.layers[i]) || again
		}
	}
	c.noteConflicts()
	for i := range w.layers {
		if l := &w.layers[i]; l.root != nil && l.preset.computes {
			l.root = c.plain(l, l.root, nil)
		}
	}
}

// noteConflicts notes which computed values lost to others of the same standing. Those
// that lost to nothing but a plain value of the same content are no conflicts.
func (c *computation) noteConflicts() {
	for _, conflict := range c.lost {
		x, ok := conflict.Lost.(*computed)
		i := slices.IndexFunc(c.w.layers, func(l layer) bool { return l.preset.Ref == conflict.Loser })
		if !ok || i < 0 {
			continue
		}
		if won, ok := conflict.Won.(*computed); ok {
			conflict.Won = c.values[won]
		}
		v, err := c.value(c.w.layers[i].preset.Cluster(), x)
		if conflict.Lost = v; err == nil && !equalJSON(v, conflict.Won) {
			c.w.conflicts = append(c.w.conflicts, conflict)
		}
	}
}

// look finds out which computed values win, and what the object is without any.
func (c *computation) look() {
	root, _ := cloneJSON(c.w.root).(map[string]any)
	trial := &resolution{root: root, instance: c.w.instance, rec: provenance.New(), stored: c.w.stored, keepsRunState: c.w.keepsRunState, find: c.w.find, failed: c.failed, trial: true}
	if _, err := trial.adoptOwner(c.w.owner); err != nil {
		return // unreachable: the owner was read before
	}
	for _, l := range c.w.layers {
		trial.addLayer(l)
	}
	trial.act()
	trial.closeUp()
	c.won, c.lost = map[*computed]bool{}, trial.conflicts
	c.strip(root)
	if c.w.instance != nil {
		root["metadata"] = c.q.eval.object["metadata"]
	}
	c.view = withSpine(root)
}

// strip takes computed values out of v, and reports whether that left it empty.
func (c *computation) strip(v any) bool {
	switch at := v.(type) {
	case *computed:
		c.won[at] = true
		return true
	case map[string]any:
		before := len(at)
		for name, sub := range at {
			if c.strip(sub) {
				delete(at, name)
			}
		}
		return before > 0 && len(at) == 0
	case []any:
		for _, e := range at {
			c.strip(e)
		}
	}
	return false
}

// evaluate evaluates the computed values of a layer that win, and all those of elements
// whose keys are computed. It reports whether one failed that had not before.
func (c *computation) evaluate(l *layer) bool {
	news := false
	c.visit(l.root, false, func(leaf *fieldNode, unkeyed bool) {
		x := leaf.computed
		if x == nil || !unkeyed && !c.won[x] || c.failed[x] != nil || l.keeps(leaf) {
			return
		}
		v, err := c.value(l.preset.Cluster(), x)
		if c.values[x] = v; err != nil {
			c.failed[x], news = err, true
			c.report(l, leaf, err)
		}
	})
	return news
}

// keeps reports whether something keeps the layer from p.
func (l *layer) keeps(p *fieldNode) bool {
	owner, _ := l.reservedBy(p)
	return owner != 0 || l.excludes(p)
}

// visit calls f for every leaf, and says whether it is in an element whose key is computed.
func (c *computation) visit(p *fieldNode, unkeyed bool, f func(leaf *fieldNode, unkeyed bool)) {
	if p == nil {
		return
	}
	if p.leaf {
		f(p, unkeyed)
	}
	for _, kid := range p.kids {
		c.visit(kid, unkeyed, f)
	}
	for _, kid := range p.unkeyed {
		c.visit(kid, true, f)
	}
}

// value evaluates x, for a cluster preset or one of the namespace.
func (c *computation) value(cluster bool, x *computed) (any, error) {
	eval := c.q.eval
	eval.object, eval.left = c.view, c.left[cluster]
	v, err := eval.value(x.expression)
	c.left[cluster] = eval.left
	if err != nil {
		return nil, err
	}
	return x.convert(v)
}

// convert turns the value of an expression into the JSON of the field.
func (x *computed) convert(v any) (any, error) {
	if n, ok := v.(uint64); ok {
		v = int64(n)
	}
	if !fits(x.shape, v) {
		return nil, fmt.Errorf("must be %s, but is %s", wanted[x.shape], show(v))
	}
	if x.shape != shapeQuantity {
		return v, nil
	}
	q, err := parseQuantity(v)
	if err != nil {
		return nil, fmt.Errorf("must be %s, but is %s", wanted[x.shape], show(v))
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	return q.String(), nil
}

// report notes that a computed value failed: an override, or a request that ran out of
// time, refuses.
func (c *computation) report(l *layer, leaf *fieldNode, err error) {
	if !l.role.Outranks() && !errors.Is(err, context.DeadlineExceeded) && c.q.eval.ctx.Err() == nil {
		l.note(&l.w.skips, leaf.path, err.Error())
		return
	}
	l.w.fail(field.Forbidden(field.NewPath(leaf.path), fmt.Sprintf("preset %s computes this field: %v", l.preset.Ref, err)))
}

// plain returns p with the values of computed leaves; nil where nothing is left. At is
// the path of what holds p; nil for the root.
func (c *computation) plain(l *layer, p *fieldNode, at provenance.Path) *fieldNode {
	out := *p
	if len(p.at) > 0 {
		out.at = at.With(p.seg)
		out.path, out.owner = out.at.String(), ownerOf(out.at)
	}
	if out.link != nil {
		out.link = linkOf(out.at)
	}
	if x := p.computed; x != nil {
		if value, ok := c.values[x]; ok && c.failed[x] == nil {
			return p.as(out.at, value)
		}
		return nil
	}
	out.kids, out.unkeyed = nil, nil
	for _, kid := range p.kids {
		out.add(c.plain(l, kid, out.at))
	}
	for _, kid := range p.unkeyed {
		out.add(c.keyed(l, kid, &out))
	}
	if !p.leaf && len(out.kids) == 0 {
		return nil
	}
	return &out
}

func (p *fieldNode) add(kid *fieldNode) {
	if kid != nil {
		p.kids = append(p.kids, kid)
	}
}

// as returns a computed leaf at a path with its value.
func (p *fieldNode) as(at provenance.Path, value any) *fieldNode {
	out := *p
	out.at, out.path, out.owner, out.value = at, at.String(), ownerOf(at), value
	if q, err := parseQuantity(value); p.computed.shape == shapeQuantity && err == nil {
		out.quantity = &q
	}
	return &out
}

// keyed returns an element whose key was computed, unless list has one of that key.
func (c *computation) keyed(l *layer, p, list *fieldNode) *fieldNode {
	element := c.plain(l, p, list.at)
	if element == nil {
		return nil
	}
	key, missing := elementKey(list.schema.keys, element.keyFields())
	if missing != "" {
		return nil // its expression failed
	}
	if slices.ContainsFunc(list.kids, func(kid *fieldNode) bool { return kid.seg.Name == key }) {
		c.report(l, element, fmt.Errorf("two elements of the list have the key %q", key))
		return nil
	}
	moved := *p
	moved.seg.Name = key
	return c.plain(l, &moved, list.at)
}

// keyFields are the fields of an element that identify it.
func (p *fieldNode) keyFields() map[string]any {
	out := map[string]any{}
	visitLeaves(p, func(leaf *fieldNode) {
		if leaf.isKey {
			at := out
			for _, seg := range leaf.at[len(p.at) : len(leaf.at)-1] {
				sub, _ := at[seg.Name].(map[string]any)
				if sub == nil {
					sub = map[string]any{}
					at[seg.Name] = sub
				}
				at = sub
			}
			at[leaf.seg.Name] = leaf.value
		}
	})
	return out
}

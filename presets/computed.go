package presets

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// ComputedKey marks a computed value in defaults and overrides: {"$cel": EXPRESSION}.
	ComputedKey = "$cel"
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
	return json.Marshal(map[string]string{ComputedKey: x.text})
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
	// won are the computed leaves that no other value outranks, and trial the record of
	// how all values compete.
	won   map[*computed]bool
	trial *provenance.Record
	// values of expressions, and those that failed.
	values map[*computed]any
	failed map[*computed]error
}

// compute replaces the computed values in layers by what they evaluate to. They see the
// object as all plain values leave it, so the order of evaluation never matters. A
// default that fails gives way to the next in precedence; an override refuses.
func (w *resolution) compute(q *query) {
	if !slices.ContainsFunc(w.layers, func(l layer) bool { return l.root != nil && l.preset.computes }) {
		return
	}
	c := &computation{w: w, q: q, values: map[*computed]any{}, failed: map[*computed]error{}}
	c.look()
	c.evaluate(c.decides)
	if len(c.failed) > 0 { // others may follow
		c.evaluate(func(l *layer, x *computed) bool { return !l.role.Outranks() })
	}
	c.noteConflicts()
	for i := range w.layers {
		if l := &w.layers[i]; l.root != nil && l.preset.computes {
			l.root = c.plain(l, l.root, nil)
		}
	}
}

// decides reports whether a computed value wins, or would if the VM named no instancetype.
func (c *computation) decides(l *layer, x *computed) bool { return c.won[x] || l.role.Outranks() }

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
	trial := &resolution{root: root, instance: c.w.instance, rec: provenance.New(), stored: c.w.stored, keepsRunState: c.w.keepsRunState, find: c.w.find, trial: true}
	if _, err := trial.adoptOwner(c.w.owner); err != nil {
		return // unreachable: the owner was read before
	}
	for _, l := range c.w.layers {
		trial.addLayer(l)
	}
	trial.act()
	trial.closeUp()
	c.won, c.lost, c.trial = map[*computed]bool{}, trial.conflicts, trial.rec
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

// evaluate evaluates those computed values that wanted selects, and all of elements whose
// keys are computed, unless it has done so before.
func (c *computation) evaluate(wanted func(*layer, *computed) bool) {
	for i := range c.w.layers {
		l := &c.w.layers[i]
		if l.root == nil || !l.preset.computes {
			continue
		}
		c.visit(l.root, false, func(leaf *fieldNode, unkeyed bool) {
			if x := leaf.computed; x != nil && (unkeyed || wanted(l, x)) && !l.excludes(leaf) {
				c.evaluateLeaf(l, leaf, unkeyed)
			}
		})
	}
}

func (c *computation) evaluateLeaf(l *layer, leaf *fieldNode, unkeyed bool) {
	x := leaf.computed
	if c.values[x] != nil || c.failed[x] != nil {
		return
	}
	v, err := c.value(l.preset.Cluster(), x)
	if c.values[x] = v; err != nil {
		c.failed[x] = err
		c.report(l, leaf, err, unkeyed)
	}
}

// visit calls f for every leaf, and says whether it is in an element whose key is computed.
func (c *computation) visit(p *fieldNode, unkeyed bool, f func(leaf *fieldNode, unkeyed bool)) {
	if p == nil || c.timedOut() {
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

// timedOut reports whether the request ran out of time, which refuses it.
func (c *computation) timedOut() bool {
	err := c.q.eval.ctx.Err()
	if err != nil {
		c.w.fail(field.InternalError(field.NewPath("spec"), fmt.Errorf("cannot evaluate the computed values of presets in time: %w", err)))
	}
	return err != nil
}

// value evaluates x, for a cluster preset or one of the namespace.
func (c *computation) value(cluster bool, x *computed) (any, error) {
	left := &c.q.namespaceLeft
	if cluster {
		left = &c.q.clusterLeft
	}
	eval := c.q.eval
	eval.object, eval.left = c.view, *left
	v, err := eval.value(x.expression)
	*left = eval.left
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

// report notes that a computed value failed. A default is left out, with a warning if it
// would have won; an override that wins refuses, on updates too.
func (c *computation) report(l *layer, leaf *fieldNode, err error, unkeyed bool) {
	wins := unkeyed || c.won[leaf.computed]
	switch {
	case l.role.Outranks() && (wins || !c.outranked(leaf.at)):
		c.w.uncomputed = append(c.w.uncomputed, field.Forbidden(field.NewPath(leaf.path), fmt.Sprintf("preset %s computes this field: %v", l.preset.Ref, err)))
	case wins:
		l.note(&l.w.skips, leaf.path, err.Error())
	}
}

// outranked reports whether another override or removal decided the field at p, or another
// member of a one-of that it is in.
func (c *computation) outranked(p provenance.Path) bool {
	decided := func(p provenance.Path) bool {
		n := firstDecided(c.trial.At(p))
		return n != nil && c.trial.Sources[n.Source].Role.Outranks()
	}
	for i := range p {
		if n := c.trial.At(p[:i+1]); isDecided(n) && c.trial.Sources[n.Source].Role == provenance.Remove {
			return true
		}
	}
	return decided(p) || eachRival(p, func(_, rival provenance.Path) bool { return decided(rival) })
}

// hasFailed reports whether an element has a computed value that failed, and that no
// other layer sets: without it, the element may be worth nothing.
func (c *computation) hasFailed(p *fieldNode) bool {
	found := false
	visitLeaves(p, func(leaf *fieldNode) {
		found = found || leaf.computed != nil && c.failed[leaf.computed] != nil && !slices.ContainsFunc(c.w.layers, func(l layer) bool {
			other := l.root.find(leaf.at)
			return other != nil && other.computed != leaf.computed
		})
	})
	return found
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
	if p.computed != nil {
		return c.settled(p, out.at)
	}
	out.kids, out.unkeyed = nil, nil
	for _, kid := range p.kids {
		if kid.seg.Kind == provenance.Field || !c.hasFailed(kid) {
			out.add(c.plain(l, kid, out.at))
		}
	}
	for _, kid := range p.unkeyed {
		out.add(c.keyed(l, kid, &out))
	}
	if !p.leaf && len(out.kids) == 0 {
		return nil
	}
	return &out
}

// settled returns a computed leaf at a path with its value; nil where it has none.
func (c *computation) settled(p *fieldNode, at provenance.Path) *fieldNode {
	if value := c.values[p.computed]; value != nil && c.failed[p.computed] == nil {
		return p.as(at, value)
	}
	return nil
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
	if element == nil || c.hasFailed(p) {
		return nil
	}
	key, missing := elementKey(list.schema.keys, element.keyFields())
	switch {
	case missing != "":
		c.report(l, &fieldNode{path: list.path, at: list.at}, fmt.Errorf("the %s of an element is empty", missing), true)
		return nil
	case slices.ContainsFunc(list.kids, func(kid *fieldNode) bool { return kid.seg.Name == key }):
		c.report(l, &fieldNode{path: list.path, at: list.at}, fmt.Errorf("two elements have the key %q", key), true)
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

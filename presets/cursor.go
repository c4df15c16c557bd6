package presets

import (
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A cursor is one object, at a path of the VM that is expanded: its fields, if it exists, and its
// node in the record. Every change goes through a cursor, which keeps object, record and patch
// consistent. The first field that is set in a missing object creates it.
type cursor struct {
	state  *mergeState
	layer  *layer  // nil if no source is recorded
	parent *cursor // nil at the root
	name   string  // of the field that holds this object, or its list
	key    string  // of an element of list name; "" if name is an object
	object map[string]any
	node   *provenance.Node
	added  bool // the patch adds this object, or one around it, as a whole
	empty  bool // the object was empty before the layer acted
	closed bool // it accepts no fields: a preset removed it, or the user wrote another type
}

func (r *mergeState) cursor(l *layer) *cursor {
	return &cursor{state: r, layer: l, object: r.root, node: r.record.Root(), empty: len(r.root) == 0}
}

func (c *cursor) get(name string) any { return c.object[name] }

func (c *cursor) find(path ...provenance.Segment) *provenance.Node {
	n := c.node
	for _, seg := range path {
		n = n.Find(seg)
	}
	return n
}

func (c *cursor) record() *provenance.Node {
	if c.node != nil {
		return c.node
	}
	at, seg := c.parent.record(), provenance.Segment{Name: c.name}
	if c.key != "" {
		at, seg = c.state.record.Child(at, seg), provenance.Segment{Name: c.key, Kind: provenance.Element}
	}
	c.node = c.state.record.Child(at, seg)
	return c.node
}

func (c *cursor) child(name string) *cursor {
	out := &cursor{state: c.state, layer: c.layer, parent: c, name: name, node: c.find(provenance.Segment{Name: name}), added: c.added, closed: c.closed}
	if out.object = tree.AsObject(c.object[name]); out.object == nil && c.object[name] != nil {
		out.closed = true
		c.state.wrongType(out.path(), c.object[name], "an object")
	}
	out.readRecord()
	return out
}

// element returns element i of list name. With a negative i, the first field set appends it.
func (c *cursor) element(name, key string, i int) *cursor {
	out := &cursor{state: c.state, layer: c.layer, parent: c, name: name, key: key, added: c.added, closed: c.closed}
	if i < 0 {
		out.node = c.find(provenance.Segment{Name: name}, provenance.Segment{Name: key, Kind: provenance.Element})
		return out
	}
	list := c.state.record.Child(c.record(), provenance.Segment{Name: name})
	out.node = c.state.record.Child(list, provenance.Segment{Name: key, Kind: provenance.Element})
	out.object, _ = tree.AsList(c.object[name])[i].(map[string]any)
	out.added = out.added || list.Change == provenance.Added
	if !out.added && out.node.Change != provenance.Added {
		out.node.Index = int32(i)
	}
	out.readRecord()
	return out
}

func (c *cursor) readRecord() {
	c.empty = c.object != nil && len(c.object) == 0
	if c.node == nil {
		return
	}
	c.added = c.added || c.node.Change == provenance.Added
	c.closed = c.closed || c.layer != nil && c.layer.removedByStronger(c.node)
}

func (c *cursor) path() provenance.Path {
	if c.parent == nil {
		return nil
	}
	at := c.parent.path().Field(c.name)
	if c.key != "" {
		at = at.Element(c.key)
	}
	return at
}

// ensure creates the object if it is missing. It returns false if the object is closed.
func (c *cursor) ensure() bool {
	switch {
	case c.closed:
		return false
	case c.object != nil:
		c.record()
	case !c.parent.ensure():
		return false
	case c.key == "":
		c.ensureField()
	default:
		c.appendElement()
	}
	if c.empty && !c.added && !c.node.IsDecided() {
		c.node.EmptyByUser = true
	}
	return true
}

func (c *cursor) ensureField() {
	c.record()
	c.added = c.added || c.parent.added
	if c.object = tree.AsObject(c.parent.object[c.name]); c.object != nil {
		return
	}
	c.object = map[string]any{}
	c.parent.write(c.node, c.object)
	c.added = true
}

func (c *cursor) appendElement() {
	n := c.state.record.Child(c.parent.node, provenance.Segment{Name: c.name})
	c.record()
	c.object = map[string]any{}
	was := tree.AsList(c.parent.object[c.name])
	list := slices.Concat(was, []any{c.object})
	c.node.Index, c.node.NewElement = int32(len(was)), true
	switch {
	case c.parent.added || c.parent.object[c.name] == nil || n.Change == provenance.Added:
		c.parent.write(n, list)
	default:
		c.parent.object[c.name] = list
		c.node.Change, c.node.Value = provenance.Added, c.object
		n.EmptyByUser = n.EmptyByUser || len(was) == 0
	}
	c.added = true
}

func (c *cursor) write(n *provenance.Node, value any) {
	if !c.added {
		if n.Change != provenance.Added {
			n.Change = provenance.Added
			if c.object[n.Name] != nil {
				n.Change = provenance.Replaced
			}
		}
		n.Value = value
	}
	c.object[n.Name] = value
}

func (c *cursor) set(name string, value any) {
	if c.state.dryRun {
		c.state.wouldSet = c.state.wouldSet || !c.closed
		return
	}
	if !c.ensure() {
		return
	}
	n := c.state.record.Child(c.node, provenance.Segment{Name: name})
	c.write(n, value)
	if c.layer != nil {
		c.layer.decides(n)
	}
}

func (c *cursor) remove(n *provenance.Node) {
	if !c.added {
		n.Change = provenance.Removed
	}
	delete(c.object, n.Name)
}

// setAt sets the field at p and creates the missing objects and elements around it. A new element
// gets its key fields from like. If a value on the way is not an object or list, it sets nothing.
func (r *mergeState) setAt(p provenance.Path, value any, like map[string]any) {
	obj, s := r.root, vmschema.VM()
	for i := 0; i < len(p)-1; i++ {
		step := s.Step(p[i])
		if step == nil {
			return
		}
		if step.Shape == vmschema.Keyed {
			element := elementIn(obj, p[:i+2], step, like)
			i++
			if element == nil || i == len(p)-1 {
				return // a path that ends at the element is set: the element has its keys
			}
			obj, s = element, step.Elem
			continue
		}
		if sub := obj[p[i].Name]; sub != nil && !tree.IsObject(sub) {
			return
		}
		obj, s = child(obj, p[i].Name), step
	}
	obj[p[len(p)-1].Name] = value
}

// elementIn returns the element at p, and creates it if it is missing; its list is a field of obj.
// It returns nil if that field is not a list.
func elementIn(obj map[string]any, p provenance.Path, list *vmschema.Schema, like map[string]any) map[string]any {
	name := p[len(p)-2].Name
	elements, ok := obj[name].([]any)
	if !ok && obj[name] != nil {
		return nil
	}
	if element := list.ElementOf(elements, p[len(p)-1].Name); element != nil {
		return tree.AsObject(element)
	}
	element := map[string]any{}
	copyKeys(element, vmschema.Value(like, p), list.Keys)
	obj[name] = append(slices.Clip(elements), element)
	return element
}

func copyKeys(to, from any, keys []vmschema.ListKey) {
	for _, k := range keys {
		tree.Copy(to, from, k.Field)
	}
}

// unshare copies the objects and lists along p, so that a change there does not affect objects that
// share them with r.
func (r *mergeState) unshare(p provenance.Path) {
	r.root = tree.AsObject(unshared(r.root, vmschema.VM(), p))
}

func unshared(v any, s *vmschema.Schema, p provenance.Path) any {
	descend := s != nil && len(p) > 1
	switch at := v.(type) {
	case map[string]any:
		at = maps.Clone(at)
		if sub := at[p[0].Name]; descend && sub != nil {
			at[p[0].Name] = unshared(sub, s.Step(p[0]), p[1:])
		}
		return at
	case []any:
		at = slices.Clone(at)
		if descend {
			if i := vmschema.IndexOf(at, s.Keys, p[0].Name); i >= 0 {
				at[i] = unshared(at[i], s.Step(p[0]), p[1:])
			}
		}
		return at
	}
	return v
}

func (r *mergeState) unset(p provenance.Path) {
	last := p[len(p)-1]
	switch at := vmschema.Value(r.root, p[:len(p)-1]).(type) {
	case map[string]any:
		delete(at, last.Name)
	case []any:
		if i := vmschema.IndexOf(at, vmschema.VM().At(p[:len(p)-1]).Keys, last.Name); i >= 0 {
			tree.AsObject(vmschema.Value(r.root, p[:len(p)-2]))[p[len(p)-2].Name] = slices.Delete(at, i, i+1)
		}
	}
}

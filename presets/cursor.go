package presets

import (
	"github.com/virtwright/virtwright/presets/provenance"
)

// A cursor is a place in the object that is expanded: the object there, if it
// exists, and its node in the record. Every change to the object goes through a
// cursor, which keeps object, record and patch in step. Objects that are missing
// are created by the first field that is set in them.
type cursor struct {
	w *resolution
	// l is the layer that acts; nil where no source is recorded.
	l *layer
	// parent is the object that holds this one; nil at the root.
	parent *cursor
	// name is the field that holds this object, or the list that it is in.
	name string
	// key identifies an element of list name; "" where name is an object.
	key  string
	obj  map[string]any
	node *provenance.Node
	// added says that the patch adds this object, or one that holds it, as a whole.
	added bool
	// empty says that the object was empty before the layer acted.
	empty bool
	// closed objects take no fields: a preset removed the object, or the user wrote
	// another type.
	closed bool
}

// slabCursors is how many cursors are allocated at a time.
const slabCursors = 24

// cursor returns the root of the object, for layer l.
func (w *resolution) cursor(l *layer) *cursor {
	return w.hold(cursor{w: w, l: l, obj: w.root, node: w.rec.Root(), empty: len(w.root) == 0})
}

func (w *resolution) hold(c cursor) *cursor {
	if len(w.cursors) == cap(w.cursors) {
		w.cursors = make([]cursor, 0, slabCursors)
	}
	w.cursors = append(w.cursors, c)
	return &w.cursors[len(w.cursors)-1]
}

// get returns the value of a field; nil where it is absent.
func (c *cursor) get(name string) any { return c.obj[name] }

// find returns the node of a field, or of what lies deeper; nil where it has none.
func (c *cursor) find(path ...provenance.Segment) *provenance.Node {
	n := c.node
	for _, seg := range path {
		n = childOf(n, seg)
	}
	return n
}

// record returns the node of the object, which it adds to the record if it is new.
func (c *cursor) record() *provenance.Node {
	if c.node != nil {
		return c.node
	}
	at, seg := c.parent.record(), provenance.Segment{Name: c.name}
	if c.key != "" {
		at, seg = c.w.rec.Child(at, seg), provenance.Segment{Name: c.key, Kind: provenance.Element}
	}
	c.node = c.w.rec.Child(at, seg)
	return c.node
}

// child returns the object in field name.
func (c *cursor) child(name string) *cursor {
	out := c.w.hold(cursor{w: c.w, l: c.l, parent: c, name: name, node: c.find(provenance.Segment{Name: name}), added: c.added, closed: c.closed})
	switch at := c.obj[name].(type) {
	case nil:
	case map[string]any:
		out.obj = at
	default:
		out.closed = true
		c.w.wrongType(out.path(), at, "an object")
	}
	out.inspect()
	return out
}

// element returns the element key of list name, which is at index i, or is
// appended where i is negative.
func (c *cursor) element(name, key string, i int) *cursor {
	out := c.w.hold(cursor{w: c.w, l: c.l, parent: c, name: name, key: key, added: c.added, closed: c.closed})
	if i < 0 {
		out.node = c.find(provenance.Segment{Name: name}, provenance.Segment{Name: key, Kind: provenance.Element})
		return out
	}
	list := c.w.rec.Child(c.record(), provenance.Segment{Name: name})
	out.node = c.w.rec.Child(list, provenance.Segment{Name: key, Kind: provenance.Element})
	elements, _ := c.obj[name].([]any)
	out.obj, _ = elements[i].(map[string]any)
	out.added = out.added || list.Change == provenance.Added
	if !out.added && out.node.Change != provenance.Added {
		out.node.Index = int32(i)
	}
	out.inspect()
	return out
}

// inspect reads from the record how the object may be changed.
func (c *cursor) inspect() {
	c.empty = c.obj != nil && len(c.obj) == 0
	if c.node == nil {
		return
	}
	c.added = c.added || c.node.Change == provenance.Added
	c.closed = c.closed || c.l != nil && c.l.blocked(c.node)
}

// path returns where the object lies.
func (c *cursor) path() provenance.Path {
	if c.parent == nil {
		return nil
	}
	at := c.parent.path().With(provenance.Segment{Name: c.name})
	if c.key != "" {
		at = at.With(provenance.Segment{Name: c.key, Kind: provenance.Element})
	}
	return at
}

// make creates the object if it is missing. False means that it is closed.
func (c *cursor) make() bool {
	switch {
	case c.closed:
		return false
	case c.obj != nil:
		c.record()
	case !c.parent.make():
		return false
	case c.key == "":
		c.makeField()
	default:
		c.append()
	}
	if c.empty && !c.added && c.node.Source == provenance.NoSource {
		c.node.WasEmpty = true
	}
	return true
}

func (c *cursor) makeField() {
	c.record()
	c.added = c.added || c.parent.added
	if made, ok := c.parent.obj[c.name].(map[string]any); ok {
		c.obj = made
		return
	}
	c.obj = map[string]any{}
	c.parent.write(c.node, c.obj)
	c.added = true
}

// append adds the element to its list.
func (c *cursor) append() {
	n := c.w.rec.Child(c.parent.node, provenance.Segment{Name: c.name})
	c.record()
	c.obj = map[string]any{}
	list, _ := c.parent.obj[c.name].([]any)
	c.node.Index, c.node.New = int32(len(list)), true
	was := len(list)
	list = append(list, c.obj)
	switch {
	case c.parent.added || c.parent.obj[c.name] == nil || n.Change == provenance.Added:
		c.parent.write(n, list)
	default:
		c.parent.obj[c.name] = list
		c.node.Change, c.node.Value = provenance.Added, c.obj
		n.WasEmpty = n.WasEmpty || was == 0
	}
	c.added = true
}

// write stores the value of the field that n records.
func (c *cursor) write(n *provenance.Node, value any) {
	if !c.added {
		if n.Change != provenance.Added {
			n.Change = provenance.Added
			if c.obj[n.Name] != nil {
				n.Change = provenance.Replaced
			}
		}
		n.Value = value
	}
	c.obj[n.Name] = value
}

// set sets a field and records that the layer decided it.
func (c *cursor) set(name string, value any) {
	if c.w.probing {
		c.w.probed = c.w.probed || !c.closed
		return
	}
	if !c.make() {
		return
	}
	n := c.w.rec.Child(c.node, provenance.Segment{Name: name})
	c.write(n, value)
	if c.l != nil {
		c.l.decides(n)
	}
}

// remove removes a field, which n records.
func (c *cursor) remove(n *provenance.Node) {
	if !c.added {
		n.Change = provenance.Removed
	}
	delete(c.obj, n.Name)
}

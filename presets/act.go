package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// act lets the layer set the fields of c that kids name: defaults where a field
// is absent, overrides also against the user. Stronger layers have acted before.
func (l *layer) act(kids []*fieldNode, c *cursor) {
	for _, p := range kids {
		if !l.mayAct(p, c) {
			continue
		}
		switch {
		case p.leaf && l.role == provenance.Override:
			l.overrideLeaf(p, c)
		case p.leaf:
			l.defaultLeaf(p, c)
		case p.schema.shape == shapeKeyed:
			l.actOnList(p, c)
		default:
			l.act(p.kids, c.child(p.seg.Name))
		}
	}
}

// mayAct reports whether the layer has a say on p, and clears the way for it.
func (l *layer) mayAct(p *fieldNode, c *cursor) bool {
	switch {
	case l.excludes(p) || l.isReserved(p):
		return false
	case l.blocked(c.find(p.seg)):
		l.recordConflicts(p, c.find(p.seg))
		return false
	case l.role != provenance.Override:
		return !l.rivalPresent(p, c) && (p.singleton == nil || !l.holdsBack(p))
	}
	return p.isKey || l.takeChoice(p, c)
}

// rivalPresent reports whether the choice that p belongs to is made otherwise.
// A choice that only weaker defaults made is undone.
func (l *layer) rivalPresent(p *fieldNode, c *cursor) bool {
	for _, rival := range p.rivals {
		value := c.get(rival)
		if value == nil {
			continue
		}
		at := c.find(provenance.Segment{Name: rival})
		if l.beatsAll(value, at) {
			at.Clear()
			c.remove(at)
			continue
		}
		if at != nil && (c.added || at.Change == provenance.Added || at.Source != provenance.NoSource) {
			l.recordChoiceConflict(p, firstDecided(at)) // a peer made the choice, not the user
		}
		return true
	}
	return false
}

// beatsAll reports whether every leaf of value, recorded at n, is weak and beaten.
func (l *layer) beatsAll(value any, n *provenance.Node) bool {
	if n == nil || l.beats == nil {
		return false
	}
	if fields, ok := value.(map[string]any); ok && len(fields) > 0 {
		for name, v := range fields {
			if !l.beatsAll(v, n.Find(provenance.Segment{Name: name})) {
				return false
			}
		}
		return true
	}
	return l.beatsLeaf(n)
}

func (l *layer) beatsLeaf(n *provenance.Node) bool {
	return n != nil && n.Weak && n.Source != provenance.NoSource && l.beats != nil && l.beats(l.w.rec.Sources[n.Source])
}

// takeChoice removes what excludes p. False means that a stronger override made
// the choice.
func (l *layer) takeChoice(p *fieldNode, c *cursor) bool {
	for _, rival := range p.rivals {
		if winner := firstDecided(c.find(provenance.Segment{Name: rival})); c.get(rival) != nil && l.standsAgainst(winner) {
			l.recordConflicts(p, winner)
			return false
		}
	}
	for _, rival := range p.rivals {
		if value := c.get(rival); value != nil {
			at := l.w.rec.Child(c.record(), provenance.Segment{Name: rival})
			l.overrule(at, value, nil)
			c.remove(at)
		}
	}
	return true
}

// firstDecided finds a decided node at or beneath n.
func firstDecided(n *provenance.Node) *provenance.Node {
	if n == nil || n.Source != provenance.NoSource {
		return n
	}
	for c := range n.Children() {
		if d := firstDecided(c); d != nil {
			return d
		}
	}
	return nil
}

func (l *layer) defaultLeaf(p *fieldNode, c *cursor) {
	cur, n := c.get(p.seg.Name), c.find(p.seg)
	switch {
	case cur == nil:
		c.set(p.seg.Name, p.given())
	case !l.beatsLeaf(n):
		if !isObject(cur) || !p.emptyObject() {
			l.recordConflict(p, n, cur)
		}
	case p.same(cur):
		l.decides(n)
	default:
		c.set(p.seg.Name, p.given())
	}
}

func (l *layer) overrideLeaf(p *fieldNode, c *cursor) {
	cur, n := c.get(p.seg.Name), c.find(p.seg)
	switch {
	case p.isKey && cur != nil:
		return // it identifies the element, so it is equal, and the user's
	case l.standsAgainst(n):
		l.recordConflict(p, n, cur)
		return
	case isObject(cur) && p.emptyObject():
		return // it is present, and {} asks for nothing else
	case cur != nil:
		// Recorded even where equal: the value is the user's, and stays so
		// when the preset goes.
		l.overrule(l.w.rec.Child(c.record(), p.seg), cur, p.schema)
		if p.same(cur) {
			return
		}
	}
	c.set(p.seg.Name, p.given())
}

// given is the value of the leaf p as it is stored in an object.
func (p *fieldNode) given() any {
	if p.emptyObject() {
		return map[string]any{} // others may fill it
	}
	return p.value
}

// emptyObject reports whether p is a leaf {}, which only asks for presence.
func (p *fieldNode) emptyObject() bool {
	fields, ok := p.value.(map[string]any)
	return ok && len(fields) == 0
}

// overrule records at n that the layer acts against value, as far as value is
// the user's.
func (l *layer) overrule(n *provenance.Node, value any, s *schema) {
	if l.w.inherited > 0 {
		value = unapply{rec: l.w.rec}.value(n, cloneJSON(value), nil, s)
	}
	n.Clear()
	l.decides(n)
	n.Overruled = value != nil
	if n.Lost = isLost(value); !n.Lost {
		n.Was = value
	}
}

// actOnList acts on the elements that p names. They are merged by key; new ones
// are appended.
func (l *layer) actOnList(p *fieldNode, c *cursor) {
	for _, e := range p.kids {
		list, ok := c.list(p)
		if !ok {
			return
		}
		i := indexOf(list, p.schema.keys, e.seg.Name)
		switch n := c.find(p.seg, e.seg); {
		case l.excludes(e) || l.isReserved(e):
		case l.blocked(n):
			l.recordConflicts(e, n)
		case i < 0 && !l.mayAdd(e):
			l.skips(e, "the VM has no element of this name that it is linked to")
		case i >= 0 || !l.holdsBack(e):
			l.act(e.kids, c.element(p.seg.Name, e.seg.Name, i))
		}
	}
}

// list returns the list that p is about; nil, true where it is absent.
func (c *cursor) list(p *fieldNode) ([]any, bool) {
	cur := c.get(p.seg.Name)
	if cur == nil {
		return nil, true
	}
	list, ok := cur.([]any)
	if !ok {
		c.w.wrongType(p.at, cur, "a list")
		return nil, false
	}
	return list, c.w.checkElements(list, p.schema.keys, p.path)
}

// mayAdd reports whether a new element has, or will have, what it is linked to.
func (l *layer) mayAdd(e *fieldNode) bool {
	if e.link == nil {
		return l.role.Outranks() || !slices.Equal(e.at[:len(e.at)-1], templatesPath) || l.w.isReferenced(e.seg.Name)
	}
	brought := false
	for _, list := range e.link.partners {
		if l.w.has(list, e.link.key) {
			return true
		}
		for i := range l.w.layers {
			brings, adds := l.w.layers[i].partner(list, e.seg)
			if adds {
				return true
			}
			brought = brought || brings
		}
	}
	return e.link.alone && !brought
}

// partner reports whether the layer brings an element seg of a list, and whether it adds
// it. While values are computed, an element whose key is computed may be it.
func (l *layer) partner(list provenance.Path, seg provenance.Segment) (brings, adds bool) {
	elements := l.root.find(append(slices.Clip(templateSpec), list...))
	if l.w.trial && elements != nil && len(elements.unkeyed) > 0 {
		return true, true
	}
	partner := elements.find(provenance.Path{seg})
	return partner != nil, partner != nil && l.canAdd(partner)
}

// canAdd reports whether nothing keeps the layer from adding the element at p.
func (l *layer) canAdd(p *fieldNode) bool {
	if owner, _ := l.reservedBy(p); owner != 0 || l.excludes(p) || !l.role.Outranks() && l.second(p) != nil {
		return false
	}
	for i := range p.at {
		if l.blocked(l.w.rec.At(p.at[:i+1])) {
			return false
		}
	}
	return true
}

// find returns the node at p.
func (p *fieldNode) find(path provenance.Path) *fieldNode {
	for _, seg := range path {
		if p == nil || p.leaf {
			return nil
		}
		var next *fieldNode
		for _, kid := range p.kids {
			if kid.seg == seg {
				next = kid
				break
			}
		}
		p = next
	}
	return p
}

// remove removes what lies at r, and keeps weaker layers from putting it back.
func (l *layer) remove(r removal) {
	if r.owner&l.reserved != 0 && l.isReserved(&fieldNode{path: r.text, at: r.path, owner: r.owner}) {
		return
	}
	var holder, value any = nil, l.w.root
	n, s := l.w.rec.Root(), vmSchema()
	for _, seg := range r.path {
		n = l.w.rec.Child(n, seg)
		if l.blocked(n) {
			return // by a stronger layer
		}
		holder, value = value, stepInto(value, n, s)
		s = s.step(seg)
	}
	winner := firstDecided(n)
	switch {
	case value == nil && !l.standsAgainst(n):
		l.decides(n)
	case value == nil:
	case l.standsAgainst(winner):
		l.recordConflict(&fieldNode{path: r.text}, winner, value)
	default:
		l.overrule(n, value, s)
		n.Change = provenance.Removed
		l.w.cut(holder, n, r.path)
	}
}

// stepInto returns what n records in v, and notes the index of an element.
func stepInto(v any, n *provenance.Node, s *schema) any {
	switch at := v.(type) {
	case map[string]any:
		return at[n.Name]
	case []any:
		i := indexOf(at, s.keys, n.Name)
		if i < 0 {
			return nil
		}
		n.Index = int32(i)
		return at[i]
	}
	return nil
}

// cut takes what n records, at p, out of its holder.
func (w *resolution) cut(holder any, n *provenance.Node, p provenance.Path) {
	switch at := holder.(type) {
	case map[string]any:
		delete(at, n.Name)
	case []any:
		at[n.Index] = removedElement{}
		list := p[:len(p)-1]
		if in, ok := lookup(w.root, vmSchema(), list[:len(list)-1]).(map[string]any); ok {
			w.pendingRemovals = append(w.pendingRemovals, pendingRemoval{in: in, name: list[len(list)-1].Name})
		}
	}
}

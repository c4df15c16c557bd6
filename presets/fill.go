package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// fill lets the layer's defaults at kids fill what obj, recorded at n, lacks.
// Fresh says that obj is new, so that whoever made it puts it into the patch.
func (l *layer) fill(kids []*part, obj map[string]any, n *provenance.Node, fresh bool) {
	for _, p := range kids {
		if l.keptAway(p) || l.rivalPresent(p, obj, n, fresh) {
			continue
		}
		switch {
		case p.leaf:
			l.fillLeaf(p, obj, n, fresh)
		case p.schema.shape == shapeKeyed:
			l.fillList(p, obj, n, fresh)
		default:
			l.fillObject(p, obj, n, fresh)
		}
	}
}

// rivalPresent reports whether the choice that p belongs to is made otherwise.
// A choice that only weaker defaults made is undone.
func (l *layer) rivalPresent(p *part, obj map[string]any, n *provenance.Node, fresh bool) bool {
	for _, rival := range p.rivals {
		if obj[rival] == nil {
			continue
		}
		at := n.Find(provenance.Segment{Name: rival})
		if l.beatsAll(obj[rival], at) && !l.blocked(n.Find(p.seg)) {
			at.Clear()
			at.Change = provenance.Removed
			delete(obj, rival)
			continue
		}
		if at != nil && (fresh || at.Change == provenance.Added || at.Source != provenance.NoSource) {
			// A peer made the choice, not the user.
			l.lostChoice(p, firstDecided(at), obj[rival])
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

func (l *layer) fillLeaf(p *part, obj map[string]any, parent *provenance.Node, fresh bool) {
	cur := obj[p.seg.Name]
	n := parent.Find(p.seg)
	if l.blocked(n) {
		l.lost(p, n, nil)
		return
	}
	if cur != nil && !l.beatsLeaf(n) {
		if _, container := cur.(map[string]any); !container || !p.emptyObject() {
			l.lost(p, n, cur)
		}
		return
	}
	if cur != nil && p.same(cur) {
		l.decides(n)
		return
	}
	l.put(p, obj, l.w.rec.Child(parent, p.seg), fresh)
}

// emptyObject reports whether p is a leaf {}, which only asks for presence.
func (p *part) emptyObject() bool {
	fields, ok := p.value.(map[string]any)
	return ok && len(fields) == 0
}

// put sets the leaf p in obj and records it at n.
func (l *layer) put(p *part, obj map[string]any, n *provenance.Node, fresh bool) {
	value := p.value
	if p.emptyObject() {
		value = map[string]any{} // others may fill it
	}
	if !fresh {
		n.Change = provenance.Added
		if obj[p.seg.Name] != nil {
			n.Change = provenance.Replaced
		}
		n.Value = value
	}
	obj[p.seg.Name] = value
	l.decides(n)
}

func (l *layer) fillObject(p *part, obj map[string]any, parent *provenance.Node, fresh bool) {
	n := l.w.rec.Child(parent, p.seg)
	if l.blocked(n) {
		return
	}
	switch cur := obj[p.seg.Name].(type) {
	case nil:
		sub := make(map[string]any, len(p.kids))
		l.fill(p.kids, sub, n, true)
		l.attach(sub, obj, n, fresh)
	case map[string]any:
		before := len(cur)
		l.fill(p.kids, cur, n, fresh || n.Change == provenance.Added)
		n.WasEmpty = n.WasEmpty || before == 0 && len(cur) > 0 && n.Source == provenance.NoSource && n.Change != provenance.Added && !fresh
	default:
		l.w.wrongType(p, cur, "an object")
	}
}

// attach puts a new container with something in it into obj.
func (l *layer) attach(sub, obj map[string]any, n *provenance.Node, fresh bool) {
	if len(sub) == 0 {
		return
	}
	obj[n.Name] = sub
	if !fresh {
		n.Change, n.Value = provenance.Added, sub
	}
}

func (l *layer) fillList(p *part, obj map[string]any, parent *provenance.Node, fresh bool) {
	list, ok := l.listAt(p, obj)
	if !ok {
		return
	}
	n := l.w.rec.Child(parent, p.seg)
	if l.blocked(n) {
		return
	}
	absent, before := obj[p.seg.Name] == nil, len(list)
	for _, e := range p.kids {
		i := indexOf(list, p.schema.keys, e.seg.Name)
		switch {
		case l.keptAway(e):
		case i >= 0:
			l.fillElement(e, list, i, n, fresh || n.Change == provenance.Added)
		case !l.blocked(n.Find(e.seg)) && l.mayAdd(e):
			list = l.addElement(e, list, n, fresh || absent)
		}
	}
	l.setList(list, obj, n, listBefore{fresh: fresh, absent: absent, length: before})
}

// keptAway reports whether the user or an owner keeps the layer from p.
func (l *layer) keptAway(p *part) bool { return l.excludes(p) || l.bars(p) }

// fillElement fills element i of a list that is recorded at n.
func (l *layer) fillElement(e *part, list []any, i int, n *provenance.Node, fresh bool) {
	en := l.w.rec.Child(n, e.seg)
	if en.Change != provenance.Added {
		en.Index = int32(i)
	}
	fields, _ := list[i].(map[string]any)
	l.fill(e.kids, fields, en, fresh || en.Change == provenance.Added)
}

// listBefore is what a list was before a layer acted on it.
type listBefore struct {
	fresh, absent bool
	length        int
}

// setList stores a list that may have grown.
func (l *layer) setList(list []any, obj map[string]any, n *provenance.Node, was listBefore) {
	if len(list) == was.length {
		return
	}
	obj[n.Name] = list
	switch {
	case was.fresh:
	case was.absent:
		n.Change, n.Value = provenance.Added, list
	case n.Change == provenance.Added:
		n.Value = list
	default:
		n.WasEmpty = n.WasEmpty || was.length == 0
	}
}

// listAt returns the list that p is about; nil, true where there is none yet.
func (l *layer) listAt(p *part, obj map[string]any) ([]any, bool) {
	cur := obj[p.seg.Name]
	if cur == nil {
		return nil, true
	}
	list, ok := cur.([]any)
	if !ok {
		l.w.wrongType(p, cur, "a list")
		return nil, false
	}
	return list, l.w.checkElements(list, p.schema.keys, p.path)
}

// addElement appends e to list, which is recorded at n.
func (l *layer) addElement(e *part, list []any, n *provenance.Node, fresh bool) []any {
	en := l.w.rec.Child(n, e.seg)
	sub := make(map[string]any, len(e.kids))
	l.fill(e.kids, sub, en, true)
	if len(sub) == 0 {
		return list
	}
	return appendNew(list, sub, n, en, fresh)
}

// mayAdd reports whether a new element has, or will have, what it is linked to.
func (l *layer) mayAdd(e *part) bool {
	if e.link == nil {
		return true
	}
	brought := false
	for _, list := range e.link.partners {
		if l.w.has(list, e.link.key) {
			return true
		}
		for i := range l.w.layers {
			other := &l.w.layers[i]
			partner := other.root.find(append(slices.Clip(templateSpec), list...).With(e.seg))
			if partner == nil {
				continue
			}
			if other.mayAct(partner) {
				return true
			}
			brought = true
		}
	}
	return e.link.alone && !brought
}

// mayAct reports whether nothing keeps the layer from adding the element at p.
func (l *layer) mayAct(p *part) bool {
	if owner, _ := l.barredBy(p); owner != 0 || l.excludes(p) {
		return false
	}
	for i := range p.at {
		if l.blocked(l.w.rec.At(p.at[:i+1])) {
			return false
		}
	}
	return true
}

// find returns the part at p.
func (p *part) find(path provenance.Path) *part {
	for _, seg := range path {
		if p == nil || p.leaf {
			return nil
		}
		var next *part
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

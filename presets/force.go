package presets

import (
	"github.com/virtwright/virtwright/presets/provenance"
)

// force sets the layer's overrides at kids in obj, recorded at n, also against
// the user. Stronger overrides and removes have acted before.
func (l *layer) force(kids []*part, obj map[string]any, n *provenance.Node, fresh bool) {
	for _, p := range kids {
		if l.bars(p) {
			continue
		}
		at := l.w.rec.Child(n, p.seg)
		if l.blocked(at) {
			visitLeaves(p, func(leaf *part) { l.lost(leaf, at, nil) })
			continue
		}
		if !p.isKey && !l.takeChoice(p, obj, n, fresh) {
			continue
		}
		switch {
		case p.leaf:
			l.forceLeaf(p, obj, at, fresh)
		case p.schema.shape == shapeKeyed:
			l.forceList(p, obj, at, fresh)
		default:
			l.forceObject(p, obj, at, fresh)
		}
	}
}

// takeChoice removes what excludes p, and reports false where a stronger
// override made the choice.
func (l *layer) takeChoice(p *part, obj map[string]any, n *provenance.Node, fresh bool) bool {
	for _, rival := range p.rivals {
		at := n.Find(provenance.Segment{Name: rival})
		if winner := firstDecided(at); l.standsAgainst(winner) && obj[rival] != nil {
			visitLeaves(p, func(leaf *part) { l.lost(leaf, winner, nil) })
			return false
		}
	}
	for _, rival := range p.rivals {
		value := obj[rival]
		if value == nil {
			continue
		}
		at := l.w.rec.Child(n, provenance.Segment{Name: rival})
		l.overrule(at, value, nil)
		if !fresh {
			at.Change = provenance.Removed
		}
		delete(obj, rival)
	}
	return true
}

// overrule records at n that the layer acts against value, as far as value is
// the user's.
func (l *layer) overrule(n *provenance.Node, value any, s *schema) {
	if l.w.inherited > 0 {
		value = undoing{rec: l.w.rec}.unset(n, cloneJSON(value), s)
	}
	n.Clear()
	l.decides(n)
	n.Overruled = value != nil
	if n.Lost = isLost(value); !n.Lost {
		n.Was = value
	}
}

func (l *layer) forceLeaf(p *part, obj map[string]any, n *provenance.Node, fresh bool) {
	cur := obj[p.seg.Name]
	if p.isKey && cur != nil {
		return // it told the element apart, so it is equal, and the user's
	}
	if l.standsAgainst(n) {
		l.lost(p, n, cur)
		return
	}
	if _, container := cur.(map[string]any); container && p.emptyObject() {
		return // it is there, which is all that {} asks for
	}
	if cur != nil {
		// Recorded even where equal: the value is the user's, and stays so
		// when the preset goes.
		l.overrule(n, cur, p.schema)
		if p.same(cur) {
			return
		}
	}
	l.put(p, obj, n, fresh)
}

func (l *layer) forceObject(p *part, obj map[string]any, n *provenance.Node, fresh bool) {
	switch cur := obj[p.seg.Name].(type) {
	case nil:
		sub := make(map[string]any, len(p.kids))
		l.force(p.kids, sub, n, true)
		l.attach(sub, obj, n, fresh)
	case map[string]any:
		before := len(cur)
		l.force(p.kids, cur, n, fresh || n.Change == provenance.Added)
		n.WasEmpty = n.WasEmpty || before == 0 && len(cur) > 0 && n.Source == provenance.NoSource && n.Change != provenance.Added && !fresh
	default:
		l.w.wrongType(p, cur, "an object")
	}
}

func (l *layer) forceList(p *part, obj map[string]any, n *provenance.Node, fresh bool) {
	list, ok := l.listAt(p, obj)
	if !ok {
		return
	}
	absent, before := obj[p.seg.Name] == nil, len(list)
	for _, e := range p.kids {
		en := l.w.rec.Child(n, e.seg)
		i := indexOf(list, p.schema.keys, e.seg.Name)
		switch {
		case l.bars(e):
		case l.blocked(en):
			visitLeaves(e, func(leaf *part) { l.lost(leaf, en, nil) })
		case i >= 0:
			l.forceElement(e, list, i, n, fresh || n.Change == provenance.Added)
		case l.mayAdd(e):
			list = l.forceNew(e, list, n, fresh || absent)
		}
	}
	l.setList(list, obj, n, listBefore{fresh: fresh, absent: absent, length: before})
}

// forceElement overrides fields of element i of a list that is recorded at n.
func (l *layer) forceElement(e *part, list []any, i int, n *provenance.Node, fresh bool) {
	en := l.w.rec.Child(n, e.seg)
	if en.Change != provenance.Added {
		en.Index = int32(i)
	}
	fields, _ := list[i].(map[string]any)
	l.force(e.kids, fields, en, fresh || en.Change == provenance.Added)
}

// forceNew appends e to list, which is recorded at n.
func (l *layer) forceNew(e *part, list []any, n *provenance.Node, fresh bool) []any {
	sub := make(map[string]any, len(e.kids))
	en := l.w.rec.Child(n, e.seg)
	l.force(e.kids, sub, en, true)
	return appendNew(list, sub, n, en, fresh)
}

// appendNew appends an element, recorded at en, to a list that is recorded at n.
func appendNew(list []any, element map[string]any, n, en *provenance.Node, fresh bool) []any {
	en.Index, en.New = int32(len(list)), true
	if !fresh && n.Change != provenance.Added {
		en.Change, en.Value = provenance.Added, element
	}
	return append(list, element)
}

// takeAway removes what lies at r, and keeps weaker layers from putting it back.
func (l *layer) takeAway(r removal) {
	if r.owner&l.barred != 0 && l.bars(&part{path: r.text, at: r.path, owner: r.owner}) {
		return
	}
	var v any = l.w.root
	n, s := l.w.rec.Root(), vmSchema()
	for i, seg := range r.path {
		n = l.w.rec.Child(n, seg)
		if l.blocked(n) {
			return // by a stronger layer
		}
		last := i == len(r.path)-1
		v = l.stepAway(r, v, n, last, s)
		if last && v == nil && !l.standsAgainst(n) {
			l.decides(n)
		}
		s = s.step(seg)
	}
}

// stepAway returns what lies at n in v, and removes it at the end of the path.
func (l *layer) stepAway(r removal, v any, n *provenance.Node, last bool, s *schema) any {
	switch at := v.(type) {
	case map[string]any:
		value := at[n.Name]
		if last {
			l.drop(r, value, n, func() { delete(at, n.Name) })
		}
		return value
	case []any:
		i := indexOf(at, s.keys, n.Name)
		if i < 0 {
			return nil
		}
		n.Index = int32(i)
		value := at[i]
		if last {
			l.drop(r, value, n, func() {
				at[i] = tombstone{}
				l.noteHole(r.path)
			})
		}
		return value
	}
	return nil
}

// drop removes value, recorded at n, unless a stronger override set some of it.
func (l *layer) drop(r removal, value any, n *provenance.Node, remove func()) {
	s := vmSchema().at(r.path)
	if value == nil {
		return
	}
	if winner := firstDecided(n); l.standsAgainst(winner) {
		l.lost(&part{path: r.text}, winner, value)
		return
	}
	l.overrule(n, value, s)
	n.Change = provenance.Removed
	remove()
}

// noteHole remembers the list that lost the element at p.
func (l *layer) noteHole(p provenance.Path) {
	list := p[:len(p)-1]
	in, ok := lookup(l.w.root, vmSchema(), list[:len(list)-1]).(map[string]any)
	if ok {
		l.w.holed = append(l.w.holed, holed{in: in, name: list[len(list)-1].Name})
	}
}

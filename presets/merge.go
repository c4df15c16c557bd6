package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A merger does to a stored object what differs between two expansions.
type merger struct {
	*update
	// a is the expansion of the stored intent and b that of the sent one.
	a, b *expansion
	// undecided are presets that could not be judged for one of them. They act on
	// neither, and what they gave stays.
	undecided []*Compiled
	// into starts as the stored object.
	into *resolution
	// at is where the merger is.
	at provenance.Path
	// given are the stored elements that hold storage and that presets gave; kept are
	// those that presets give no longer, or otherwise.
	given []provenance.Path
	kept  []provenance.Path
}

// A pair is one place in both expansions: v in a, recorded at p, and w in b, recorded
// at q.
type pair struct {
	v, w any
	p, q *provenance.Node
	s    *schema
}

// run merges what differs.
func (m *merger) run() {
	m.findGiven()
	for _, p := range []provenance.Path{vmLabels, vmAnnotations, provenance.Of("spec")} {
		m.at = append(m.at[:0], p...)
		m.place(pair{lookup(m.a.root, vmSchema(), p), lookup(m.b.root, vmSchema(), p), m.a.rec.At(p), m.b.rec.At(p), vmSchema().at(p)})
	}
	for _, p := range matcherPaths { // one choice: KubeVirt adds its kind
		if lookup(m.a.root, vmSchema(), p) != nil && lookup(m.b.root, vmSchema(), p) == nil {
			m.drop(p)
		}
	}
	m.dropSecond()
	m.dropTemplates()
	m.dropWidowed()
	m.mergeForbids()
	m.into.rec.Snapshot, m.into.rec.Exceptions = m.snap.Hash(), m.b.rec.Exceptions
}

// beneath merges what lies at seg, where the merger is.
func (m *merger) beneath(seg provenance.Segment, d pair) {
	m.at = append(m.at, seg)
	m.place(d)
	m.at = m.at[:len(m.at)-1]
}

// place merges one place.
func (m *merger) place(d pair) {
	switch {
	case d.p == nil && d.q == nil && equalJSON(d.v, d.w):
	case d.w == nil && (isDecided(d.q) || d.v == nil && isDecided(d.p)):
		m.leaf(d)
	case d.areElements():
		m.elements(d)
	case d.areFields():
		m.fields(d)
	default:
		m.leaf(d)
	}
}

// leaf merges a place whose value is one, or that b removed.
func (m *merger) leaf(d pair) {
	switch {
	case !equalJSON(d.v, d.w):
		if !m.keeps(d) {
			m.put(d.w, d.q)
		}
	case !isDecided(d.q) && m.isStorage() && m.isKey():
		// The element stays the preset's, whatever the author changes in it.
	case !m.sameDecision(d.p, d.q) && !m.onlyPresetChanged(d):
		m.put(d.w, d.q)
	}
}

// onlyPresetChanged reports whether two presets give the same value, which is not the
// stored one: that is a change of presets, and not of the author's.
func (m *merger) onlyPresetChanged(d pair) bool {
	return isDecided(d.q) && sameIntent(d.p, d.q) && !equalJSON(lookup(m.into.root, vmSchema(), m.at), d.w)
}

func isDecided(n *provenance.Node) bool { return n != nil && n.Source != provenance.NoSource }

// areFields reports whether both sides are objects, or absent.
func (d pair) areFields() bool {
	isField := func(v any) bool { return v == nil || isObject(v) }
	return d.s.shape != shapeKeyed && isField(d.v) && isField(d.w)
}

// areElements reports whether both sides are lists of elements with a key each, or absent.
func (d pair) areElements() bool {
	return d.s.shape == shapeKeyed && isKeyed(d.v, d.s) && isKeyed(d.w, d.s)
}

func isKeyed(v any, s *schema) bool {
	list, ok := v.([]any)
	for i, e := range list {
		fields, _ := e.(map[string]any)
		if key, missing := elementKey(s.keys, fields); missing != "" || indexOf(list[:i], s.keys, key) >= 0 {
			return false
		}
	}
	return ok || v == nil
}

func (m *merger) fields(d pair) {
	before, _ := d.v.(map[string]any)
	after, _ := d.w.(map[string]any)
	m.container(d)
	merge := func(name string) {
		seg := provenance.Segment{Name: name}
		m.beneath(seg, pair{before[name], after[name], childOf(d.p, seg), childOf(d.q, seg), d.s.field(name)})
	}
	for name := range before {
		merge(name)
	}
	for name := range after {
		if before[name] == nil {
			merge(name)
		}
	}
	for seg := range d.recorded() {
		if before[seg.Name] == nil && after[seg.Name] == nil {
			merge(seg.Name)
		}
	}
	m.prune(d)
}

func (m *merger) elements(d pair) {
	before, _ := d.v.([]any)
	after, _ := d.w.([]any)
	m.container(d)
	merge := func(key string, e, f any) {
		seg := provenance.Segment{Name: key, Kind: provenance.Element}
		m.beneath(seg, pair{e, f, childOf(d.p, seg), childOf(d.q, seg), d.s.elem})
	}
	for _, f := range after {
		key := keyOf(f, d.s)
		merge(key, elementOf(before, d.s, key), f)
	}
	for _, e := range before {
		if key := keyOf(e, d.s); elementOf(after, d.s, key) == nil {
			seg := provenance.Segment{Name: key, Kind: provenance.Element}
			m.dropElement(seg, pair{v: e, p: childOf(d.p, seg), q: childOf(d.q, seg)})
		}
	}
	for seg := range d.recorded() {
		if elementOf(before, d.s, seg.Name) == nil && elementOf(after, d.s, seg.Name) == nil {
			merge(seg.Name, nil, nil)
		}
	}
	m.prune(d)
}

// keyOf returns the key of an element of a list with schema s.
func keyOf(e any, s *schema) string {
	fields, _ := e.(map[string]any)
	key, _ := elementKey(s.keys, fields)
	return key
}

// elementOf returns the element key of list; nil where it has none.
func elementOf(list []any, s *schema, key string) any {
	if i := indexOf(list, s.keys, key); i >= 0 {
		return list[i]
	}
	return nil
}

func childOf(n *provenance.Node, seg provenance.Segment) *provenance.Node {
	if n == nil {
		return nil
	}
	return n.Find(seg)
}

// recorded yields the segments beneath the pair that a record says something of.
func (d pair) recorded() func(func(provenance.Segment) bool) {
	return func(yield func(provenance.Segment) bool) {
		for _, n := range []*provenance.Node{d.p, d.q} {
			if n == nil {
				continue
			}
			for c := range n.Children() {
				if c.Has() && !yield(c.Segment()) {
					return
				}
			}
		}
	}
}

// dropElement drops an element whole, with what outdated presets gave it.
func (m *merger) dropElement(seg provenance.Segment, d pair) {
	m.at = append(m.at, seg)
	if !m.keeps(d) {
		m.put(nil, d.q)
	}
	m.at = m.at[:len(m.at)-1]
}

// container merges what is said of an object or list itself: that it exists, and
// whether its author wrote it empty.
func (m *merger) container(d pair) {
	if d.w == nil || d.v != nil && m.sameDecision(d.p, d.q) {
		return
	}
	was := lookup(m.into.root, vmSchema(), m.at)
	if d.v != nil && was == nil && isDecided(d.q) {
		return // presets give it in both, and the stored object has another choice
	}
	if was == nil {
		m.create(d)
	}
	m.decide(d.q, was == nil)
}

// create creates the object or list that b has, if it is one without content or its
// existence is what a preset gave.
func (m *merger) create(d pair) {
	if isEmpty(d.w) || isObject(d.w) && isDecided(d.q) {
		m.dropRivals()
		m.set(emptyLike(d.w))
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func emptyLike(v any) any {
	if isObject(v) {
		return map[string]any{}
	}
	return []any{}
}

// prune drops an object or list that b lacks, where nothing else is left in it.
func (m *merger) prune(d pair) {
	if d.v == nil || d.w != nil || isEmpty(d.v) && m.keeps(d) {
		return
	}
	if n := m.into.rec.At(m.at); n != nil {
		n.Release()
		n.WasEmpty = false
	}
	if isEmpty(lookup(m.into.root, vmSchema(), m.at)) {
		m.unset(m.at)
	}
}

// sameDecision reports whether two records say the same of a field itself.
func (m *merger) sameDecision(p, q *provenance.Node) bool {
	return sameIntent(p, q) && (!isDecided(p) || m.a.rec.Sources[p.Source] == m.b.rec.Sources[q.Source])
}

// sameIntent reports whether two records say the same of the author's value of a field.
func sameIntent(p, q *provenance.Node) bool {
	if isDecided(p) != isDecided(q) || (p != nil && p.WasEmpty) != (q != nil && q.WasEmpty) {
		return false
	}
	return !isDecided(p) || p.Overruled == q.Overruled && p.Lost == q.Lost && equalJSON(p.Was, q.Was)
}

// put sets what is at the path to w, or removes it where w is nil; q records it.
func (m *merger) put(w any, q *provenance.Node) {
	was := lookup(m.into.root, vmSchema(), m.at)
	if (w == nil || isDecided(q)) && m.mayMatch(m.at) {
		return
	}
	if n := m.into.rec.At(m.at); n != nil {
		n.Clear()
	}
	if w == nil {
		m.unset(m.at)
	} else {
		m.dropRivals()
		m.set(cloneJSON(w))
	}
	m.adopt(q, !equalJSON(was, w))
}

// adopt records what q says of the path and of what lies beneath.
func (m *merger) adopt(q *provenance.Node, news bool) {
	m.decide(q, news)
	if q == nil {
		return
	}
	for c := range q.Children() {
		m.at = append(m.at, c.Segment())
		m.adopt(c, news)
		m.at = m.at[:len(m.at)-1]
	}
}

// set sets what is at the path.
func (m *merger) set(v any) {
	m.into.unshare(m.at)
	m.into.setAt(m.at, v, m.b.root)
}

func (m *merger) unset(p provenance.Path) {
	m.into.unshare(p)
	m.into.unset(p)
}

// drop removes what lies at p, and what is recorded there.
func (m *merger) drop(p provenance.Path) {
	m.unset(p)
	if n := m.into.rec.At(p); n != nil {
		n.Clear()
	}
}

// decide records of the path what q says. News are changes of the value.
func (m *merger) decide(q *provenance.Node, news bool) {
	rec := m.into.rec
	n := rec.At(m.at)
	if !isDecided(q) && (q == nil || !q.WasEmpty) {
		if n != nil {
			n.Release()
			n.WasEmpty = false
		}
		return
	}
	n = rec.Ensure(m.at)
	n.Release()
	n.WasEmpty = q.WasEmpty
	if isDecided(q) {
		n.Source = m.into.addSource(m.b.rec.Sources[q.Source], m.b.by[q.Source])
		n.Overruled, n.Lost, n.Was, n.Now = q.Overruled, q.Lost, q.Was, news
	}
}

// mayMatch reports whether a preset that could not be judged gave what is stored at p,
// or another choice. What may match keeps what it gave.
func (m *merger) mayMatch(p provenance.Path) bool {
	given := func(p provenance.Path) bool {
		n := firstDecided(m.into.rec.At(p))
		return n != nil && slices.ContainsFunc(m.undecided, func(c *Compiled) bool { return c.Ref == m.into.rec.Sources[n.Source].Preset })
	}
	if len(m.undecided) == 0 {
		return false
	}
	s := vmSchema().at(p[:len(p)-1])
	return given(p) || s != nil && slices.ContainsFunc(s.rivals[p[len(p)-1].Name], func(name string) bool {
		return given(p[:len(p)-1].With(provenance.Segment{Name: name}))
	})
}

// dropRivals removes other members of the one-ofs that the path is in, which b lacks.
func (m *merger) dropRivals() {
	eachRival(m.at, func(_, rival provenance.Path) bool {
		if lookup(m.into.root, vmSchema(), rival) != nil && lookup(m.b.root, vmSchema(), rival) == nil {
			m.drop(rival)
		}
		return false
	})
}

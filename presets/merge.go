package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// applyFields merges fields into the object at c. A default sets a field that is absent, or that a
// replaceable default set; an override also replaces the user's value. Stronger layers have acted
// before.
func (l *layer) applyFields(kids []*fieldNode, c *cursor) {
	for _, f := range kids {
		if !l.clearSiblings(f, c) {
			continue
		}
		switch {
		case f.leaf && l.role == provenance.Override:
			l.overrideLeaf(f, c)
		case f.leaf:
			l.defaultLeaf(f, c)
		case f.schema.Shape == vmschema.Keyed:
			l.applyToList(f, c)
		default:
			l.applyFields(f.children, c.child(f.segment.Name))
		}
	}
}

// clearSiblings prepares c for f: it removes other members of the one-of of f that the layer may
// replace. It returns false if the layer may not set f.
func (l *layer) clearSiblings(f *fieldNode, c *cursor) bool {
	switch {
	case l.excludes(f) || l.isReserved(f) || l.wouldExtendSnapshot(f):
		return false
	case l.isWithheld(c.find(f.segment)):
		l.recordConflicts(f, c.find(f.segment))
		return false
	case l.role == provenance.Override:
		return f.isKey || l.overrideChoice(f, c)
	}
	return l.replaceChoice(f, c) && (f.unique == nil || !l.wouldRepeatUniqueElement(f))
}

// replaceChoice removes other members of the one-of of f that only replaceable defaults set. It
// returns false if another member stays.
func (l *layer) replaceChoice(f *fieldNode, c *cursor) bool {
	for _, alternative := range f.alternatives {
		value := c.get(alternative)
		if value == nil {
			continue
		}
		at := c.find(provenance.Segment{Name: alternative})
		if l.mayReplaceAll(value, at) {
			at.ClearSubtree()
			c.remove(at)
			continue
		}
		if at != nil && (c.added || at.Change == provenance.Added || at.IsDecided()) {
			l.recordChoiceConflict(f, firstDecided(at)) // another preset chose, not the user
		}
		return false
	}
	return true
}

func (l *layer) mayReplaceAll(value any, n *provenance.Node) bool {
	if fields := tree.AsObject(value); len(fields) > 0 {
		for name, v := range fields {
			if !l.mayReplaceAll(v, n.Find(provenance.Segment{Name: name})) {
				return false
			}
		}
		return true
	}
	return l.mayReplaceLeaf(n)
}

func (l *layer) mayReplaceLeaf(n *provenance.Node) bool {
	return n != nil && n.Replaceable && n.IsDecided() && l.mayReplace != nil && l.mayReplace(l.state.record.Sources[n.Source])
}

// overrideChoice removes other members of the one-of of f. It returns false if a stronger override
// set one.
func (l *layer) overrideChoice(f *fieldNode, c *cursor) bool {
	for _, alternative := range f.alternatives {
		if winner := firstDecided(c.find(provenance.Segment{Name: alternative})); c.get(alternative) != nil && !l.hasPrecedence(winner) {
			l.recordConflicts(f, winner)
			return false
		}
	}
	for _, alternative := range f.alternatives {
		if value := c.get(alternative); value != nil {
			at := l.state.record.Child(c.record(), provenance.Segment{Name: alternative})
			l.recordOverride(at, value, vmschema.VM().At(f.path[:len(f.path)-1]).Field(alternative))
			c.remove(at)
		}
	}
	return true
}

// firstDecided returns the first decided node at or beneath n; nil if there is none.
func firstDecided(n *provenance.Node) *provenance.Node {
	if n == nil || n.IsDecided() {
		return n
	}
	for c := range n.Children() {
		if d := firstDecided(c); d != nil {
			return d
		}
	}
	return nil
}

func (l *layer) defaultLeaf(f *fieldNode, c *cursor) {
	cur, n := c.get(f.segment.Name), c.find(f.segment)
	switch {
	case cur != nil && !l.mayReplaceLeaf(n):
		if !tree.IsObject(cur) || !f.isEmptyObject() {
			l.recordConflict(f, n, cur)
		}
	case cur != nil && f.equals(cur):
		l.decides(n)
	default:
		c.set(f.segment.Name, f.newValue())
	}
}

func (l *layer) overrideLeaf(f *fieldNode, c *cursor) {
	cur, n := c.get(f.segment.Name), c.find(f.segment)
	switch {
	case f.isKey && cur != nil:
		return // the key of an existing element is the user's
	case !l.hasPrecedence(n):
		l.recordConflict(f, n, cur)
		return
	case tree.IsObject(cur) && f.isEmptyObject():
		return // {} asks for presence only
	case cur != nil:
		// Recorded even if equal: the value stays the user's when the preset is deleted.
		l.recordOverride(l.state.record.Child(c.record(), f.segment), cur, f.schema)
		if f.equals(cur) {
			return
		}
	}
	c.set(f.segment.Name, f.newValue())
}

func (f *fieldNode) newValue() any {
	if f.isEmptyObject() {
		return map[string]any{} // weaker presets may fill it
	}
	return f.value
}

// isEmptyObject reports whether f is a leaf {}, which asks for presence only.
func (f *fieldNode) isEmptyObject() bool { return tree.IsObject(f.value) && tree.IsEmpty(f.value) }

// recordOverride records at n that the layer overrides value, as far as the user wrote it.
func (l *layer) recordOverride(n *provenance.Node, value any, s *vmschema.Schema) {
	if l.state.inheritedSources > 0 && (unapply{rec: l.state.record}).value(n, tree.Clone(value), nil, s) == nil {
		value = nil // a preset or the platform set it on the VM
	}
	n.ClearSubtree()
	l.decides(n)
	n.Overruled = value != nil
	if n.TooLarge = isOmitted(value); !n.TooLarge {
		n.UserValue = value
	}
}

func (l *layer) applyToList(f *fieldNode, c *cursor) {
	_, ok := c.list(f)
	if !ok {
		return
	}
	i := -1
	for _, e := range f.children {
		i = vmschema.NextIndexOf(tree.AsList(c.get(f.segment.Name)), f.schema.Keys, e.segment.Name, i)
		switch n := c.find(f.segment, e.segment); {
		case e.isEvery() || l.excludes(e) || l.isReserved(e):
		case l.isWithheld(n):
			l.recordConflicts(e, n)
		case i >= 0:
			l.applyFields(e.children, c.element(f.segment.Name, e.segment.Name, i))
		default:
			l.addElement(f, e, c)
		}
	}
}

// addElement applies e, an element of list f that the object at c lacks.
func (l *layer) addElement(f, e *fieldNode, c *cursor) {
	switch {
	case e.existing:
		l.state.waiting = append(l.state.waiting, waitingElement{l, e})
	case !l.mayAdd(e):
		l.noteSkip(e.text, "the VM has no linked element of the same name", l.role.OutranksUser())
	case !l.wouldRepeatUniqueElement(e):
		at := c.element(f.segment.Name, e.segment.Name, -1)
		l.applyAwaited(f, e, at)
		l.applyFields(e.children, at)
	}
}

// list returns the list that f sets; nil, true if it is absent.
func (c *cursor) list(f *fieldNode) ([]any, bool) {
	cur := c.object[f.segment.Name]
	list, ok := cur.([]any)
	if !ok && cur != nil {
		c.state.wrongType(f.path, cur, "a list")
		return nil, false
	}
	return list, !ok || c.state.checkElements(list, f.schema.Keys, f.text)
}

// mayAdd reports whether a new element has, or will have, the partner that it is linked to.
func (l *layer) mayAdd(e *fieldNode) bool {
	if e.pairing == nil {
		return l.role.OutranksUser() || !slices.Equal(e.path[:len(e.path)-1], vmschema.DataVolumeTemplates) || l.state.isReferenced(e.segment.Name)
	}
	brought := false
	for _, list := range e.pairing.Partners {
		if l.state.has(list, e.pairing.Key) {
			return true
		}
		for i := range l.state.layers {
			present, addable := l.state.layers[i].bringsPartner(list, e.segment)
			if addable {
				return true
			}
			brought = brought || present
		}
	}
	return e.pairing.UsefulAlone && !brought
}

// bringsPartner reports whether the layer has an element in a list, and whether it can add it.
// During a trial, an element with a computed key may be the partner.
func (l *layer) bringsPartner(list provenance.Path, seg provenance.Segment) (present, addable bool) {
	elements := l.root.find(append(slices.Clip(vmschema.TemplateSpec), list...))
	if l.state.trial && elements != nil && len(elements.unkeyed) > 0 {
		return true, true
	}
	partner := elements.find(provenance.Path{seg})
	return partner != nil, partner != nil && l.canAdd(partner)
}

func (l *layer) canAdd(f *fieldNode) bool {
	if owner, _ := l.reservedBy(f); owner != 0 || f.existing || f.isEvery() || l.excludes(f) || !l.role.OutranksUser() && l.existingUniqueElement(f) != nil {
		return false
	}
	for i := range f.path {
		if l.removedByStronger(l.state.record.At(f.path[:i+1])) {
			return false
		}
	}
	return true
}

func (f *fieldNode) find(path provenance.Path) *fieldNode {
	for _, seg := range path {
		if f == nil || f.leaf {
			return nil
		}
		i := slices.IndexFunc(f.children, func(kid *fieldNode) bool { return kid.segment == seg })
		if i < 0 {
			return nil
		}
		f = f.children[i]
	}
	return f
}

// remove removes the value at a path, and keeps weaker layers from setting it.
func (l *layer) remove(removed removal) {
	if removed.owner&l.reserved != 0 && l.isReserved(&fieldNode{text: removed.text, path: removed.path, owner: removed.owner}) {
		return
	}
	var holder, value any = nil, l.state.root
	n, s := l.state.record.Root(), vmschema.VM()
	for _, seg := range removed.path {
		n = l.state.record.Child(n, seg)
		if l.removedByStronger(n) {
			return // by a stronger layer
		}
		holder, value = value, stepInto(value, n, s)
		s = s.Step(seg)
	}
	winner := firstDecided(n)
	switch {
	case value == nil && l.hasPrecedence(n):
		l.decides(n)
	case value == nil:
	case !l.hasPrecedence(winner):
		l.recordConflict(&fieldNode{text: removed.text}, winner, value)
	default:
		l.recordOverride(n, value, s)
		n.Change = provenance.Removed
		l.state.cut(holder, n, removed.path)
	}
}

// stepInto returns the value that n records in v, and notes the index of an element.
func stepInto(v any, n *provenance.Node, s *vmschema.Schema) any {
	switch at := v.(type) {
	case map[string]any:
		return at[n.Name]
	case []any:
		i := vmschema.IndexOf(at, s.Keys, n.Name)
		if i < 0 {
			return nil
		}
		n.Index = int32(i)
		return at[i]
	}
	return nil
}

func (r *mergeState) cut(holder any, n *provenance.Node, p provenance.Path) {
	switch at := holder.(type) {
	case map[string]any:
		delete(at, n.Name)
	case []any:
		at[n.Index] = removedElement{}
		list := p[:len(p)-1]
		in := tree.AsObject(vmschema.Value(r.root, list[:len(list)-1])) // only objects have lists with keys
		r.pendingRemovals = append(r.pendingRemovals, pendingRemoval{in: in, name: list[len(list)-1].Name})
	}
}

// meets reports whether f has a leaf at p, above or beneath it. Elements of all names, and of
// computed ones, may be any element.
func (f *fieldNode) meets(p provenance.Path) bool {
	switch {
	case f == nil:
		return false
	case f.leaf:
		return true
	case len(p) == 0:
		return len(f.children)+len(f.unkeyed) > 0
	}
	isBelow := func(kid *fieldNode) bool { return kid.mayStandFor(p[0]) && kid.meets(p[1:]) }
	return slices.ContainsFunc(f.children, isBelow) || slices.ContainsFunc(f.unkeyed, isBelow)
}

func (f *fieldNode) mayStandFor(s provenance.Segment) bool {
	isInList := f.segment.Kind != provenance.Field && s.Kind != provenance.Field
	isAny := f.isEvery() || s.Kind == provenance.AnyElement || HasComputedKey(f.segment)
	return f.segment == s || isInList && isAny
}

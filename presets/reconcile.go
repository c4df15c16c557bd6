package presets

import (
	"fmt"
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// reconcile goes over every leaf that the record calls virtwright's and that
// the writer changed: it is put back, returns, or becomes the user's.
func (r *revision) reconcile() {
	rec := r.work.rec
	var recorded []provenance.Path
	for p := range rec.Decided() {
		recorded = append(recorded, slices.Clone(p))
	}
	for _, p := range recorded {
		n := rec.At(p)
		if n == nil || n.Source == provenance.NoSource {
			continue // gone with what it lay under
		}
		if ownerOf(p)&runState != 0 {
			r.keepRunning(p)
			continue
		}
		s := rec.Sources[n.Source]
		if s.Role.Outranks() {
			r.govern(p, n, s)
			continue
		}
		r.keep(p, n)
	}
	r.reorder(recorded)
	r.dropWidowed()
}

// keepRunning lets run state that was given once, and that the writer leaves
// out, stay as it is stored. Otherwise it is people's.
func (r *revision) keepRunning(p provenance.Path) {
	was := lookup(r.old, vmSchema(), p)
	for _, state := range runStateFields {
		if was == nil || lookup(r.work.root, vmSchema(), state) != nil {
			return
		}
	}
	r.work.setAt(p, was, r.old)
}

// unchanged reports whether p has the stored value; quantities compare by value.
func (r *revision) unchanged(p provenance.Path) bool {
	was, is := lookup(r.old, vmSchema(), p), lookup(r.work.root, vmSchema(), p)
	if equalJSON(was, is) || isObject(was) && isObject(is) {
		return true // of an object, the leaf is that it is there
	}
	s := vmSchema().at(p)
	if s == nil || s.shape != shapeQuantity {
		return false
	}
	a, errA := parseQuantity(was)
	b, errB := parseQuantity(is)
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

// govern puts back what an override or remove governs, while its preset does.
func (r *revision) govern(p provenance.Path, n *provenance.Node, s provenance.Source) {
	rivals := r.newRivals(p)
	if r.unchanged(p) && len(rivals) == 0 {
		return
	}
	c := r.work.by[n.Source]
	if c == nil || !c.governs(p) || !r.elementsRemain(p) {
		r.release(p, n)
		return
	}
	for _, rival := range rivals {
		r.work.unset(rival)
	}
	was := lookup(r.old, vmSchema(), p)
	switch {
	case r.unchanged(p):
	case was == nil:
		r.work.unset(p)
	default:
		r.work.setAt(p, cloneJSON(was), r.old)
	}
	r.notes = append(r.notes, fmt.Sprintf("preset %s keeps %s at %s", s.Preset, p, showOrAbsent(was)))
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// release gives p to the user. What lies beneath has decisions of its own, as
// long as there is something.
func (r *revision) release(p provenance.Path, n *provenance.Node) {
	if isObject(lookup(r.work.root, vmSchema(), p)) {
		n.Release()
		return
	}
	n.Clear()
}

// elementsRemain reports whether every element that p lies in is still there,
// or was virtwright's with its partner.
func (r *revision) elementsRemain(p provenance.Path) bool {
	for i, seg := range p {
		at := p[:i+1]
		if i == len(p)-1 || seg.Kind != provenance.Element || lookup(r.work.root, vmSchema(), at) != nil {
			continue
		}
		if !r.ownElement(at) || !r.partnered(at, r.work.root) {
			return false
		}
	}
	return true
}

func showOrAbsent(v any) string {
	if v == nil {
		return "absent"
	}
	return show(v)
}

// governs reports whether c still overrides or removes p.
func (c *Compiled) governs(p provenance.Path) bool {
	if c.Mode != "Enforce" {
		return false
	}
	if slices.ContainsFunc(c.removes, func(rm removal) bool { return p.HasPrefix(rm.path) }) {
		return true
	}
	at := c.overrides
	for i := range p {
		next := at.find(p[i : i+1])
		if next == nil {
			return at != nil && slices.ContainsFunc(at.kids, func(k *part) bool { return slices.Contains(k.rivals, p[i].Name) })
		}
		at = next
	}
	return at != nil
}

// newRivals are members of a one-of beside p that the writer added.
func (r *revision) newRivals(p provenance.Path) []provenance.Path {
	var out []provenance.Path
	s := vmSchema()
	for i, seg := range p {
		for _, name := range s.rivals[seg.Name] {
			rival := p[:i:i].With(provenance.Segment{Name: name})
			if lookup(r.work.root, vmSchema(), rival) != nil && lookup(r.old, vmSchema(), rival) == nil {
				out = append(out, rival)
			}
		}
		if s = s.step(seg); s == nil {
			break
		}
	}
	return out
}

// keep lets a default that vanished return, and gives one that changed to the user.
func (r *revision) keep(p provenance.Path, n *provenance.Node) {
	if r.unchanged(p) {
		return
	}
	was := lookup(r.old, vmSchema(), p)
	if lookup(r.work.root, vmSchema(), p) != nil || was == nil || !r.mayReturn(p) {
		r.release(p, n)
		return
	}
	if !r.work.setAt(p, cloneJSON(was), r.old) {
		n.Clear()
	}
}

// mayReturn reports whether what p lies in is still there, or was virtwright's as
// well, and no other member of a one-of has taken its place.
func (r *revision) mayReturn(p provenance.Path) bool {
	if len(r.newRivals(p)) > 0 {
		return false
	}
	return r.elementsRemain(p)
}

// ownElement reports whether virtwright added the element at p.
func (r *revision) ownElement(p provenance.Path) bool {
	return slices.ContainsFunc(keysOf(r.work.rec, p), func(n *provenance.Node) bool { return n.Source != provenance.NoSource })
}

// partnered reports whether the element at p has in root what it had in the
// stored object: what it is linked to.
func (r *revision) partnered(p provenance.Path, root map[string]any) bool {
	l := linkOf(p)
	if l == nil {
		return true
	}
	had := false
	for _, list := range l.partners {
		at := append(slices.Clone(templateSpec), list...).With(p[len(p)-1])
		if lookup(r.old, vmSchema(), at) == nil {
			continue
		}
		had = true
		if lookup(root, vmSchema(), at) != nil || r.ownElement(at) {
			return true
		}
	}
	return !had
}

// dropWidowed takes away elements of virtwright's whose partner the writer removed.
func (r *revision) dropWidowed() {
	for _, text := range slices.Sorted(maps.Keys(links)) {
		list, _ := provenance.ParsePath("spec.template.spec." + text)
		elements, _ := lookup(r.work.root, vmSchema(), list).([]any)
		keys := vmSchema().at(list).keys
		for _, e := range slices.Clone(elements) {
			fields, _ := e.(map[string]any)
			key, _ := elementKey(keys, fields)
			at := list.With(provenance.Segment{Name: key, Kind: provenance.Element})
			if r.ownElement(at) && !r.partnered(at, r.work.root) {
				r.work.unset(at)
				r.work.rec.At(at).Clear()
			}
		}
	}
}

// reorder puts elements that returned where they stood: behind those that were
// sent, in the order of the stored list.
func (r *revision) reorder(recorded []provenance.Path) {
	done := map[string]bool{}
	for _, p := range recorded {
		for i, seg := range p {
			if list := p[:i]; seg.Kind == provenance.Element && !done[list.String()] {
				done[list.String()] = true
				r.reorderList(list)
			}
		}
	}
}

func (r *revision) reorderList(list provenance.Path) {
	s := vmSchema().at(list)
	if s == nil {
		return
	}
	now, _ := lookup(r.work.root, vmSchema(), list).([]any)
	stored, _ := lookup(r.old, vmSchema(), list).([]any)
	sent, _ := lookup(r.sent, vmSchema(), list).([]any)
	rank := func(e any) int {
		fields, _ := e.(map[string]any)
		key, _ := elementKey(s.keys, fields)
		if indexOf(sent, s.keys, key) >= 0 {
			return -1
		}
		return indexOf(stored, s.keys, key)
	}
	slices.SortStableFunc(now, func(a, b any) int { return rank(a) - rank(b) })
}

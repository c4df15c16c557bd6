package presets

import (
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A lostValue stands for a user's value that was too large to be kept in the
// record, where a record is put to the test. It differs from every other value.
type lostValue struct{}

// lostField marks an element whose key alone is known.
const lostField = "\x00lost"

// isLost reports whether v stands for a value that was not kept.
func isLost(v any) bool {
	if fields, ok := v.(map[string]any); ok {
		_, lost := fields[lostField]
		return lost
	}
	_, lost := v.(lostValue)
	return lost
}

// unapply takes out of an object what a record says presets and the platform set,
// and puts back what was overruled: the rest is the intent of its author.
type unapply struct {
	rec *provenance.Record
	// mark puts a stand-in where the overruled value was not kept; otherwise the
	// value that is there stays.
	mark bool
	// update says that the object is an update of the one that the record is about:
	// a field that has another value than the stored one is the author's by now, and
	// one that the update lacks is gone with the value that it had overruled.
	update bool
}

// takeIntent leaves of root the intent of its author.
func takeIntent(root map[string]any, rec *provenance.Record) {
	unapply{rec: rec}.value(rec.Root(), root, root, vmSchema())
}

// value unapplies the record at and beneath n to v, which was stored as was.
// It returns what is left of v, nil for nothing.
func (u unapply) value(n *provenance.Node, v, was any, s *schema) any {
	if u.update && v == nil && was != nil {
		return nil
	}
	if isDecided(n) && u.rec.Sources[n.Source].Role != provenance.Forbid {
		if left, done := u.decided(n, v, was, s); done {
			return left
		}
	}
	switch at := v.(type) {
	case map[string]any:
		return u.fields(n, at, was, s)
	case []any:
		return u.elements(n, at, was, s)
	case nil:
		return u.restoreBeneath(n, s)
	}
	return v
}

// decided is value for a node that a preset or the platform decided. An object that one
// of them created is not done: what lies in it has decisions of its own.
func (u unapply) decided(n *provenance.Node, v, was any, s *schema) (left any, done bool) {
	switch {
	case u.update && !unchanged(was, v, s):
		return v, true
	case n.Overruled:
		return u.overruled(n, v), true
	case v == nil || s.shape == shapeAny:
		return nil, true
	}
	return nil, !isObject(v) && !hasChildren(n)
}

// unchanged reports whether v says what was said; quantities compare by value, and
// of an object the leaf is that it exists.
func unchanged(was, v any, s *schema) bool {
	if equalJSON(was, v) || s.shape != shapeAny && isObject(was) && isObject(v) {
		return true
	}
	if s.shape != shapeQuantity {
		return false
	}
	a, errA := parseQuantity(was)
	b, errB := parseQuantity(v)
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// overruled is the author's value at n, where v is now.
func (u unapply) overruled(n *provenance.Node, v any) any {
	switch {
	case !n.Lost:
		return cloneJSON(n.Was)
	case !u.mark:
		return v
	case n.Kind == provenance.Element:
		return map[string]any{"name": n.Name, lostField: lostValue{}}
	}
	return lostValue{}
}

func hasChildren(n *provenance.Node) bool {
	for range n.Children() {
		return true
	}
	return false
}

func (u unapply) fields(n *provenance.Node, fields map[string]any, was any, s *schema) any {
	sentEmpty := n.WasEmpty || len(fields) == 0 && n.Source == provenance.NoSource
	before, _ := was.(map[string]any)
	for c := range n.Children() {
		if left := u.value(c, fields[c.Name], before[c.Name], s.field(c.Name)); left != nil {
			fields[c.Name] = left
		} else {
			delete(fields, c.Name)
		}
	}
	if len(fields) == 0 && !sentEmpty && n != u.rec.Root() {
		return nil
	}
	return fields
}

func (u unapply) elements(n *provenance.Node, list []any, was any, s *schema) any {
	if s.shape != shapeKeyed {
		return list
	}
	sentEmpty := n.WasEmpty || len(list) == 0 && n.Source == provenance.NoSource
	before, _ := was.([]any)
	for c := range n.Children() {
		list = u.element(c, list, before, s)
	}
	if len(list) == 0 && !sentEmpty {
		return nil
	}
	return list
}

// element unapplies the record of one element. An element keeps its key if
// anything of it is left.
func (u unapply) element(n *provenance.Node, list, before []any, s *schema) []any {
	var v, was any
	i, j := indexOf(list, s.keys, n.Name), indexOf(before, s.keys, n.Name)
	if j >= 0 {
		was = before[j]
	}
	if i < 0 {
		if left := u.value(n, nil, was, s.elem); left != nil {
			list = append(list, left)
		}
		return list
	}
	v = list[i]
	key := map[string]any{}
	for _, k := range s.keys {
		copyDotted(key, v, k.field)
	}
	left := u.value(n, v, was, s.elem)
	if left == nil {
		return slices.Delete(list, i, i+1)
	}
	for _, k := range s.keys {
		copyDotted(left, key, k.field)
	}
	list[i] = left
	return list
}

// copyDotted copies one dotted field, where from has it.
func copyDotted(to, from any, dotted string) {
	name, rest, deeper := strings.Cut(dotted, ".")
	target, _ := to.(map[string]any)
	fields, _ := from.(map[string]any)
	v, ok := fields[name]
	switch {
	case !ok || target == nil:
	case !deeper:
		target[name] = v
	default:
		if target[name] == nil {
			target[name] = map[string]any{}
		}
		copyDotted(target[name], v, rest)
	}
}

// restoreBeneath rebuilds overruled values under a container that is gone.
func (u unapply) restoreBeneath(n *provenance.Node, s *schema) any {
	if s.shape == shapeKeyed {
		if list, _ := u.elements(n, nil, nil, s).([]any); len(list) > 0 {
			return list
		}
		return nil
	}
	if fields, _ := u.fields(n, map[string]any{}, nil, s).(map[string]any); len(fields) > 0 {
		return fields
	}
	return nil
}

func (w *resolution) kind() Kind {
	if w.instance != nil {
		return VirtualMachineInstance
	}
	return VirtualMachine
}

func (w *resolution) storedProvenance() string {
	text, _ := lookup(w.root, vmSchema(), provenanceOn(w.kind())).(string)
	return text
}

// discardProvenance drops a record that a user sent.
func (w *resolution) discardProvenance() {
	at := provenanceOn(w.kind())
	annotations, _ := lookup(w.root, vmSchema(), at[:len(at)-1]).(map[string]any)
	delete(annotations, at[len(at)-1].Name)
	n := w.rec.Root()
	for _, seg := range at {
		n = w.rec.Child(n, seg)
	}
	n.Change = provenance.Removed
}

// dropProvenance takes the record off the object, and the objects that it alone had
// kept from being empty, unless claim says that they were sent empty.
func (w *resolution) dropProvenance(claim *provenance.Record) {
	p := provenanceOn(w.kind())
	w.unset(p)
	for depth := len(p) - 1; depth > 0 && (p[depth-1].Name == "annotations" || p[depth-1].Name == "metadata"); depth-- {
		fields, _ := lookup(w.root, vmSchema(), p[:depth]).(map[string]any)
		n := claim.At(p[:depth])
		if fields == nil || len(fields) > 0 || n != nil && n.WasEmpty {
			return
		}
		w.unset(p[:depth])
	}
}

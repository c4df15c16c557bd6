package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// An omittedValue stands for a user value that was too large to record. It equals no other value.
type omittedValue struct{}

const omittedField = "\x00lost" // marks an element with a known key and an omitted value

func isOmitted(v any) bool {
	_, lost := v.(omittedValue)
	return lost || tree.AsObject(v)[omittedField] != nil
}

// unapply removes from an object the values that presets and the platform set, as a record says,
// and restores the user values that they overruled. The result is the user intent.
type unapply struct {
	rec *provenance.Record
	// markOmitted replaces values that overruled an unrecorded one with a placeholder.
	markOmitted bool
	// update says that the object is an update of the recorded one: fields with another value than
	// the stored one are the user's, and fields that it lacks are removed.
	update bool
}

func keepUserIntent(root map[string]any, rec *provenance.Record) {
	unapply{rec: rec}.value(rec.Root(), root, root, vmschema.VM())
}

// value unapplies the record beneath n to v, stored as was. It returns the rest of v, or nil.
func (u unapply) value(n *provenance.Node, v, was any, s *vmschema.Schema) any {
	if u.update && v == nil && was != nil {
		return nil
	}
	if n.IsDecided() && u.rec.Sources[n.Source].Role != provenance.Forbid {
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
		return u.restoreChildren(n, s)
	}
	return v
}

// decided is value for a decided node. It is not done for an object that a preset created: the
// fields in it have decisions of their own.
func (u unapply) decided(n *provenance.Node, v, was any, s *vmschema.Schema) (left any, done bool) {
	switch {
	case u.update && !sameValue(was, v, s):
		return v, true
	case n.Overruled:
		return u.overruled(n, v), true
	case v == nil || s.Shape == vmschema.Any:
		return nil, true
	}
	return nil, !tree.IsObject(v) && !hasChildren(n)
}

// sameValue compares leaves: quantities by value. Objects are equal: their leaf is that they exist.
func sameValue(was, v any, s *vmschema.Schema) bool {
	bothObjects := s.Shape != vmschema.Any && tree.IsObject(was) && tree.IsObject(v)
	return tree.Equal(was, v) || bothObjects || s.Shape == vmschema.Quantity && tree.SameQuantity(was, v)
}

func (u unapply) overruled(n *provenance.Node, v any) any {
	switch {
	case !n.TooLarge:
		return tree.Clone(n.UserValue)
	case !u.markOmitted:
		return v
	case n.Kind == provenance.Element:
		return map[string]any{"name": n.Name, omittedField: omittedValue{}}
	}
	return omittedValue{}
}

func hasChildren(n *provenance.Node) bool {
	for range n.Children() {
		return true
	}
	return false
}

func (u unapply) fields(n *provenance.Node, fields map[string]any, was any, s *vmschema.Schema) any {
	sentEmpty := n.EmptyByUser || len(fields) == 0 && !n.IsDecided()
	before := tree.AsObject(was)
	for c := range n.Children() {
		if left := u.value(c, fields[c.Name], before[c.Name], s.Field(c.Name)); left != nil {
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

func (u unapply) elements(n *provenance.Node, list []any, was any, s *vmschema.Schema) any {
	if s.Shape != vmschema.Keyed {
		return list
	}
	sentEmpty := n.EmptyByUser || len(list) == 0 && !n.IsDecided()
	for c := range n.Children() {
		list = u.element(c, list, tree.AsList(was), s)
	}
	if len(list) == 0 && !sentEmpty {
		return nil
	}
	return list
}

// element unapplies the record of one element. An element keeps its key if anything in it is left.
func (u unapply) element(n *provenance.Node, list, before []any, s *vmschema.Schema) []any {
	was, i := s.ElementOf(before, n.Name), vmschema.IndexOf(list, s.Keys, n.Name)
	if i < 0 {
		left := u.value(n, nil, was, s.Elem)
		if _, missing := vmschema.ElementKey(s.Keys, tree.AsObject(left)); left != nil && missing == "" {
			list = append(list, left) // without a key, it is the rest of an element that is gone
		}
		return list
	}
	key := map[string]any{}
	copyKeys(key, list[i], s.Keys)
	left := u.value(n, list[i], was, s.Elem)
	if left == nil {
		return slices.Delete(list, i, i+1)
	}
	copyKeys(left, key, s.Keys)
	list[i] = left
	return list
}

func (u unapply) restoreChildren(n *provenance.Node, s *vmschema.Schema) any {
	var restored any
	if s.Shape == vmschema.Keyed {
		restored = u.elements(n, nil, nil, s)
	} else {
		restored = u.fields(n, map[string]any{}, nil, s)
	}
	if tree.IsEmpty(restored) {
		return nil
	}
	return restored
}

func (r *mergeState) kind() Kind {
	if r.sentVMI != nil {
		return VirtualMachineInstance
	}
	return VirtualMachine
}

func (r *mergeState) storedProvenance() string {
	return tree.AsText(vmschema.Value(r.root, provenanceOn(r.kind())))
}

func (r *mergeState) discardProvenance() {
	at := provenanceOn(r.kind())
	delete(tree.AsObject(vmschema.Value(r.root, at[:len(at)-1])), at[len(at)-1].Name)
	r.record.Ensure(at).Change = provenance.Removed
}

// dropProvenance removes the record and objects that are then empty, except those that, by claim,
// the user sent empty.
func (r *mergeState) dropProvenance(claim *provenance.Record) {
	p := provenanceOn(r.kind())
	r.unset(p)
	for depth := len(p) - 1; depth > 0 && (p[depth-1].Name == "annotations" || p[depth-1].Name == "metadata"); depth-- {
		fields := tree.AsObject(vmschema.Value(r.root, p[:depth]))
		n := claim.At(p[:depth])
		if fields == nil || len(fields) > 0 || n != nil && n.EmptyByUser {
			return
		}
		r.unset(p[:depth])
	}
}

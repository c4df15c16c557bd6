package presets

import (
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Fields lists the leaves of an object by path, without its record, its names, and the keys of list
// elements that have other leaves. The error is a *Rejection.
func Fields(kind Kind, object map[string]any) ([]Leaf, error) {
	r, err := newMergeState(kind, object)
	if err != nil {
		return nil, err
	}
	r.dropProvenance(provenance.New())
	names := r.names()
	leaves := leavesByPath(r.root)
	var all []Leaf
	for _, path := range slices.Sorted(maps.Keys(leaves)) {
		if !slices.ContainsFunc(names, leaves[path].Path.HasPrefix) {
			all = append(all, leaves[path])
		}
	}
	has := map[string]bool{} // elements with other leaves than their keys
	for _, leaf := range all {
		if element := keyed(leaf.Path); element == nil {
			for i, s := range leaf.Path {
				if s.Kind == provenance.Element {
					has[leaf.Path[:i+1].String()] = true
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(leaf Leaf) bool {
		element := keyed(leaf.Path)
		return element != nil && has[element.String()]
	}), nil
}

// keyed returns the list element that the leaf at p is a key of; nil if it is no key.
func keyed(p provenance.Path) provenance.Path {
	for i, at := range slices.Backward(p) {
		if at.Kind != provenance.Element {
			continue
		}
		list := vmschema.VM().At(p[:i])
		var names []string
		for _, s := range p[i+1:] {
			names = append(names, s.Name)
		}
		if list != nil && slices.ContainsFunc(list.Keys, func(k vmschema.ListKey) bool { return k.Field == strings.Join(names, ".") }) {
			return p[:i+1]
		}
		return nil
	}
	return nil
}

// Part returns the fields of an object whose paths have a value, with that value and the keys of
// their list elements, as a part of a VirtualMachine. The error is a *Rejection.
func Part(kind Kind, object map[string]any, values map[string]any) (map[string]any, error) {
	r, err := newMergeState(kind, object)
	if err != nil {
		return nil, err
	}
	root, _ := part(r.root, vmschema.VM(), nil, func(leaf Leaf) any { return values[leaf.Path.String()] }).(map[string]any)
	return root, nil
}

// part returns a value with the leaves that value returns; nil if there are none. An element keeps
// the fields that identify it while it has others.
func part(v any, s *vmschema.Schema, p provenance.Path, value func(Leaf) any) any {
	switch at := v.(type) {
	case map[string]any:
		if len(at) > 0 {
			return partOfObject(at, s, p, value)
		}
	case []any:
		if s.Shape == vmschema.Keyed && len(at) > 0 {
			return partOfList(at, s, p, value)
		}
	}
	return value(Leaf{p, v})
}

func partOfObject(fields map[string]any, s *vmschema.Schema, p provenance.Path, value func(Leaf) any) any {
	out := map[string]any{}
	for name, sub := range fields {
		if left := part(sub, s.Field(name), p.Field(name), value); left != nil {
			out[name] = left
		}
	}
	if len(out) == 0 && len(p) > 0 {
		return nil
	}
	return out
}

func partOfList(list []any, s *vmschema.Schema, p provenance.Path, value func(Leaf) any) any {
	var out []any
	for _, e := range list {
		left, _ := part(e, s.Elem, p.Element(s.KeyOf(e)), value).(map[string]any)
		if left == nil {
			continue
		}
		copyKeys(left, e, s.Keys)
		out = append(out, left)
	}
	if out == nil {
		return nil
	}
	return out
}

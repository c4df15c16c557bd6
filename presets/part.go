package presets

import (
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
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
	root := divide(r.root, vmschema.VM(), nil).part(func(path string, _ any) any { return values[path] })
	return tree.AsObject(root), nil
}

// A divided is a value of an object as a tree of leaves.
type divided struct {
	path     string // of the value
	value    any
	fields   map[string]*divided // of an object; nil if it is empty
	elements []*divided          // of a list with keys
	keys     []vmschema.ListKey  // of an element
}

func divide(v any, s *vmschema.Schema, p provenance.Path) *divided {
	out := &divided{path: p.String(), value: v}
	switch at := v.(type) {
	case map[string]any:
		if len(at) > 0 {
			out.fields = map[string]*divided{}
		}
		for name, sub := range at {
			out.fields[name] = divide(sub, s.Field(name), p.Field(name))
		}
	case []any:
		if s.Shape != vmschema.Keyed {
			break
		}
		for _, e := range at {
			element := divide(e, s.Elem, p.Element(s.KeyOf(e)))
			element.keys = s.Keys
			out.elements = append(out.elements, element)
		}
	}
	return out
}

// part returns the value with the leaves that value returns for paths; nil if there are none. An
// element keeps the fields that identify it while it has others.
func (d *divided) part(value func(path string, v any) any) any {
	switch {
	case d.fields != nil:
		out := map[string]any{}
		for name, sub := range d.fields {
			if left := sub.part(value); left != nil {
				out[name] = left
			}
		}
		if len(out) > 0 || d.path == "" {
			return out
		}
	case d.elements != nil:
		if out := d.partOfList(value); out != nil {
			return out
		}
	default:
		return value(d.path, d.value)
	}
	return nil
}

func (d *divided) partOfList(value func(path string, v any) any) (out []any) {
	for _, e := range d.elements {
		if left := tree.AsObject(e.part(value)); left != nil {
			copyKeys(left, e.value, e.keys)
			out = append(out, left)
		}
	}
	return out
}

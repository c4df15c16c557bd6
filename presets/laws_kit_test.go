package presets

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// eachLeaf visits the leaves of v: scalars, atomic lists and empty containers.
func eachLeaf(v any, s *vmschema.Schema, p provenance.Path, visit func(provenance.Path, any)) {
	switch at := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(at)) {
			seg := provenance.Segment{Name: name}
			eachLeaf(at[name], s.Field(name), p.With(seg), visit)
		}
		if len(at) == 0 {
			visit(p, v)
		}
		return
	case []any:
		if s.Shape != vmschema.Keyed {
			break
		}
		for _, e := range at {
			fields, _ := e.(map[string]any)
			key, _ := vmschema.ElementKey(s.Keys, fields)
			eachLeaf(e, s.Elem, p.Element(key), visit)
		}
		return
	}
	visit(p, v)
}

// plantUnknown adds fields that no Go type has, where KubeVirt might add some.
func (c lawCase) plantUnknown() {
	c.vm["unknown"] = map[string]any{"big": int64(9007199254740993), "list": []any{"a", map[string]any{"b": nil}}}
	for _, path := range [][]string{{"spec"}, {"spec", "template"}, {"spec", "template", "spec", "domain"}, {"spec", "template", "spec", "domain", "devices"}} {
		at := c.vm
		for _, name := range path {
			if at, _ = at[name].(map[string]any); at == nil {
				break
			}
		}
		if at != nil {
			at["unknown"] = "kept"
		}
	}
	elements, _ := vmschema.Value(c.vm, provenance.Of("spec", "template", "spec", "domain", "devices", "disks")).([]any)
	for _, e := range elements {
		if fields, ok := e.(map[string]any); ok {
			fields["unknown"] = map[string]any{"a": int64(1)}
		}
	}
}

// unknowns collects fields named unknown, by where they stand. Elements are found by name, since a
// list may have grown or shrunk.
func unknowns(v any) map[string]any {
	out := map[string]any{}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			for name, sub := range v {
				if name == "unknown" {
					// A removal removes the whole element, with unknown fields.
					if !strings.Contains(at, "/a") {
						out[at] = sub
					}
					continue
				}
				walk(sub, at+"/"+name)
			}
		case []any:
			for _, e := range v {
				if fields, ok := e.(map[string]any); ok {
					name, _ := fields["name"].(string)
					walk(e, at+"/"+name)
				}
			}
		}
	}
	walk(v, "")
	return out
}

// pointer resolves a JSON pointer; nil if there is no such value.
func pointer(v any, path string) any {
	for token := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch at := v.(type) {
		case map[string]any:
			v = at[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

func dropAnnotation(root map[string]any) {
	(&mergeState{root: root}).unset(provenanceOn(VirtualMachine))
}

// emptyMetadata reports whether want and got are equal but for metadata objects that hold nothing.
func emptyMetadata(want, got map[string]any) bool {
	prune := func(root map[string]any) map[string]any {
		root, _ = tree.Clone(root).(map[string]any)
		meta, _ := root["metadata"].(map[string]any)
		if a, ok := meta["annotations"].(map[string]any); ok && len(a) == 0 {
			delete(meta, "annotations")
		}
		if len(meta) == 0 {
			delete(root, "metadata")
		}
		return root
	}
	return tree.Equal(prune(want), prune(got))
}

func copyField(from, to map[string]any, parent, name string) {
	a, _ := from[parent].(map[string]any)
	b, _ := to[parent].(map[string]any)
	if b == nil {
		return
	}
	delete(b, name)
	if v, ok := a[name]; ok {
		b[name] = v
	}
}

// clearRecord compares VMs without their records, where run state differs.
func clearRecord(vms ...map[string]any) {
	for _, vm := range vms {
		dropAnnotation(vm)
	}
}

// sortLists puts the elements of keyed lists into the order of their keys.
func sortLists(v any, s *vmschema.Schema) {
	switch at := v.(type) {
	case map[string]any:
		for name, sub := range at {
			sortLists(sub, s.Field(name))
		}
	case []any:
		if s.Shape != vmschema.Keyed {
			return
		}
		key := func(e any) string {
			fields, _ := e.(map[string]any)
			k, _ := vmschema.ElementKey(s.Keys, fields)
			return k
		}
		slices.SortFunc(at, func(a, b any) int { return strings.Compare(key(a), key(b)) })
		for _, e := range at {
			sortLists(e, s.Elem)
		}
	}
}

// relabelled is vm with one more label, which no preset looks at.
func relabelled(vm map[string]any) map[string]any {
	vm = roundTrip(vm)
	setDotted(vm, "metadata.labels.relabelled", "yes")
	return vm
}

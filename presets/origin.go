package presets

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/set"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// AddOrigins adds to the problems of an object the presets that set the fields, and returns the
// Refs of these presets; empty for other fields. The object is decoded JSON.
func AddOrigins(kind Kind, object map[string]any, problems field.ErrorList) (named field.ErrorList, setBy []string) {
	setBy = make([]string, len(problems))
	r := readRecorded(kind, object)
	if r == nil {
		return problems, setBy
	}
	named = slices.Clone(problems)
	for i, e := range named {
		if preset := r.presetOf(r.pathOf(e.Field)); preset != "" && !Breaks(e, preset) {
			due := *e
			due.Detail = strings.TrimSpace(due.Detail + " (set by preset " + preset + ")")
			named[i], setBy[i] = &due, preset
		}
	}
	return named, setBy
}

// SetBy returns the Ref of the preset that set a field, as a problem of an object names it, and the
// path of the field; empty if no preset set it. The object is decoded JSON.
func SetBy(kind Kind, object map[string]any, text string) (ref string, path provenance.Path) {
	r := readRecorded(kind, object)
	if r == nil {
		return "", nil
	}
	path = r.pathOf(text)
	return r.presetOf(path), path
}

// readRecorded returns an object with its record; nil if it cannot be read.
func readRecorded(kind Kind, object map[string]any) *mergeState {
	r, err := newMergeState(kind, object)
	if err != nil {
		return nil
	}
	if r.record, err = provenance.Decode(r.storedProvenance()); err != nil {
		return nil
	}
	return r
}

// PathOf returns the path of a field that a problem of an object names. The object is decoded JSON.
// It is nil if the object has no such field.
func PathOf(kind Kind, object map[string]any, problem *field.Error) provenance.Path {
	r, err := newMergeState(kind, object)
	if err != nil {
		return nil
	}
	return r.pathOf(problem.Field)
}

// presetOf returns the preset that set all leaves at and beneath p; empty if there is none.
func (r *mergeState) presetOf(p provenance.Path) string {
	s := vmschema.VM().At(p)
	v := vmschema.Value(r.root, p)
	if p == nil || s == nil || v == nil {
		return ""
	}
	found := set.New[string]()
	listLeaves(v, s, p, func(leaf provenance.Path, _ any) {
		if by, _ := r.record.SourceOf(leaf); by.Role == provenance.Platform {
			found.Insert("")
		} else {
			found.Insert(by.Preset)
		}
	})
	if found.Len() != 1 {
		return ""
	}
	preset, _ := found.PopAny()
	return preset
}

// pathOf returns the path, in VM form, of a field in a problem, which names list elements by
// position. It is nil if the object has no such field.
func (r *mergeState) pathOf(text string) provenance.Path {
	if r.sentVMI != nil {
		text = "spec.template." + text
	}
	var out provenance.Path
	s, v := vmschema.VM(), any(r.root)
	for text != "" {
		var name string
		name, text = nextName(text)
		seg := provenance.Segment{Name: name}
		if list, ok := v.([]any); ok {
			i, err := strconv.Atoi(name)
			if s.Shape != vmschema.Keyed || err != nil || i < 0 || i >= len(list) {
				return out // the list is one value
			}
			seg = provenance.Segment{Name: s.KeyOf(list[i]), Kind: provenance.Element}
			v = list[i]
		} else {
			v = tree.AsObject(v)[name]
		}
		if s = s.Step(seg); s == nil {
			return nil
		}
		out = append(out, seg)
	}
	return out
}

// nextName splits the first name off a path such as a.b[0].c or a[b.c/d].
func nextName(text string) (name, rest string) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		name, rest, _ = strings.Cut(inner, "]")
		return name, strings.TrimPrefix(rest, ".")
	}
	i := strings.IndexAny(text, ".[")
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimPrefix(text[i:], ".")
}

// A Leaf is a scalar, a list without keys, an empty object or an empty list.
type Leaf struct {
	// Path begins at the root of the VirtualMachine, also for a VMI.
	Path  provenance.Path
	Value any
}

// Leaves lists the leaves of an object by path, without its record. The error is a *Rejection.
func Leaves(kind Kind, object map[string]any) ([]Leaf, error) {
	if object == nil {
		return nil, nil
	}
	r, err := newMergeState(kind, object)
	if err != nil {
		return nil, err
	}
	var out []Leaf
	for _, o := range origins(r) {
		if len(o.Path) > 0 {
			out = append(out, Leaf{o.Path, o.Value})
		}
	}
	return out, nil
}

// ValueAt returns the value at or above a path of Leaves; nil if there is none.
func ValueAt(kind Kind, object map[string]any, path provenance.Path) any {
	if kind == VirtualMachineInstance {
		object = wrap(object)
	}
	return vmschema.Value(object, slices.Clip(path))
}

// ElementKeys returns the keys of the elements of the list at a path of Leaves; nil if the list has
// no keys.
func ElementKeys(path provenance.Path, list []any) []string {
	s := vmschema.VM().At(path)
	if s == nil || s.Shape != vmschema.Keyed {
		return nil
	}
	keys := make([]string, len(list))
	for i, e := range list {
		keys[i] = s.KeyOf(e)
	}
	return keys
}

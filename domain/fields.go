package domain

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// fields yields every field of fieldGroups by its path, with its group.
func fields() iter.Seq2[string, *fieldGroup] {
	return func(yield func(string, *fieldGroup) bool) {
		for i := range fieldGroups {
			for name := range strings.FieldsSeq(fieldGroups[i].names) {
				if !yield(fieldGroups[i].parent+"."+name, &fieldGroups[i]) {
					return
				}
			}
		}
	}
}

// A fieldProbe finds the values of one field in a VMI's spec.
type fieldProbe struct {
	path, note string
	steps      []fieldStep
	leaf       reflect.Type // the type of the field; that of the elements for a list
}

// A fieldStep descends to a field of a struct, and to each of its elements where it is a list.
type fieldStep struct {
	name  string
	index []int
	list  bool
}

// newProbe resolves a path through KubeVirt's Go types. It panics if there is no such field.
func newProbe(path, note string) fieldProbe {
	p := fieldProbe{path: path, note: note, leaf: reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec]()}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "spec."), ".") {
		name, list := strings.CutSuffix(segment, "[]")
		f, found := fieldNamed(p.leaf, name)
		if !found {
			panic(fmt.Sprintf("fieldGroups has %s, but %v has no field %s", path, p.leaf, name))
		}
		p.steps = append(p.steps, fieldStep{name: name, index: f.Index, list: list})
		p.leaf = pointee(f.Type)
		if list {
			p.leaf = pointee(p.leaf.Elem())
		}
	}
	return p
}

// probesOf returns the probes of the fields that are handled in one of these ways, by path.
func probesOf(by ...handling) []fieldProbe {
	var out []fieldProbe
	for path, group := range fields() {
		if slices.Contains(by, group.by) {
			out = append(out, newProbe(path, group.note))
		}
	}
	slices.SortFunc(out, func(a, b fieldProbe) int { return strings.Compare(a.path, b.path) })
	return out
}

func pointee(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldNamed finds the field of a struct by its name in JSON. A type that is no struct has none.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// visit calls a function for each value of the field that is set below v, with the indexes of the
// list elements on the way. Paths cost more than all else: at makes them where one is needed.
func visit(v reflect.Value, steps []fieldStep, indexes []int, found func(reflect.Value, []int)) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return
	}
	if len(steps) == 0 {
		found(v, indexes)
		return
	}
	value, err := v.FieldByIndexErr(steps[0].index)
	if err != nil || value.IsZero() { // an embedded pointer is nil, or the field is not set
		return
	}
	if !steps[0].list {
		visit(value, steps[1:], indexes, found)
		return
	}
	for i := range value.Len() {
		visit(value.Index(i), steps[1:], append(indexes, i), found)
	}
}

// at is the path of a value that visit found.
func (p *fieldProbe) at(indexes []int) *field.Path {
	at := field.NewPath("spec")
	for _, step := range p.steps {
		at = at.Child(step.name)
		if step.list {
			at, indexes = at.Index(indexes[0]), indexes[1:]
		}
	}
	return at
}

var unsupportedFields = probesOf(unsupported)

// rejectSet returns an error for each field of probes that a VMI sets.
func rejectSet(vmi *kubevirtv1.VirtualMachineInstance, probes []fieldProbe) field.ErrorList {
	var errs field.ErrorList
	spec := reflect.ValueOf(&vmi.Spec)
	for i := range probes {
		visit(spec, probes[i].steps, nil, func(_ reflect.Value, indexes []int) {
			errs = append(errs, field.Forbidden(probes[i].at(indexes), "not supported: "+probes[i].note))
		})
	}
	return errs
}

// textFields are the probes of the fields whose text becomes a part of a domain.
var textFields = textProbes()

func textProbes() []fieldProbe {
	var out []fieldProbe
	for _, p := range probesOf(inDomain, notInPod) {
		if _, claim := fieldNamed(p.leaf, "claimName"); claim {
			p = newProbe(p.path+".claimName", "")
		}
		if p.leaf.Kind() == reflect.String {
			out = append(out, p)
		}
	}
	return out
}

// texts rejects text that XML cannot carry: libvirt would read other characters than the VMI has.
func (g *guest) texts() {
	metadata := field.NewPath("metadata")
	g.errs = append(g.errs, checkText(metadata.Child("name"), g.vmi.Name)...)
	g.errs = append(g.errs, checkText(metadata.Child("namespace"), g.vmi.Namespace)...)
	spec := reflect.ValueOf(g.spec)
	for i := range textFields {
		visit(spec, textFields[i].steps, nil, func(v reflect.Value, indexes []int) {
			if invalidXML(v.String()) >= 0 {
				g.errs = append(g.errs, checkText(textFields[i].at(indexes), v.String())...)
			}
		})
	}
}

// checkText rejects text that XML cannot carry.
func checkText(at *field.Path, text string) field.ErrorList {
	if i := invalidXML(text); i >= 0 {
		return field.ErrorList{field.Invalid(at, text, fmt.Sprintf("must not contain control characters: XML cannot carry the one at byte %d", i))}
	}
	return nil
}

// invalidXML returns the offset of the first character that XML cannot carry, or -1.
func invalidXML(text string) int {
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		control := r < ' ' && r != '\t' && r != '\n' && r != '\r'
		if control || r == 0xfffe || r == 0xffff || r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return -1
}

package domain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// textFields are the probes of all fields with text that becomes a part of a
// domain, in order of path.
var textFields = textProbes()

func textProbes() []probe {
	var out []probe
	for _, rules := range []map[string]fieldRule{domainFields, specFields} {
		for path, rule := range rules {
			if rule.class == Outside || rule.class == Unsupported {
				continue
			}
			p := newProbe(path, "")
			kind := p.leaf()
			if _, claim := fieldNamedOf(kind, "claimName"); claim {
				p = newProbe(path+".claimName", "")
			} else if kind.Kind() != reflect.String {
				continue
			}
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b probe) int { return strings.Compare(a.path, b.path) })
	return out
}

// leaf is the type of the field that a probe finds.
func (p *probe) leaf() reflect.Type {
	t := reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec]()
	for _, step := range p.steps {
		t = pointee(pointee(t).FieldByIndex(step.index).Type)
		if step.list {
			t = pointee(t.Elem())
		}
	}
	return t
}

func pointee(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldNamedOf is the field of a type that may be no struct.
func fieldNamedOf(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	return fieldNamed(t, name)
}

// texts refuses text that XML cannot carry: libvirt would read other
// characters than the instance has.
func (g *guest) texts() {
	metadata := field.NewPath("metadata")
	g.text(metadata.Child("name"), g.vmi.Name)
	g.text(metadata.Child("namespace"), g.vmi.Namespace)
	spec := reflect.ValueOf(g.spec).Elem()
	for i := range textFields {
		if !allInXML(spec, textFields[i].steps) {
			g.textsOf(spec, textFields[i].steps, field.NewPath("spec"))
		}
	}
}

// allInXML reports whether XML can carry all text that steps lead to. Unlike textsOf it makes no
// paths, which cost more than all else.
func allInXML(v reflect.Value, steps []probeStep) bool {
	for i := range steps {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.IsValid() {
			return true
		}
		value, err := v.FieldByIndexErr(steps[i].index)
		if err != nil { // an embedded pointer that is nil
			return true
		}
		if v = value; steps[i].list {
			for at := range v.Len() {
				if !allInXML(v.Index(at), steps[i+1:]) {
					return false
				}
			}
			return true
		}
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return !v.IsValid() || uncarried(v.String()) < 0
}

func (g *guest) textsOf(v reflect.Value, steps []probeStep, at *field.Path) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return
	}
	if len(steps) == 0 {
		g.text(at, v.String())
		return
	}
	value, err := v.FieldByIndexErr(steps[0].index)
	if err != nil || value.IsZero() { // an embedded pointer that is nil, or nothing
		return
	}
	at = at.Child(steps[0].name)
	if !steps[0].list {
		g.textsOf(value, steps[1:], at)
		return
	}
	for i := range value.Len() {
		g.textsOf(value.Index(i), steps[1:], at.Index(i))
	}
}

func (g *guest) text(at *field.Path, text string) { g.errs = append(g.errs, checkText(at, text)...) }

// checkText refuses text that XML cannot carry.
func checkText(at *field.Path, text string) field.ErrorList {
	if i := uncarried(text); i >= 0 {
		return field.ErrorList{field.Invalid(at, text, fmt.Sprintf("must be without control characters: XML cannot carry the one at byte %d", i))}
	}
	return nil
}

// uncarried is where the first character begins that XML cannot carry; -1 where there is none.
func uncarried(text string) int {
	for i, r := range text {
		if !inXML(r) {
			return i
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

// inXML says whether XML can carry a character.
func inXML(r rune) bool {
	switch {
	case r < ' ':
		return r == '\t' || r == '\n' || r == '\r'
	default:
		return r != 0xfffe && r != 0xffff
	}
}

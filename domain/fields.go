package domain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// A Class says which part of the pipeline answers for a field of an instance.
type Class string

// The classes of fields.
const (
	// Frontends are fields of what the guest sees.
	Frontends Class = "Frontend"
	// Backends are fields of how the host provides it.
	Backends Class = "Backend"
	// LateBound are fields of what the guest sees and only the host knows.
	LateBound Class = "LateBound"
	// Outside are fields that are no part of a domain.
	Outside Class = "Outside"
	// Unsupported are fields that are refused.
	Unsupported Class = "Unsupported"
)

// A fieldRule is the class of a field. why says where an outside field acts,
// why an unsupported one is refused, or what is special about another one.
type fieldRule struct {
	class Class
	why   string
}

// Fields are the classes of all fields of an instance's spec, by their path,
// such as spec.domain.devices.disks[].serial. Types of Kubernetes' own count
// as one field.
func Fields() map[string]Class {
	out := make(map[string]Class, len(domainFields)+len(specFields))
	for _, rules := range []map[string]fieldRule{domainFields, specFields} {
		for path, rule := range rules {
			out[path] = rule.class
		}
	}
	return out
}

// A probe finds the values of one field in an instance.
type probe struct {
	path string
	why  string
	// steps are the indexes of struct fields; each is the name in the path too.
	steps []probeStep
}

type probeStep struct {
	name string
	// index of the field in its struct.
	index []int
	// list says that the field's elements go on.
	list bool
}

// refusedFields are the probes of all unsupported fields, in order of path.
var refusedFields = refusedProbes()

func refusedProbes() []probe {
	var out []probe
	for _, rules := range []map[string]fieldRule{domainFields, specFields} {
		for path, rule := range rules {
			if rule.class == Unsupported {
				out = append(out, newProbe(path, rule.why))
			}
		}
	}
	slices.SortFunc(out, func(a, b probe) int { return strings.Compare(a.path, b.path) })
	return out
}

// newProbe finds the way to a field through KubeVirt's Go types.
func newProbe(path, why string) probe {
	p := probe{path: path, why: why}
	t := reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec]()
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "spec."), ".") {
		name, list := strings.CutSuffix(segment, "[]")
		if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		f, ok := fieldNamed(t, name)
		if !ok {
			panic(fmt.Sprintf("the table of fields has %s, and %v has no %s", path, t, name))
		}
		p.steps = append(p.steps, probeStep{name: name, index: f.Index, list: list})
		t = f.Type
	}
	return p
}

// fieldNamed is the field of a struct that JSON gives a name.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// unsupported refuses every unsupported field that is set.
func unsupported(vmi *kubevirtv1.VirtualMachineInstance) field.ErrorList {
	var errs field.ErrorList
	spec := reflect.ValueOf(&vmi.Spec).Elem()
	for _, p := range refusedFields {
		errs = append(errs, p.find(spec, p.steps, field.NewPath("spec"))...)
	}
	return errs
}

func (p *probe) find(v reflect.Value, steps []probeStep, at *field.Path) field.ErrorList {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if len(steps) == 0 {
		return field.ErrorList{field.Forbidden(at, "not supported: "+p.why)}
	}
	value, err := v.FieldByIndexErr(steps[0].index)
	if err != nil { // an embedded pointer that is nil
		return nil
	}
	at = at.Child(steps[0].name)
	if value.IsZero() {
		return nil
	}
	if !steps[0].list {
		return p.find(value, steps[1:], at)
	}
	var errs field.ErrorList
	for i := range value.Len() {
		errs = append(errs, p.find(value.Index(i), steps[1:], at.Index(i))...)
	}
	return errs
}

package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// mistyped finds values in VirtualMachines that KubeVirt's types cannot hold, and the parameters
// that set them. It ignores unknown fields, which newer versions may have.
func (in input) mistyped(objects []*unstructured.Unstructured, values map[string]string) []string {
	setBy := map[location]string{}
	in.references(func(name string, at location) {
		if _, known := values[name]; known && !at.inKey {
			setBy[location{object: at.object, path: at.path}] = name
		}
	})
	var problems []string
	for i, object := range objects {
		kind := object.GroupVersionKind()
		if kind.Group != kubevirtv1.GroupVersion.Group || kind.Kind != "VirtualMachine" {
			continue
		}
		t := typeCheck{}
		t.check("", object.Object, reflect.TypeFor[kubevirtv1.VirtualMachine]())
		if len(t.found) == 0 && len(in.invalid) == 0 && !decodable(object.Object) {
			problems = append(problems, in.pathOf(i)+" cannot be read as a VirtualMachine")
		}
		for _, m := range t.found {
			name, isSet := setBy[location{object: i, path: m.path}]
			if in.containsSecret(m.path) {
				m.path = "a field with a secret in its path"
			}
			switch {
			case in.invalid[name]: // reported already
			case isSet:
				problems = append(problems, fmt.Sprintf("%s: %s is not %s (%s)", name, in.quote(name, values[name]), m.wanted, m.path))
			default:
				problems = append(problems, fmt.Sprintf("%s is not %s", m.path, m.wanted))
			}
		}
	}
	return problems
}

func decodable(content map[string]any) bool {
	encoded, err := json.Marshal(content)
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(encoded, &kubevirtv1.VirtualMachine{}) == nil
}

type mismatch struct{ path, wanted string }

// A typeCheck compares a value of JSON with a Go type, like decoding, but finds all mismatches.
type typeCheck struct{ found []mismatch }

func (t *typeCheck) add(path, wanted string) { t.found = append(t.found, mismatch{path, wanted}) }

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// hasJSONFields reports whether a type has fields with names in JSON, so that its UnmarshalJSON
// only extends decoding them.
func hasJSONFields(kind reflect.Type) bool {
	if kind.Kind() != reflect.Struct {
		return false
	}
	for field := range kind.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			return true
		}
	}
	return false
}

func (t *typeCheck) check(path string, value any, kind reflect.Type) {
	if value == nil {
		return
	}
	if reflect.PointerTo(kind).Implements(unmarshaler) && !hasJSONFields(kind) {
		if encoded, err := json.Marshal(value); err != nil || json.Unmarshal(encoded, reflect.New(kind).Interface()) != nil {
			t.add(path, "a valid "+kind.Name())
		}
		return
	}
	switch kind.Kind() {
	case reflect.Pointer:
		t.check(path, value, kind.Elem())
	case reflect.Struct, reflect.Map:
		t.object(path, value, kind)
	case reflect.Slice:
		t.list(path, value, kind)
	default:
		t.scalar(path, value, kind)
	}
}

// object checks the entries of a map, or the fields of a struct and of structs embedded in it.
func (t *typeCheck) object(path string, value any, kind reflect.Type) {
	fields, ok := value.(map[string]any)
	if !ok {
		t.add(path, "an object")
		return
	}
	if kind.Kind() == reflect.Map {
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			t.check(join(path, key), fields[key], kind.Elem())
		}
		return
	}
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			t.check(path, value, field.Type)
		case name != "" && name != "-":
			t.check(join(path, name), fields[name], field.Type)
		}
	}
}

func (t *typeCheck) list(path string, value any, kind reflect.Type) {
	if _, isString := value.(string); isString && kind.Elem().Kind() == reflect.Uint8 {
		return // bytes in base64
	}
	items, ok := value.([]any)
	if !ok {
		t.add(path, "a list")
		return
	}
	for i, item := range items {
		t.check(path+"["+strconv.Itoa(i)+"]", item, kind.Elem())
	}
}

func (t *typeCheck) scalar(path string, value any, kind reflect.Type) {
	var wanted string
	var ok bool
	switch {
	case kind.Kind() == reflect.String:
		wanted = "a string"
		_, ok = value.(string)
	case kind.Kind() == reflect.Bool:
		wanted = "true or false"
		_, ok = value.(bool)
	case kind.Kind() == reflect.Float32, kind.Kind() == reflect.Float64:
		wanted, ok = "a number", kindOf(value) == "a number"
	case reflect.New(kind).Elem().CanInt(), reflect.New(kind).Elem().CanUint():
		wanted = "an integer of type " + kind.Kind().String()
		ok = fitsInteger(kind, value)
	default:
		return
	}
	if !ok {
		t.add(path, wanted)
	}
}

func fitsInteger(kind reflect.Type, value any) bool {
	n, ok := value.(int64)
	if zero := reflect.New(kind).Elem(); zero.CanUint() {
		return ok && n >= 0 && !zero.OverflowUint(uint64(n))
	}
	return ok && !reflect.New(kind).Elem().OverflowInt(n)
}

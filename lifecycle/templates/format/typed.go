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

// mistyped finds values in VirtualMachines that KubeVirt's types cannot hold, and
// names the parameters that stand there. Fields that they do not have may be
// those of another version.
func (in input) mistyped(objects []*unstructured.Unstructured, values map[string]string) []string {
	standing := map[place]string{}
	in.references(func(name string, at place) {
		if _, known := values[name]; known && !at.key {
			standing[place{object: at.object, at: at.at}] = name
		}
	})
	var problems []string
	for i, object := range objects {
		kind := object.GroupVersionKind()
		if kind.Group != kubevirtv1.GroupVersion.Group || kind.Kind != "VirtualMachine" {
			continue
		}
		t := typing{}
		t.check("", object.Object, reflect.TypeFor[kubevirtv1.VirtualMachine]())
		if len(t.found) == 0 && len(in.wrong) == 0 && !readable(object.Object) {
			problems = append(problems, in.nameOf(i)+" cannot be read as a VirtualMachine")
		}
		for _, m := range t.found {
			name, parametrized := standing[place{object: i, at: m.at}]
			if in.containsSecret(m.at) {
				m.at = "a field with a secret in its path"
			}
			switch {
			case in.wrong[name]: // it is told already
			case parametrized:
				problems = append(problems, fmt.Sprintf("%s: %s is not %s (%s)", name, in.quote(name, values[name]), m.wanted, m.at))
			default:
				problems = append(problems, fmt.Sprintf("%s is not %s", m.at, m.wanted))
			}
		}
	}
	return problems
}

func readable(content map[string]any) bool {
	encoded, err := json.Marshal(content)
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(encoded, &kubevirtv1.VirtualMachine{}) == nil
}

// A mismatch is a value that is not of the type of its field.
type mismatch struct{ at, wanted string }

// A typing compares a value of JSON with a type of Go, as decoding would.
type typing struct{ found []mismatch }

func (t *typing) differ(at, wanted string) { t.found = append(t.found, mismatch{at, wanted}) }

var decodes = reflect.TypeFor[json.Unmarshaler]()

// named says whether a type has fields with names in JSON, so that reading
// itself does more than what reading these would.
func named(kind reflect.Type) bool {
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

func (t *typing) check(at string, value any, kind reflect.Type) {
	if value == nil {
		return
	}
	if reflect.PointerTo(kind).Implements(decodes) && !named(kind) {
		if encoded, err := json.Marshal(value); err != nil || json.Unmarshal(encoded, reflect.New(kind).Interface()) != nil {
			t.differ(at, "a valid "+kind.Name())
		}
		return
	}
	switch kind.Kind() {
	case reflect.Pointer:
		t.check(at, value, kind.Elem())
	case reflect.Struct:
		t.object(at, value, kind)
	case reflect.Map:
		t.entries(at, value, kind)
	case reflect.Slice:
		t.items(at, value, kind)
	default:
		t.scalar(at, value, kind)
	}
}

func (t *typing) object(at string, value any, kind reflect.Type) {
	fields, ok := value.(map[string]any)
	if !ok {
		t.differ(at, "an object")
		return
	}
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			t.check(at, value, field.Type)
		case name != "" && name != "-":
			t.check(join(at, name), fields[name], field.Type)
		}
	}
}

func (t *typing) entries(at string, value any, kind reflect.Type) {
	fields, ok := value.(map[string]any)
	if !ok {
		t.differ(at, "an object")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		t.check(join(at, key), fields[key], kind.Elem())
	}
}

func (t *typing) items(at string, value any, kind reflect.Type) {
	if _, isText := value.(string); isText && kind.Elem().Kind() == reflect.Uint8 {
		return // base64
	}
	items, ok := value.([]any)
	if !ok {
		t.differ(at, "a list")
		return
	}
	for i, item := range items {
		t.check(at+"["+strconv.Itoa(i)+"]", item, kind.Elem())
	}
}

func (t *typing) scalar(at string, value any, kind reflect.Type) {
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
		wanted = "an integer that " + kind.Kind().String() + " holds"
		ok = holds(kind, value)
	default:
		return
	}
	if !ok {
		t.differ(at, wanted)
	}
}

func holds(kind reflect.Type, value any) bool {
	n, ok := value.(int64)
	if zero := reflect.New(kind).Elem(); zero.CanUint() {
		return ok && n >= 0 && !zero.OverflowUint(uint64(n))
	}
	return ok && !reflect.New(kind).Elem().OverflowInt(n)
}

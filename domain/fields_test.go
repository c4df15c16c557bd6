package domain

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestEveryFieldIsClassified walks KubeVirt's Go types: a field that is not in
// the tables, and an entry of them for something that is not there, both fail.
func TestEveryFieldIsClassified(t *testing.T) {
	found := map[string]bool{}
	walkFields(reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec](), "spec", func(path string) { found[path] = true })
	classes := Fields()
	if len(found) < 200 {
		t.Fatalf("found %d fields; the walk is broken", len(found))
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if classes[path] == "" {
			t.Errorf("%s is not classified: put it into fields_domain.go or fields_spec.go", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(classes)) {
		if !found[path] {
			t.Errorf("%s is classified, and KubeVirt has no such field", path)
		}
	}
}

// walkFields tells the path of every leaf of a type. Types that are not
// KubeVirt's own, and structs without fields, are leaves.
func walkFields(t reflect.Type, path string, leaf func(string)) {
	switch {
	case t.Kind() == reflect.Pointer:
		walkFields(t.Elem(), path, leaf)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		walkFields(t.Elem(), path+"[]", leaf)
	case t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "kubevirt.io/") && t.NumField() > 0:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				walkFields(f.Type, path, leaf)
			} else {
				walkFields(f.Type, path+"."+name, leaf)
			}
		}
	default:
		leaf(path)
	}
}

// TestEveryRefusedFieldIsRefused sets each unsupported field alone and wants an
// error that names it.
func TestEveryRefusedFieldIsRefused(t *testing.T) {
	for _, p := range refusedFields {
		t.Run(p.path, func(t *testing.T) {
			vmi := (&goldenCase{}).instance()
			set(reflect.ValueOf(&vmi.Spec).Elem(), p.steps)
			settings := builtinFrontend()
			_, errs := Frontend(vmi, &settings)
			want := strings.ReplaceAll(p.path, "[]", "[0]")
			if !slices.ContainsFunc(errs.ToAggregate().Errors(), func(err error) bool {
				return strings.HasPrefix(err.Error(), want) && strings.Contains(err.Error(), p.why)
			}) {
				t.Errorf("got %v, want an error about %s", errs, want)
			}
		})
	}
}

// set gives a field a value that is not zero.
func set(v reflect.Value, steps []probeStep) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if len(steps) == 0 {
		notZero(v)
		return
	}
	value := v.FieldByIndex(steps[0].index)
	if steps[0].list {
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		value = value.Index(0)
	}
	set(value, steps[1:])
}

func notZero(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for _, field := range v.Fields() {
			notZero(field)
		}
	}
}

// TestEveryEmittedFieldHasAGoldenCase takes fields out of the golden cases, one
// by one: a field that has a part in a domain must be in a case whose outcome
// changes without it.
func TestEveryEmittedFieldHasAGoldenCase(t *testing.T) {
	matters := map[string]bool{}
	classes := Fields()
	for _, c := range goldenCases(t) {
		raw, err := json.Marshal(c.instance().Spec)
		if err != nil {
			t.Fatal(err)
		}
		before := outcome(t, c)
		for path, class := range classes {
			if matters[path] || class == Outside || class == Unsupported {
				continue
			}
			without, found := removed(t, raw, path)
			if !found {
				continue
			}
			changed := *c
			changed.Spec = without
			if outcome(t, &changed) != before {
				matters[path] = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(classes)) {
		if class := classes[path]; class != Outside && class != Unsupported && !matters[path] {
			t.Errorf("%s (%s): no case of testdata has it such that it matters", path, class)
		}
	}
}

// outcome is all that comes of a case, as text.
func outcome(t *testing.T, c *goldenCase) string {
	t.Helper()
	partial, whole, errs := c.run()
	if len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	return rendered(t, &partial.Domain) + lateText(partial.Late) + rendered(t, &whole.Domain) + decisionsText(whole.Decisions)
}

// removed is a spec without any value at a path; found says that there was
// one.
func removed(t *testing.T, raw []byte, path string) (spec kubevirtv1.VirtualMachineInstanceSpec, found bool) {
	t.Helper()
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	found = prune(tree, strings.Split(strings.TrimPrefix(path, "spec."), "."))
	if !found {
		return spec, false
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec, true
}

func prune(tree any, path []string) (found bool) {
	object, ok := tree.(map[string]any)
	if !ok {
		return false
	}
	name, list := strings.CutSuffix(path[0], "[]")
	value, there := object[name]
	switch {
	case !there:
		return false
	case len(path) == 1:
		delete(object, name)
		return true
	case !list:
		return prune(value, path[1:])
	}
	elements, _ := value.([]any)
	for _, element := range elements {
		found = prune(element, path[1:]) || found
	}
	return found
}

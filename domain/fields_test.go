package domain

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestFieldGroupsAreComplete walks KubeVirt's Go types: a field that is not in fieldGroups, one
// that is there twice, and an entry for a field that does not exist all fail.
func TestFieldGroupsAreComplete(t *testing.T) {
	found := map[string]bool{}
	walkFields(reflect.TypeFor[kubevirtv1.VirtualMachineInstanceSpec](), "spec", func(path string) { found[path] = true })
	if len(found) < 200 {
		t.Fatalf("found %d fields; the walk is broken", len(found))
	}
	groups := map[string]*fieldGroup{}
	for path, group := range fields() {
		if groups[path] != nil {
			t.Errorf("fieldGroups has %s twice", path)
		}
		if !found[path] {
			t.Errorf("fieldGroups has %s, and KubeVirt has no such field", path)
		}
		groups[path] = group
	}
	for path := range found {
		if groups[path] == nil {
			t.Errorf("fieldGroups has no %s: add it in fields_table.go", path)
		}
	}
}

// walkFields calls leaf with the path of every leaf of a type. Types that are not KubeVirt's own,
// and structs without fields, are leaves.
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

// TestUnsupportedFieldsAreRejected sets each unsupported field alone and wants an error that names
// it.
func TestUnsupportedFieldsAreRejected(t *testing.T) {
	for _, p := range unsupportedFields {
		t.Run(p.path, func(t *testing.T) {
			vmi := (&goldenCase{}).vmi()
			set(reflect.ValueOf(&vmi.Spec).Elem(), p.steps)
			settings := builtinFrontend()
			_, errs := Frontend(vmi, &settings)
			want := strings.ReplaceAll(p.path, "[]", "[0]")
			if !slices.ContainsFunc(errs.ToAggregate().Errors(), func(err error) bool {
				return strings.HasPrefix(err.Error(), want) && strings.Contains(err.Error(), p.note)
			}) {
				t.Errorf("got %v, want an error about %s", errs, want)
			}
		})
	}
}

// set sets a field to a value that is not zero.
func set(v reflect.Value, steps []fieldStep) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if len(steps) == 0 {
		notZero(v)
		return
	}
	value := v
	for _, i := range steps[0].index {
		if value.Kind() == reflect.Pointer { // an embedded one
			value.Set(reflect.New(value.Type().Elem()))
			value = value.Elem()
		}
		value = value.Field(i)
	}
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
	case reflect.Int:
		v.SetInt(1)
	case reflect.Struct:
		for _, field := range v.Fields() {
			notZero(field)
		}
	}
}

// TestEveryDomainFieldHasAGoldenCase removes fields from the golden cases, one by one: the outcome
// of at least one case must change without a field that becomes a part of the domain.
func TestEveryDomainFieldHasAGoldenCase(t *testing.T) {
	matters := map[string]bool{}
	for _, c := range goldenCases(t) {
		raw, err := json.Marshal(c.vmi().Spec)
		if err != nil {
			t.Fatal(err)
		}
		before := outcome(t, c)
		for path, group := range fields() {
			if matters[path] || group.by != inDomain && group.by != notInPod {
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
	for path, group := range fields() {
		if (group.by == inDomain || group.by == notInPod) && !matters[path] {
			t.Errorf("%s: the outcome of no case of testdata depends on it", path)
		}
	}
}

// outcome is the result of a case as text: both domains, or the errors.
func outcome(t *testing.T, c *goldenCase) string {
	t.Helper()
	guest, host, errs := c.run()
	if len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	return rendered(t, &guest.Domain) + placeholdersText(guest.Placeholders) + rendered(t, &host.Domain) + decisionsText(host.Decisions)
}

// removed returns a spec without the values at a path; found reports whether there was one.
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

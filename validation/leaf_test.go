package validation_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/validationtest"
	"github.com/virtwright/virtwright/validation"
)

var indexes = regexp.MustCompile(`\[[0-9]+\]`)

// leafProblems returns the problems of leaves that an object has on every architecture, by rule, as
// texts without list indexes.
func leafProblems(t *testing.T, f *validationtest.Fixture, object map[string]any) map[string][]string {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]bool{}
	leafPaths(object, "", at)
	var out map[string][]string
	for _, architecture := range []string{"amd64", "arm64", "s390x"} {
		decode := validation.NewVirtualMachineInstance
		if object["kind"] == "VirtualMachine" {
			decode = validation.NewVirtualMachine
		}
		m, err := decode(raw)
		if err != nil {
			return nil
		}
		config := f.Config
		config.Addon, config.Architecture = false, architecture
		found := map[string][]string{}
		for _, e := range config.Validate(m).Errors {
			text := indexes.ReplaceAllString(fmt.Sprint(e.Field, "=", e.BadValue), "[]")
			open := strings.LastIndex(e.Detail, "(")
			if open < 0 || !at[indexes.ReplaceAllString(e.Field, "[]")] {
				continue
			}
			id := strings.TrimSuffix(e.Detail[open+1:], ")")
			if !slices.Contains(found[id], text) && (out == nil || slices.Contains(out[id], text)) {
				found[id] = append(found[id], text)
			}
		}
		out = found
	}
	return out
}

// leafPaths collects the paths of leaves, without list indexes.
func leafPaths(v any, at string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			path := strings.TrimPrefix(at+"."+name, ".")
			if strings.HasSuffix(at, "labels") || strings.HasSuffix(at, "annotations") || strings.HasSuffix(at, "nodeSelector") {
				path = at + "[" + name + "]"
			}
			leafPaths(sub, path, into)
		}
	case []any:
		for _, e := range v {
			leafPaths(e, at+"[]", into)
		}
		into[at] = true
	default:
		into[at] = true
	}
}

// singleLeaves calls visit with an object for each leaf of v, which has that leaf alone, and the
// names of the elements that it lies in.
func singleLeaves(v any, wrap func(any) map[string]any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			visit(wrap(v))
		}
		for name, sub := range v {
			singleLeaves(sub, func(inner any) map[string]any {
				out := map[string]any{name: inner}
				if key, ok := v["name"]; ok {
					out["name"] = key
				}
				if name == "name" {
					out = map[string]any{"name": inner}
				}
				return wrap(out)
			}, visit)
		}
	case []any:
		scalars := true
		for _, e := range v {
			if _, ok := e.(map[string]any); ok {
				scalars = false
				singleLeaves(e, func(inner any) map[string]any { return wrap([]any{inner}) }, visit)
			}
		}
		if scalars {
			visit(wrap(v))
		}
	default:
		visit(wrap(v))
	}
}

func withoutArchitecture(object map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	if known := []any{"amd64", "arm64", "s390x"}; slices.Contains(known, spec["architecture"]) {
		delete(spec, "architecture")
	}
	if template, ok := spec["template"].(map[string]any); ok {
		withoutArchitecture(template)
	}
}

// TestLeafRules proves that the verdict of a rule marked Leaf depends on no other field: it finds
// the same problems with each leaf of a fixture alone as with all of them together.
func TestLeafRules(t *testing.T) {
	found := map[string]int{}
	for _, fixtures := range validationtest.Fixtures(t) {
		for _, f := range fixtures {
			kind := f.Object["kind"]
			f.Object["apiVersion"] = "kubevirt.io/v1"
			withoutArchitecture(f.Object)
			together, alone := leafProblems(t, &f, f.Object), map[string][]string{}
			singleLeaves(f.Object["spec"], func(spec any) map[string]any {
				return map[string]any{"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": map[string]any{"name": "web"}, "spec": spec}
			}, func(object map[string]any) {
				for id, texts := range leafProblems(t, &f, object) {
					alone[id] = append(alone[id], texts...)
				}
			})
			for _, rule := range validation.Rules() {
				a, b := slices.Sorted(slices.Values(together[rule.ID])), slices.Compact(slices.Sorted(slices.Values(alone[rule.ID])))
				if found[rule.ID] += len(a); rule.Leaf && !slices.Equal(a, b) {
					t.Errorf("rule %s on %s/%s: all leaves %q, each alone %q", rule.ID, f.Rule, f.Name, a, b)
				}
			}
		}
	}
	for _, rule := range validation.Rules() {
		if rule.Leaf && found[rule.ID] == 0 {
			t.Errorf("no fixture of rule %s has a problem with a leaf on every architecture", rule.ID)
		}
	}
}

package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// ValidatePreset reports what makes a preset harmful although it compiles: expressions that
// fail for some VMs, and values that no VM may have, whatever its architecture and its other
// fields. Compiled is the compiled p.
//
// Alongside KubeVirt, values that only this project's rules reject, or that depend on
// KubeVirt's configuration, are warnings. So is a preset that can never act.
func (c *Config) ValidatePreset(p v1alpha1.Preset, compiled *presets.Compiled) Result {
	out := Result{Errors: compiled.Unguarded()}
	spec := p.GetSpec()
	for _, part := range []struct {
		name string
		raw  *apiextensionsv1.JSON
	}{{"defaults", spec.Defaults}, {"overrides", spec.Overrides}} {
		for _, problem := range c.leafProblems(part.raw) {
			problem.err.Field = "spec." + part.name + "." + problem.err.Field
			if c.Addon && (problem.rule.Cluster || problem.reach == BeyondKubeVirt) {
				out.Warnings = append(out.Warnings, problem.err.Error())
			} else {
				out.Errors = append(out.Errors, problem.err)
			}
		}
	}
	if why := compiled.NeverActs(); why != "" {
		out.Warnings = append(out.Warnings, "the preset never acts: "+why)
	}
	return out
}

// NewPresetProblems are the problems of a changed preset that its stored form does not have.
func NewPresetProblems(problems, stored field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(problems), func(e *field.Error) bool {
		return slices.ContainsFunc(stored, func(o *field.Error) bool {
			return o.Detail == e.Detail && fmt.Sprint(o.BadValue) == fmt.Sprint(e.BadValue)
		})
	})
}

// leafProblems are the problems with single values of a partial VirtualMachine, which it has
// on every architecture.
func (c *Config) leafProblems(raw *apiextensionsv1.JSON) []problem {
	if raw == nil {
		return nil
	}
	var fields map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &fields) != nil {
		return nil // which compiling reports
	}
	leaves := map[string]bool{}
	plain, err := json.Marshal(plainLeaves(fields, nil, leaves))
	if err != nil {
		return nil
	}
	var out []problem
	for i, architecture := range architectures {
		m, err := NewVirtualMachine(plain)
		if err != nil {
			return nil
		}
		if m.Spec != nil {
			m.Spec.Architecture = ""
		}
		there := *c
		there.Addon, there.Architecture = false, architecture
		found := there.runThose(m, func(rule *Rule) bool { return rule.Leaf }).problems
		found = slices.DeleteFunc(found, func(p problem) bool { return !leaves[p.err.Field] })
		if i == 0 {
			out = found
			continue
		}
		places := map[string]bool{}
		for _, p := range found {
			places[p.place()] = true
		}
		out = slices.DeleteFunc(out, func(p problem) bool { return !places[p.place()] })
	}
	return out
}

// plainLeaves is decoded JSON without computed values. It collects the paths of its leaves,
// as messages name them.
func plainLeaves(v any, at *field.Path, leaves map[string]bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if computed, _ := v[name].(map[string]any); computed[presets.ComputedKey] != nil {
				continue
			}
			out[name] = plainLeaves(v[name], childPath(at, name), leaves)
		}
		return out
	case []any:
		leaves[at.String()] = true
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plainLeaves(e, at.Index(i), leaves)
		}
		return out
	}
	leaves[at.String()] = true
	return v
}

// childPath is the path of a field, or of a map's key that cannot be a field's name.
func childPath(at *field.Path, name string) *field.Path {
	switch {
	case at == nil:
		return field.NewPath(name)
	case isStringMap(at):
		return at.Key(name)
	}
	return at.Child(name)
}

// isStringMap reports whether at is a map of strings in a VirtualMachine.
func isStringMap(at *field.Path) bool {
	text := at.String()
	return slices.ContainsFunc([]string{".labels", ".annotations", ".nodeSelector", ".matchLabels"}, func(suffix string) bool {
		return strings.HasSuffix(text, suffix)
	})
}

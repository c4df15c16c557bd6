package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
)

// ValidatePreset reports problems of a preset that compiles: expressions that fail for some VMs,
// and values that are invalid on every architecture, independently of other fields. Compiled is the
// compiled p.
//
// Alongside KubeVirt, values that only this project's rules reject, or that depend on KubeVirt's
// configuration, are warnings. So is a preset that can never act.
//
// Steps limits the analysis of expressions, as in UnguardedExpressions. If that is too few, a
// warning says where the rest appears.
func (c *Config) ValidatePreset(p v1alpha1.Preset, compiled *presets.Compiled, steps int) Result {
	unguarded, complete := compiled.Expressions().Unguarded(steps)
	out := Result{Errors: unguarded}
	if !complete && steps != 0 && steps < condition.AllSteps {
		out.Warnings = append(out.Warnings, "the expressions of the preset are too large to be analysed while it is written: "+
			"if some VMs make them fail, the condition Deprecated of the preset will say so")
	}
	spec := p.GetSpec()
	for _, part := range []struct {
		name string
		raw  *apiextensionsv1.JSON
	}{{"defaults", spec.Defaults}, {"overrides", spec.Overrides}} {
		for _, problem := range c.leafProblems(part.raw) {
			problem.err.BadValue = valueUnlessSensitive(problem.err)
			problem.err.Field = "spec." + part.name + "." + problem.err.Field
			if c.Addon && (problem.rule.DependsOnConfig() || problem.strictness != SameAsKubeVirt) {
				out.Warnings = append(out.Warnings, problem.err.Error())
			} else {
				out.Errors = append(out.Errors, problem.err)
			}
		}
	}
	out.Warnings = append(out.Warnings, c.ineffective(compiled)...)
	return out
}

// ineffective warns of presets that never act, and of fields that KubeVirt sets back.
func (c *Config) ineffective(compiled *presets.Compiled) []string {
	var out []string
	if c.Addon && !c.NoLiveUpdate {
		for _, path := range compiled.UndoneByLiveUpdate() {
			out = append(out, "spec."+path+": "+UndoneByLiveUpdate)
		}
	}
	if why := compiled.NeverActs(); why != "" {
		out = append(out, "the preset never acts: "+why)
	}
	return out
}

// UndoneByLiveUpdate explains why a Launch preset should not set a field alongside KubeVirt.
const UndoneByLiveUpdate = "KubeVirt updates this field of running VMIs (vmRolloutStrategy: LiveUpdate, the default) " +
	"and sets it back to the VM's value: use applyAt: Definition"

// ValidateLeaves reports values of a partial VM, as JSON, that are invalid on every architecture,
// independently of other fields.
func (c *Config) ValidateLeaves(partial []byte) field.ErrorList {
	var out field.ErrorList
	for _, problem := range c.leafProblems(&apiextensionsv1.JSON{Raw: partial}) {
		out = append(out, problem.err)
	}
	return out
}

// valueUnlessSensitive returns the wrong value, unless it may be a secret, because the status of
// the preset shows it.
func valueUnlessSensitive(e *field.Error) any {
	if strings.Contains(e.Field, "cloudInit") || strings.Contains(e.Field, "serData") {
		return field.OmitValueType{}
	}
	return e.BadValue
}

// ValidatePresetUpdate is ValidatePreset for an update. It ignores the problems of the stored
// preset, unless the update enables the preset, or lets it overrule users.
func (c *Config) ValidatePresetUpdate(p v1alpha1.Preset, compiled *presets.Compiled, old v1alpha1.Preset, steps int) Result {
	out := c.ValidatePreset(p, compiled, steps)
	if len(out.Errors) == 0 {
		return out
	}
	stored, problems := presets.Compile(old)
	if len(problems) > 0 || compiled.MayOverrule() && !stored.MayOverrule() {
		return out
	}
	left := map[string]int{}
	for _, e := range c.ValidatePreset(old, stored, steps).Errors {
		left[ratchetKey(e)]++
	}
	out.Errors = slices.DeleteFunc(out.Errors, func(e *field.Error) bool {
		key := ratchetKey(e)
		left[key]--
		return left[key] >= 0
	})
	return out
}

// ratchetKey identifies a problem, independently of positions in lists.
func ratchetKey(e *field.Error) string {
	return fmt.Sprint(listIndex.ReplaceAllString(e.Field, "[]"), "\n", e.Detail, "\n", e.BadValue)
}

var listIndex = regexp.MustCompile(`\[[0-9]+\]`)

// leafProblems returns the problems of single values of a partial VM that exist on every
// architecture.
func (c *Config) leafProblems(raw *apiextensionsv1.JSON) []problem {
	if raw == nil {
		return nil
	}
	var fields map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &fields) != nil {
		return nil // presets.Compile reports it
	}
	leaves := map[string]any{}
	plain := plainLeaves(fields, nil, leaves, nil)
	out, bad := undecodable(fields, plain)
	if len(bad) > 0 {
		plain = plainLeaves(fields, nil, map[string]any{}, func(path string) bool { return !bad[path] })
	}
	out = append(out, metadataProblems(plain)...)
	return append(out, c.onEveryArchitecture(plain, leaves)...)
}

// undecodable reports leaves of a wrong type or range, such as a negative number of cores, and
// their paths.
func undecodable(fields map[string]any, plain any) ([]problem, map[string]bool) {
	if _, err := readPartial(plain); err == nil {
		return nil, nil
	}
	var out []problem
	bad := map[string]bool{}
	eachAlone(fields, nil, func(v any) any { return v }, func(path string, value, alone any) {
		if _, err := readPartial(alone); err != nil {
			detail := "is not a valid value of this field"
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				detail = "must not be " + wrong.Value
			}
			bad[path] = true
			e := field.Invalid(nil, value, detail)
			e.Field = path
			out = append(out, problem{rule: &Rule{}, err: e})
		}
	})
	return out, bad
}

// eachAlone calls visit for each plain scalar of decoded JSON, with a partial VM that has only this
// scalar. Around returns the partial VM with a value at v's place.
func eachAlone(v any, at *field.Path, around func(any) any, visit func(path string, value, alone any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if computed, _ := v[name].(map[string]any); computed[presets.ComputedKey] == nil {
				eachAlone(v[name], fieldPath(at, name), func(inner any) any { return around(map[string]any{name: inner}) }, visit)
			}
		}
	case []any:
		for i, e := range v {
			eachAlone(e, at.Index(i), func(inner any) any { return around([]any{inner}) }, visit)
		}
	default:
		visit(at.String(), v, around(v))
	}
}

func readPartial(plain any) (*ExpandedVM, error) {
	raw, err := json.Marshal(plain)
	if err != nil {
		return nil, err
	}
	return NewVirtualMachine(raw)
}

// metadataProblems reports labels and annotations that API servers reject.
func metadataProblems(plain any) []problem {
	vm, err := readPartial(plain)
	if err != nil {
		return nil
	}
	at := field.NewPath("metadata")
	errs := metav1validation.ValidateLabels(vm.VM.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(vm.VM.Annotations, at.Child("annotations"))...)
	if vm.Meta != nil {
		at = vm.Path("metadata")
		errs = append(errs, metav1validation.ValidateLabels(vm.Meta.Labels, at.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(vm.Meta.Annotations, at.Child("annotations"))...)
	}
	return withoutRule(errs)
}

// onEveryArchitecture returns the problems that Leaf rules find on every architecture.
func (c *Config) onEveryArchitecture(plain any, leaves map[string]any) []problem {
	var out []problem
	for i, architecture := range architectures {
		vm, err := readPartial(plain)
		if err != nil {
			return nil
		}
		if vm.Spec != nil && slices.Contains(architectures, vm.Spec.Architecture) {
			vm.Spec.Architecture = ""
		}
		there := *c
		there.Addon, there.Architecture = false, architecture
		found := there.runSelected(vm, func(rule *Rule) bool { return rule.Leaf }).problems
		found = slices.DeleteFunc(found, func(p problem) bool {
			value, isLeaf := leaves[p.err.Field]
			return !isLeaf || value == presets.EveryElement && elementName.MatchString(p.err.Field)
		})
		if i == 0 {
			out = found
			continue
		}
		out = common(out, found)
	}
	return out
}

// elementName matches the names of list elements. The name * stands for every element.
var elementName = regexp.MustCompile(`\[[0-9]+\](\.metadata)?\.name$`)

// Introduced returns the problems on every architecture that now has, and before has not: those
// that presets introduce when they expand before to now. Alongside KubeVirt, warns are warnings.
func (c *Config) Introduced(now, before *ExpandedVM) (errs, warns field.ErrorList) {
	there := *c
	var out []problem
	for i, architecture := range architectures {
		there.Architecture = architecture
		found := newProblems(there.run(now).problems, now, there.run(before).problems, before)
		if i == 0 {
			out = found
		} else {
			out = common(out, found)
		}
	}
	for _, p := range out {
		if p.warnsOnly(c, now) {
			warns = append(warns, p.err)
		} else {
			errs = append(errs, p.err)
		}
	}
	return errs, warns
}

// common returns the problems that are in both.
func common(problems, others []problem) []problem {
	keys := map[string]bool{}
	for _, p := range others {
		keys[p.key()] = true
	}
	return slices.DeleteFunc(problems, func(p problem) bool { return !keys[p.key()] })
}

// plainLeaves returns decoded JSON without computed values, and with the leaves for which keep
// returns true; a nil keep keeps all. It collects leaves by path.
func plainLeaves(v any, at *field.Path, leaves map[string]any, keep func(path string) bool) any {
	switch v := v.(type) {
	case map[string]any:
		if isStringMap(at) {
			leaves[at.String()] = v
		}
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if computed, _ := v[name].(map[string]any); computed[presets.ComputedKey] != nil {
				continue
			}
			below := fieldPath(at, name)
			if sub := plainLeaves(v[name], below, leaves, keep); sub != nil {
				out[name] = sub
			}
		}
		return out
	case []any:
		return plainElements(v, at, leaves, keep)
	}
	leaves[at.String()] = v
	if keep != nil && !keep(at.String()) {
		return nil
	}
	return v
}

func plainElements(list []any, at *field.Path, leaves map[string]any, keep func(path string) bool) []any {
	leaves[at.String()] = list
	out := make([]any, 0, len(list))
	for i, e := range list {
		if sub := plainLeaves(e, at.Index(i), leaves, keep); sub != nil {
			out = append(out, sub)
		}
	}
	return out
}

// fieldPath returns the path of a field, or of a key of a map of strings.
func fieldPath(at *field.Path, name string) *field.Path {
	switch {
	case at == nil:
		return field.NewPath(name)
	case isStringMap(at):
		return at.Key(name)
	}
	return at.Child(name)
}

// isStringMap reports whether at is a map of strings in a VM.
func isStringMap(at *field.Path) bool {
	if at == nil {
		return false
	}
	text := at.String()
	return slices.ContainsFunc([]string{".labels", ".annotations", ".nodeSelector", ".matchLabels"}, func(suffix string) bool {
		return strings.HasSuffix(text, suffix)
	})
}

package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A Mismatch is a field that differs from the expectation of a test.
type Mismatch struct {
	// Path from the root of the VirtualMachine, also for a VMI.
	Path provenance.Path
	// Expected and Actual are values; nil for an absent field.
	Expected, Actual any
}

// CheckExpected validates an object that a test expects. It reports another kind, unknown fields,
// wrong types, and elements of keyed lists without their key.
func CheckExpected(kind presets.Kind, object map[string]any) field.ErrorList {
	if given := object["kind"]; given != nil && given != string(kind) {
		return field.ErrorList{field.NotSupported(field.NewPath("kind"), given, []presets.Kind{kind})}
	}
	if record(object) != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationProvenance), "the record of origins is not compared")}
	}
	shape := presets.CheckSchema(kind, object)
	if problems := slices.Concat(shape.Unknown, shape.Mistyped); len(problems) > 0 {
		return problems
	}
	leaves, err := presets.Leaves(kind, object)
	if err != nil {
		return field.ErrorList{field.Invalid(nil, string(kind), err.Error())}
	}
	var problems field.ErrorList
	for _, l := range leaves {
		for i, seg := range l.Path {
			if seg.Kind == provenance.Element && seg.Name == "" {
				problems = append(problems, field.Required(field.NewPath(l.Path[:i].String()), "each element needs the field that identifies it"))
			}
		}
	}
	return problems
}

// Mismatches compares the expected part of an object. Null and the empty list expect that the field
// is absent or empty; {} expects an object. Elements of keyed lists are found by key. Quantities
// are compared by value.
func Mismatches(kind presets.Kind, expected, actual map[string]any) []Mismatch {
	leaves, err := presets.Leaves(kind, expected)
	if err != nil {
		return nil // unreachable: CheckExpected reports it
	}
	var out []Mismatch
	missing := map[string]bool{}
	for _, l := range leaves {
		is := presets.ValueAt(kind, actual, l.Path)
		if meets(l, is) {
			continue
		}
		m := Mismatch{l.Path, l.Value, is}
		if element := missingElement(kind, actual, l.Path); element != nil {
			if missing[element.String()] {
				continue
			}
			missing[element.String()] = true
			m = Mismatch{element, presets.ValueAt(kind, expected, element), nil}
		}
		out = append(out, m)
	}
	return out
}

// missingElement returns the outermost list element that the object lacks; nil for none.
func missingElement(kind presets.Kind, actual map[string]any, path provenance.Path) provenance.Path {
	for i, seg := range path {
		if seg.Kind == provenance.Element && presets.ValueAt(kind, actual, path[:i+1]) == nil {
			return path[:i+1]
		}
	}
	return nil
}

func meets(l presets.Leaf, is any) bool {
	switch was := l.Value.(type) {
	case nil:
		return is == nil
	case []any:
		if len(was) == 0 {
			list, isList := is.([]any)
			return is == nil || isList && len(list) == 0
		}
	case map[string]any:
		_, isObject := is.(map[string]any)
		return isObject
	}
	return vmschema.SameValue(l.Path, l.Value, is)
}

// MismatchesExactly ignores the order of keyed lists, empty lists, and the record of origins.
func MismatchesExactly(kind presets.Kind, expected, actual map[string]any) []Mismatch {
	was, is := leavesByPath(kind, expected), leavesByPath(kind, actual)
	all := map[string]presets.Leaf{}
	maps.Copy(all, is)
	maps.Copy(all, was)
	var out []Mismatch
	for _, path := range slices.Sorted(maps.Keys(all)) {
		m := Mismatch{all[path].Path, was[path].Value, is[path].Value}
		if !vmschema.SameValue(m.Path, m.Expected, m.Actual) {
			out = append(out, m)
		}
	}
	return out
}

func leavesByPath(kind presets.Kind, object map[string]any) map[string]presets.Leaf {
	leaves, err := presets.Leaves(kind, object)
	if err != nil {
		return nil // unreachable: both were checked
	}
	out := make(map[string]presets.Leaf, len(leaves))
	for _, l := range leaves {
		if list, isList := l.Value.([]any); l.Value != nil && (!isList || len(list) > 0) {
			out[l.Path.String()] = l
		}
	}
	return out
}

func record(object map[string]any) any {
	return under(object, "metadata", "annotations")[v1alpha1.AnnotationProvenance]
}

// WithoutRecord removes the record of origins, which changes with every edit of a preset.
func WithoutRecord(object map[string]any) map[string]any {
	if record(object) == nil {
		return object
	}
	meta, annotations := maps.Clone(under(object, "metadata")), maps.Clone(under(object, "metadata", "annotations"))
	object = maps.Clone(object)
	delete(annotations, v1alpha1.AnnotationProvenance)
	if meta["annotations"] = annotations; len(annotations) == 0 {
		delete(meta, "annotations")
	}
	object["metadata"] = meta
	return object
}

// A Coverage records which parts of presets test cases cover. Its zero value is empty.
type Coverage struct {
	// covered has several presets with one name if they differ.
	covered map[presets.PresetName][]*coveredPreset
}

type coveredPreset struct {
	preset  *presets.Compiled
	matched bool
	parts   []bool
	// results records for each condition whether it was false and whether it was true.
	results [][2]bool
}

// Add records the effects of presets on one request; different presets count separately.
func (c *Coverage) Add(traces []presets.Trace) {
	for _, t := range traces {
		c.of(t.Preset).add(t)
	}
}

func (c *Coverage) of(preset *presets.Compiled) *coveredPreset {
	name := preset.Name()
	for _, p := range c.covered[name] {
		if !p.preset.Differs(preset) {
			return p
		}
	}
	if c.covered == nil {
		c.covered = map[presets.PresetName][]*coveredPreset{}
	}
	p := &coveredPreset{preset: preset, parts: make([]bool, len(preset.Actions())), results: make([][2]bool, len(preset.Conditions()))}
	c.covered[name] = append(c.covered[name], p)
	return p
}

func (p *coveredPreset) add(t presets.Trace) {
	p.matched = p.matched || t.Matched
	for _, i := range t.Applied {
		p.parts[i] = true
	}
	for i, held := range t.Conditions {
		result := &p.results[i][0]
		if held {
			result = &p.results[i][1]
		}
		*result = true
	}
}

// A Ratio counts covered items.
type Ratio struct {
	Covered int `json:"covered"`
	Total   int `json:"total"`
}

func (r *Ratio) count(covered bool) {
	r.Total++
	if covered {
		r.Covered++
	}
}

// A CoverageReport summarizes what test cases cover.
type CoverageReport struct {
	// Presets are covered by a VM that they match, and Leaves by a VM that gets their value.
	// Leaves are those of defaults and overrides, and paths in remove.
	Presets Ratio `json:"presets"`
	Leaves  Ratio `json:"leaves"`
	// Results counts each condition twice, for true and false.
	Results Ratio `json:"conditionResults"`
	// Forbids are those of forbid and require, covered by a VM that violates the rule.
	Forbids Ratio `json:"forbids"`
	// Percent is the share of all presets, leaves, results and rules that is covered.
	Percent float64     `json:"percent"`
	Missing []Uncovered `json:"missing"`
}

// Full reports whether everything is covered.
func (r *CoverageReport) Full() bool { return len(r.Missing) == 0 }

// Uncovered is a part of a preset that no case covers.
type Uncovered struct {
	Namespace string `json:"namespace,omitempty"`
	Preset    string `json:"preset"`
	// Field of the preset; empty for the whole preset.
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
}

// Report summarizes the recorded coverage.
func (c *Coverage) Report() *CoverageReport {
	out := &CoverageReport{Missing: []Uncovered{}}
	for _, p := range slices.Concat(slices.Collect(maps.Values(c.covered))...) {
		out.Presets.count(p.matched)
		first := len(out.Missing)
		out.addParts(p)
		out.addResults(p)
		if !p.matched {
			out.Missing = append(out.Missing[:first], p.uncovered("", "no case has a VM that it matches"))
		}
	}
	out.Percent = out.percent()
	slices.SortStableFunc(out.Missing, func(a, b Uncovered) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Preset, b.Preset), cmp.Compare(a.Field, b.Field))
	})
	return out
}

// percent is 100 if there is nothing to cover.
func (r *CoverageReport) percent() float64 {
	var all Ratio
	for _, one := range []Ratio{r.Presets, r.Leaves, r.Results, r.Forbids} {
		all.Covered, all.Total = all.Covered+one.Covered, all.Total+one.Total
	}
	if all.Total == 0 {
		return 100
	}
	return 100 * float64(all.Covered) / float64(all.Total)
}

func (p *coveredPreset) uncovered(field, reason string) Uncovered {
	return Uncovered{p.preset.Namespace, p.preset.Ref, field, reason}
}

func (r *CoverageReport) addParts(p *coveredPreset) {
	for i, part := range p.preset.Actions() {
		ratio, reason := &r.Leaves, "no case has a VM that gets this value"
		switch part.Role {
		case provenance.Forbid, provenance.Require:
			ratio, reason = &r.Forbids, "no case has a VM that violates this rule"
		case provenance.Remove:
			reason = "no case has a VM from which this removes a value"
		}
		if ratio.count(p.parts[i]); !p.parts[i] {
			r.Missing = append(r.Missing, p.uncovered(part.Field, reason))
		}
	}
}

func (r *CoverageReport) addResults(p *coveredPreset) {
	for i, results := range p.results {
		for held, covered := range results {
			if r.Results.count(covered); !covered {
				r.Missing = append(r.Missing, p.uncovered(fmt.Sprintf("spec.match.conditions[%d]", i), fmt.Sprintf("no case makes it %t", held == 1)))
			}
		}
	}
}

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// A Contributor is an instancetype or a preference of KubeVirt.
type Contributor struct {
	// Kind is a kind of presets.Matcher.
	Kind, Namespace, Name string
	// Revision is UID and generation, the suffix of ControllerRevision names. It may be empty.
	Revision string
	// Spec is decoded JSON.
	Spec map[string]any
}

// String returns kind, namespace and name.
func (c Contributor) String() string {
	return c.Kind + " " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")
}

func (c Contributor) isPreference() bool { return strings.HasSuffix(c.Kind, "Preference") }

// A Deviation is a field of an imported object that its preset does not express.
type Deviation struct {
	// Path of the field in the object.
	Path   string `json:"path"`
	Value  any    `json:"value,omitempty"`
	Reason string `json:"reason"`
}

// Imported is an object with the preset that replaces it.
type Imported struct {
	// From is kind and name of the object.
	From string `json:"from"`
	// Preset is decoded JSON; nil if presets cannot express the object.
	Preset map[string]any `json:"preset,omitempty"`
	// Sensitive are the fields of the preset for which its author needs the verb escalate.
	Sensitive  []string    `json:"sensitive,omitempty"`
	Deviations []Deviation `json:"deviations,omitempty"`
}

// An ImportSource has the objects to import.
type ImportSource struct {
	Contributors []Contributor
	Legacy       []*kubevirtv1.VirtualMachineInstancePreset
	// LabelPrefix is the prefix of the labels by which VMs select presets. It may be empty.
	LabelPrefix string
	// Standalone is true if virtwright runs the VMs and applies each field of a legacy preset.
	// KubeVirt applies only some fields, each as a whole.
	Standalone bool
	// Others are existing presets; imported presets replace those of the same name.
	Others []*presets.Compiled
	// Exceptions from presets expire by the clock Now.
	Exceptions []*presets.Exception
	Now        func() time.Time
	// Policies are mutating policies of other engines, and their bindings.
	Policies []Policy
	// Check, if set, returns why a cluster would reject a compiled preset.
	Check func(preset map[string]any) error
}

// An Import has the results of importing objects.
type Import struct {
	Items []Imported
	// OtherPolicies counts the policies that concern no VM.
	OtherPolicies int

	source ImportSource
	// before has the legacy presets if the engine applies them; after has the imported presets.
	// Both have Others.
	before, after *presets.Snapshot
	selected      map[labelValue]bool
}

type labelValue struct{ key, value string }

// NewImport imports objects. The items are legacy presets, instancetypes and preferences, both in
// the order of the source, then topologies, then policies. The context ends the search for
// conflicts.
func NewImport(ctx context.Context, source ImportSource) *Import {
	out := &Import{source: source, selected: map[labelValue]bool{}}
	var before, after, legacy []*presets.Compiled
	for _, p := range source.Legacy {
		c, item := source.importLegacy(p)
		if c != nil {
			before = append(before, c)
		}
		out.Items = append(out.Items, item)
	}
	for _, c := range source.Contributors {
		out.Items = append(out.Items, source.contributor(c))
	}
	out.Items = append(out.Items, source.topologies()...)
	for i := range out.Items {
		if c := source.compile(&out.Items[i]); c != nil {
			if after = append(after, c); i < len(source.Legacy) {
				legacy = append(legacy, c)
			}
			out.selects(under(out.Items[i].Preset, "spec", "match", "labels"))
		}
	}
	out.conflicts(ctx, legacy)
	policies := out.importPolicies(ctx)
	if !source.Standalone {
		before = nil
	}
	out.before, out.after = source.snapshot(append(before, policies...)), source.snapshot(append(after, policies...))
	return out
}

// snapshot returns presets together with the others that they do not replace.
func (s *ImportSource) snapshot(own []*presets.Compiled) *presets.Snapshot {
	all := slices.Clone(own)
	for _, other := range s.Others {
		if !slices.ContainsFunc(own, func(c *presets.Compiled) bool { return c.Namespace == other.Namespace && c.Ref == other.Ref }) {
			all = append(all, other)
		}
	}
	return presets.NewSnapshot(all, nil).WithExceptions(s.Exceptions, s.Now)
}

// conflicts reports differing values of two legacy presets that a VMI can match together.
func (i *Import) conflicts(ctx context.Context, legacy []*presets.Compiled) {
	found, _ := Analyze(ctx, legacy, Settings{})
	for _, f := range found {
		for n, p := range i.source.Legacy {
			if f.Check == Conflicting && f.Preset == (presets.PresetName{Namespace: p.Namespace, Ref: p.Name}) {
				path := strings.Replace(f.Field, "spec.defaults.spec.template.spec.", "spec.", 1)
				i.Items[n].Deviations = append(i.Items[n].Deviations, Deviation{Path: path, Reason: fmt.Sprintf(
					"conflicts with %s: KubeVirt rejects VMIs that match both; virtwright warns, and the name decides", f.Other.Ref)})
			}
		}
	}
}

func (i *Import) selects(selector map[string]any) {
	for key, value := range under(selector, "matchLabels") {
		i.selected[labelValue{key, fmt.Sprint(value)}] = true
	}
	expressions, _ := selector["matchExpressions"].([]any)
	for _, e := range expressions {
		expression, _ := e.(map[string]any)
		values, _ := expression["values"].([]any)
		for _, value := range values {
			i.selected[labelValue{fmt.Sprint(expression["key"]), fmt.Sprint(value)}] = true
		}
	}
}

// compile compiles the preset of an item. An invalid preset becomes a deviation.
func (s *ImportSource) compile(item *Imported) *presets.Compiled {
	if item.Preset == nil {
		return nil
	}
	compiled, err := compileObject(item.Preset)
	if err == nil && s.Check != nil {
		err = s.Check(item.Preset)
	}
	if err == nil {
		item.Sensitive = compiled.Sensitive()
	} else {
		item.Preset, compiled = nil, nil
		item.Deviations = append(item.Deviations, Deviation{Path: "spec", Reason: "the preset would be invalid: " + err.Error()})
	}
	return compiled
}

func compileObject(preset map[string]any) (*presets.Compiled, error) {
	raw, err := json.Marshal(preset)
	if err != nil {
		return nil, err
	}
	var object v1alpha1.Preset = &v1alpha1.VirtualMachinePreset{}
	if preset["kind"] == v1alpha1.KindClusterVirtualMachinePreset {
		object = &v1alpha1.ClusterVirtualMachinePreset{}
	}
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, err
	}
	compiled, problems := presets.Compile(object)
	return compiled, problems.ToAggregate()
}

// presetObject returns a preset; without a namespace, a cluster preset.
func presetObject(namespace, name string, spec map[string]any) map[string]any {
	meta := map[string]any{"name": name}
	kind := v1alpha1.KindClusterVirtualMachinePreset
	if namespace != "" {
		kind, meta["namespace"] = v1alpha1.KindVirtualMachinePreset, namespace
	}
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": meta, "spec": spec}
}

func under(obj map[string]any, path ...string) map[string]any {
	for _, name := range path {
		obj, _ = obj[name].(map[string]any)
	}
	return obj
}

func visitFields(obj map[string]any, at []string, visit func(path []string, value any)) {
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		path := append(slices.Clip(at), name)
		if fields, ok := obj[name].(map[string]any); ok && len(fields) > 0 {
			visitFields(fields, path, visit)
			continue
		}
		visit(path, obj[name])
	}
}

// legacyMerged are the fields of a domain that KubeVirt takes from a VirtualMachineInstancePreset.
// Source: KubeVirt v1.9, pkg/virt-api/webhooks/mutating-webhook/mutators/preset.go.
var legacyMerged = []string{"resources.requests", "cpu", "firmware", "clock", "features", "devices.watchdog", "ioThreadsPolicy"}

const legacyExclude = "virtualmachineinstancepresets.admission.kubevirt.io/exclude"

// legacyCondition is false if the VM is annotated to exclude legacy presets.
const legacyCondition = `object.?spec.template.metadata.annotations[?"` + legacyExclude + `"].orValue("") != "true"`

func (s *ImportSource) importLegacy(p *kubevirtv1.VirtualMachineInstancePreset) (*presets.Compiled, Imported) {
	item := Imported{From: fmt.Sprintf("VirtualMachineInstancePreset %s/%s", p.Namespace, p.Name)}
	compiled, problems := presets.CompileLegacy(p)
	defaults, err := presets.LegacyDefaults(p)
	domain := under(defaults, "spec", "template", "spec", "domain")
	if !s.Standalone {
		item.Deviations = dropIgnored(domain)
	}
	if err == nil {
		err = problems.ToAggregate()
	}
	if err != nil || len(domain) == 0 {
		reason := "the preset sets no field that has an effect"
		if err != nil {
			reason = "KubeVirt cannot apply the preset: " + err.Error()
		}
		item.Deviations = append(item.Deviations, Deviation{Path: "spec", Reason: reason})
		return nil, item
	}
	match := map[string]any{"conditions": []any{map[string]any{"name": "not-excluded", "expression": legacyCondition}}}
	if labels, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Spec.Selector); err == nil && len(labels) > 0 {
		match["labels"] = labels
	}
	item.Preset = presetObject(p.Namespace, p.Name, map[string]any{
		"priority": int64(-presets.MaxPriority), "applyAt": string(v1alpha1.ApplyAtLaunch), "match": match, "defaults": defaults,
	})
	return compiled, item
}

func dropIgnored(domain map[string]any) []Deviation {
	var out []Deviation
	var ignored [][]string
	visitFields(domain, nil, func(path []string, value any) {
		name := strings.Join(path, ".")
		if !slices.ContainsFunc(legacyMerged, func(m string) bool { return isBeneath(name, m) }) {
			ignored = append(ignored, path)
			out = append(out, Deviation{"spec.domain." + pathText(path), value, "KubeVirt ignores this field"})
		}
	})
	for _, path := range ignored {
		for n := len(path); n > 0; n-- {
			holder := under(domain, path[:n-1]...)
			if fields, ok := holder[path[n-1]].(map[string]any); n == len(path) || ok && len(fields) == 0 {
				delete(holder, path[n-1])
			}
		}
	}
	return out
}

// applyLegacy applies legacy presets to a VM like KubeVirt to its VMI: the first preset with a
// field sets the whole field, if the VM does not set it. It returns why KubeVirt rejects the VMI.
func (s *ImportSource) applyLegacy(vm map[string]any, namespace string) (rejected string) {
	template := tree.Child(tree.Child(vm, "spec"), "template")
	if under(template, "metadata", "annotations")[legacyExclude] == "true" {
		return ""
	}
	set := labels.Set{}
	for key, value := range under(template, "metadata", "labels") {
		set[key] = fmt.Sprint(value)
	}
	var matching []*kubevirtv1.VirtualMachineInstancePreset
	var given []map[string]any
	for _, p := range s.Legacy {
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
		if err != nil || p.Namespace != namespace || !selector.Matches(set) {
			continue
		}
		fields := legacyFields(p)
		for i, other := range given {
			if at := conflicting(fields, other); at != "" {
				return fmt.Sprintf("VirtualMachineInstancePresets %s and %s both match but differ in spec.domain.%s", matching[i].Name, p.Name, at)
			}
		}
		matching, given = append(matching, p), append(given, fields)
	}
	domain := tree.Child(tree.Child(template, "spec"), "domain")
	for _, fields := range given {
		mergeLegacy(domain, fields)
	}
	return ""
}

// The timer is separate from the rest of the clock.
func legacyFields(p *kubevirtv1.VirtualMachineInstancePreset) map[string]any {
	defaults, err := presets.LegacyDefaults(p)
	if err != nil {
		return nil
	}
	domain := runtime.DeepCopyJSON(under(defaults, "spec", "template", "spec", "domain"))
	out := map[string]any{}
	if timer := under(domain, "clock")["timer"]; timer != nil {
		out["clock.timer"] = timer
		delete(under(domain, "clock"), "timer")
	}
	for _, at := range legacyMerged {
		if value, _, _ := unstructured.NestedFieldNoCopy(domain, strings.Split(at, ".")...); value != nil {
			out[at] = value
		}
	}
	return out
}

// conflicting returns the first differing field; requests are compared by resource.
func conflicting(a, b map[string]any) string {
	for _, at := range append(slices.Clone(legacyMerged), "clock.timer") {
		x, y := a[at], b[at]
		if requests, ok := x.(map[string]any); ok && at == "resources.requests" {
			others, _ := y.(map[string]any)
			for key, value := range requests {
				if others[key] != nil && !tree.Equal(value, others[key]) {
					return at + "." + key
				}
			}
			continue
		}
		if x != nil && y != nil && !tree.Equal(x, y) {
			return at
		}
	}
	return ""
}

func mergeLegacy(domain, fields map[string]any) {
	for _, at := range append(slices.Clone(legacyMerged), "clock.timer") {
		path := strings.Split(at, ".")
		if held, _, _ := unstructured.NestedFieldNoCopy(domain, path...); fields[at] != nil && held == nil {
			set(domain, path, runtime.DeepCopyJSONValue(fields[at]))
		}
	}
}

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A Policy is a mutating policy of another engine, or a binding of one.
type Policy struct {
	Kind schema.GroupKind
	// Namespace is ignored for kinds without namespaces.
	Namespace, Name string
	JSON            []byte
}

// policyImports are the kinds of policies. A policy without a rule for VMs has no mutations.
var policyImports = map[schema.GroupKind]func(Policy, []Policy) ([]*mutation, error){
	{Group: kyvernoGroup, Kind: "ClusterPolicy"}:                     importKyverno,
	{Group: kyvernoGroup, Kind: "Policy"}:                            importKyverno,
	{Group: "policies.kyverno.io", Kind: "MutatingPolicy"}:           importMutatingPolicy,
	{Group: "policies.kyverno.io", Kind: "NamespacedMutatingPolicy"}: importMutatingPolicy,
	{Group: "mutations.gatekeeper.sh", Kind: "Assign"}:               importGatekeeper,
	{Group: "mutations.gatekeeper.sh", Kind: "AssignMetadata"}:       importGatekeeper,
	{Group: "mutations.gatekeeper.sh", Kind: "ModifySet"}:            importGatekeeper,
	{Group: admissionGroup, Kind: "MutatingAdmissionPolicy"}:         importAdmissionPolicy,
	{Group: admissionGroup, Kind: kindMutatingBinding}:               nil, // read with its policy
}

// namespacedPolicies are the kinds of policies that concern one namespace.
var namespacedPolicies = []string{"Policy", "NamespacedMutatingPolicy"}

const (
	admissionGroup      = "admissionregistration.k8s.io"
	kindMutatingBinding = "MutatingAdmissionPolicyBinding"
	kubevirtGroup       = "kubevirt.io"
	kyvernoGroup        = "kyverno.io"
)

// ImportsPolicy reports whether policies of a kind can be imported.
func ImportsPolicy(kind schema.GroupKind) bool {
	_, known := policyImports[kind]
	return known
}

// ChangesVMs reports whether a policy has a rule that changes VMs or VMIs. An unreadable one has.
func ChangesVMs(p Policy) bool {
	read := policyImports[p.Kind]
	if read == nil {
		return false
	}
	made, err := read(p, nil)
	return err != nil || len(made) > 0
}

// String returns kind, namespace and name.
func (p Policy) String() string {
	return p.Kind.Kind + " " + strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
}

// policies imports the policies. A policy that concerns no VM has no item, and is counted.
func (i *Import) policies() []Imported {
	var out []Imported
	taken := sets.New[string]()
	for _, p := range i.source.Policies {
		read := policyImports[p.Kind]
		if read == nil {
			continue
		}
		if !slices.Contains(namespacedPolicies, p.Kind.Kind) {
			p.Namespace = ""
		}
		made, err := read(p, i.source.Policies)
		if err != nil {
			out = append(out, Imported{From: p.String(), Deviations: []Deviation{{Path: "spec", Reason: "cannot be read: " + mistyped(err).Error()}}})
		} else if len(made) == 0 {
			i.OtherPolicies++
		}
		for _, m := range made {
			m.rename(p, taken)
			out = append(out, m.imported(p))
		}
	}
	return out
}

// mistyped explains an error of decoding.
func mistyped(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must not be of type %s", wrong.Field, wrong.Value)
	}
	return err
}

// rename makes the name of a preset unique.
func (m *mutation) rename(p Policy, taken sets.Set[string]) {
	if m.kind == presets.VirtualMachineInstance {
		m.name += "-vmi"
	}
	if taken.Has(p.Namespace + "/" + m.name) {
		m.name += "-" + strings.ToLower(p.Kind.Kind)
	}
	for name, n := m.name, 2; taken.Has(p.Namespace + "/" + m.name); n++ {
		m.name = fmt.Sprintf("%s-%d", name, n)
	}
	taken.Insert(p.Namespace + "/" + m.name)
}

// importPolicies adds the items of policies and returns their presets. It reports differing values
// of two policies that a VM can match together.
func (i *Import) importPolicies(ctx context.Context) []*presets.Compiled {
	items := i.policies()
	var compiled []*presets.Compiled
	of := map[presets.PresetName]*Imported{}
	for n := range items {
		if c := i.source.compile(&items[n]); c != nil {
			compiled, of[c.Name()] = append(compiled, c), &items[n]
		}
	}
	found, _ := Analyze(ctx, compiled, Settings{})
	for _, f := range found {
		if f.Check == Conflicting {
			of[f.Preset].Deviations = append(of[f.Preset].Deviations, Deviation{Path: f.Field, Reason: fmt.Sprintf(
				"conflicts with preset %s: the name decides which value wins, until you set spec.priority", f.Other.Ref)})
		}
	}
	i.Items = append(i.Items, items...)
	return compiled
}

// A mutation is one rule of a policy for VMs or VMIs, in the terms of a preset.
type mutation struct {
	// rule of the policy; may be empty.
	rule string
	// list is that which the mutation adds, if it does nothing else.
	list string
	// lists are added to objects without them, by path.
	lists map[string]listField
	// name of the preset.
	name string
	kind presets.Kind
	// labels and namespaces select VMs.
	labels, namespaces metav1.LabelSelector
	conditions         []any
	// defaults, overrides and removed have paths of kind.
	defaults, overrides map[string]any
	removed             [][]string
	deviations          []Deviation
	// wider is true if a preset would apply to VMs that the rule excludes. Then there is none.
	wider bool
}

// A listField is a list that a rule adds to objects that lack it.
type listField struct {
	path  []string
	value any
}

func newMutation(kind presets.Kind, name string) *mutation {
	return &mutation{kind: kind, name: name, defaults: map[string]any{}, overrides: map[string]any{}}
}

// lacks reports a change that the preset does not make.
func (m *mutation) lacks(path string, value any, reason string) {
	m.deviations = append(m.deviations, Deviation{path, value, reason})
}

// restricted reports a restriction of the rule that presets cannot express.
func (m *mutation) restricted(path string, value any, reason string) {
	m.wider = true
	m.lacks(path, value, reason)
}

const inexpressible = "presets cannot express this field"

// decodeRule decodes a rule. A field that the type lacks cannot be expressed.
func (m *mutation) decodeRule(raw []byte, at string, into any) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	for _, problem := range strict {
		if path, ok := presets.UnknownFieldIn(problem); ok {
			m.restricted(at+path, nil, inexpressible)
		} else {
			m.restricted(strings.TrimSuffix(at, "."), nil, problem.Error())
		}
	}
	return err
}

// selectNames adds a requirement for the names of namespaces.
func (m *mutation) selectNames(at string, operator metav1.LabelSelectorOperator, names []string) {
	if len(names) == 0 {
		return
	}
	if operator == metav1.LabelSelectorOpIn && slices.Contains(names, "*") {
		return
	}
	for _, name := range names {
		if strings.ContainsAny(name, "*?") {
			m.restricted(at, name, "a preset selects namespaces by name or label, not by a pattern")
			return
		}
	}
	m.namespaces.MatchExpressions = append(m.namespaces.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: "kubernetes.io/metadata.name", Operator: operator, Values: names})
}

// both adds the requirements of another selector, which may be nil.
func both(selector, other *metav1.LabelSelector) {
	selector.MatchExpressions = append(selector.MatchExpressions, expressionsOf(other)...)
}

// expressionsOf returns the requirements of a selector as expressions.
func expressionsOf(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if s == nil {
		return nil
	}
	out := slices.Clone(s.MatchExpressions)
	for _, key := range sets.List(sets.KeySet(s.MatchLabels)) {
		out = append(out, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{s.MatchLabels[key]}})
	}
	return out
}

// condition adds a CEL condition. Its object is a VM, also if the kind is VMI.
func (m *mutation) condition(name, expression string) {
	m.conditions = append(m.conditions, map[string]any{"name": name, "expression": expression})
}

// imported returns the preset of a rule, or why there is none.
func (m *mutation) imported(p Policy) Imported {
	item := Imported{From: p.String(), Deviations: m.deviations}
	if m.rule != "" {
		item.From += ", rule " + m.rule
	}
	if m.kind == presets.VirtualMachineInstance {
		item.From += ", for VMIs"
	}
	spec := m.layers()
	switch {
	case len(spec) == 0 && len(item.Deviations) == 0:
		item.Deviations = []Deviation{{Path: "spec", Reason: "the rule sets no field"}}
		return item
	case m.wider, len(spec) == 0:
		return item
	}
	if match := m.match(); len(match) > 0 {
		spec["match"] = match
	}
	if m.kind == presets.VirtualMachineInstance {
		spec["applyAt"] = string(v1alpha1.ApplyAtLaunch)
	}
	item.Preset = presetObject(p.Namespace, m.name, spec)
	return item
}

func (m *mutation) match() map[string]any {
	out := map[string]any{}
	for name, selector := range map[string]metav1.LabelSelector{"labels": m.labels, "namespaces": m.namespaces} {
		if fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(brief(selector)); err == nil && len(fields) > 0 {
			out[name] = fields
		}
	}
	if len(m.conditions) > 0 {
		out["conditions"] = m.conditions
	}
	return out
}

// brief writes requirements of one value as matchLabels.
func brief(s metav1.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, r := range s.MatchExpressions {
		if _, again := out.MatchLabels[r.Key]; again || r.Operator != metav1.LabelSelectorOpIn || len(r.Values) != 1 {
			out.MatchExpressions = append(out.MatchExpressions, r)
			continue
		}
		out.MatchLabels[r.Key] = r.Values[0]
	}
	return out
}

// layers returns the parts of a preset's spec that change VMs.
func (m *mutation) layers() map[string]any {
	out := map[string]any{}
	for name, layer := range map[string]map[string]any{"defaults": m.defaults, "overrides": m.overrides} {
		if len(layer) > 0 {
			out[name] = m.ofVM(layer)
		}
	}
	var removed []any
	for _, path := range m.removed {
		removed = append(removed, pathText(slices.Concat(m.root(), path)))
	}
	if len(removed) > 0 {
		out["remove"] = removed
	}
	return out
}

// root returns the path of the kind's object in a VM.
func (m *mutation) root() []string {
	if m.kind == presets.VirtualMachineInstance {
		return []string{"spec", "template"}
	}
	return nil
}

func (m *mutation) ofVM(object map[string]any) map[string]any {
	if m.kind == presets.VirtualMachineInstance {
		return map[string]any{"spec": map[string]any{"template": object}}
	}
	return object
}

// isSet returns an expression that is true if an object has a field.
func (m *mutation) isSet(path []string) string {
	whole := slices.Concat(m.root(), path)
	steps := make([]string, 0, len(whole))
	for _, name := range whole[1:] {
		step := fmt.Sprintf("[?%q]", name)
		if identifier.MatchString(name) {
			step = "." + name
		}
		steps = append(steps, step)
	}
	return "object.?" + whole[0] + strings.Join(steps, "") + ".hasValue()"
}

// mergedLists reports the lists that an engine replaces but presets merge.
func (m *mutation) mergedLists(engine string) {
	reported := sets.New[string]()
	for _, layer := range []map[string]any{m.defaults, m.overrides} {
		leaves, err := presets.Leaves(m.kind, layer)
		if err != nil {
			return // the preset will be invalid
		}
		for _, l := range leaves {
			i := l.Path.ElementIndex()
			if i < 0 || reported.Has(l.Path[:i].String()) {
				continue
			}
			reported.Insert(l.Path[:i].String())
			m.lacks(l.Path[:i].String(), nil, engine+" replaces the whole list; the preset sets only the elements that it names")
		}
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// importedName joins names to the name of a preset.
func importedName(names ...string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(strings.Join(names, "-")), "-"), "-.")
}

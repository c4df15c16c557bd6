package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// kyvernoSpec has the fields of a policy that matter. The others configure the webhook and other
// kinds of rules.
type kyvernoSpec struct {
	Rules     []json.RawMessage `json:"rules"`
	Admission *bool             `json:"admission"`
	ApplyRule string            `json:"applyRules"`
	Webhook   struct {
		MatchConditions []kyvernoCondition `json:"matchConditions"`
	} `json:"webhookConfiguration"`
}

type kyvernoCondition struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// kyvernoRule has the fields of a rule that presets can express.
type kyvernoRule struct {
	Name    string       `json:"name"`
	Match   kyvernoMatch `json:"match"`
	Exclude kyvernoMatch `json:"exclude"`
	// Mutate is nil for a rule that only validates, for example.
	Mutate *struct {
		Patch map[string]any `json:"patchStrategicMerge"`
		// Targets are existing objects that the rule changes instead of those that match.
		Targets []map[string]any `json:"targets"`
	} `json:"mutate"`
	Conditions []kyvernoCondition `json:"celPreconditions"`
	// SkipBackgroundRequests concerns requests of Kyverno itself.
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests"`
}

type kyvernoMatch struct {
	Any []kyvernoFilter `json:"any"`
	All []kyvernoFilter `json:"all"`
	kyvernoFilter
}

type kyvernoFilter struct {
	Resources struct {
		Kinds             []string              `json:"kinds"`
		Namespaces        []string              `json:"namespaces"`
		Selector          *metav1.LabelSelector `json:"selector"`
		NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
		Operations        []string              `json:"operations"`
	} `json:"resources"`

	// at is the path of the resources in match.
	at string
}

func importKyverno(p Policy, _ []Policy) ([]*mutation, error) {
	var policy struct {
		Spec kyvernoSpec `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(p.JSON, &policy); err != nil {
		return nil, err
	}
	var out []*mutation
	for i, raw := range policy.Spec.Rules {
		for _, kind := range []presets.Kind{presets.VirtualMachine, presets.VirtualMachineInstance} {
			m := newMutation(kind, "")
			if m.kyvernoRule(raw, fmt.Sprintf("spec.rules[%d].", i)) {
				policy.Spec.restrict(m)
				out = append(out, m.divided()...)
			}
		}
	}
	for _, m := range out {
		if m.name = importedName(p.Name, m.list); len(out) > 1 {
			m.name = importedName(p.Name, m.rule, m.list)
		}
	}
	return out, nil
}

// divided returns the mutation, and one for each list that the rule adds to objects without it.
func (m *mutation) divided() (out []*mutation) {
	if len(m.layers()) > 0 || len(m.deviations) > 0 || len(m.lists) == 0 {
		out = append(out, m)
	}
	for _, path := range slices.Sorted(maps.Keys(m.lists)) {
		if m.wider {
			break
		}
		field := m.lists[path]
		one := newMutation(m.kind, "")
		one.rule, one.list, one.labels, one.namespaces = m.rule, field.path[len(field.path)-1], m.labels, m.namespaces
		one.conditions = slices.Clip(m.conditions)
		one.condition(fmt.Sprintf("no-%s-%d", strings.ToLower(one.list), len(m.conditions)), "!"+m.isSet(field.path))
		set(one.defaults, field.path, field.value)
		out = append(out, one)
	}
	return out
}

func (s *kyvernoSpec) restrict(m *mutation) {
	if s.Admission != nil && !*s.Admission {
		m.restricted("spec.admission", false, "the policy does not change objects at admission")
	}
	if s.ApplyRule == "One" && len(s.Rules) > 1 {
		m.restricted("spec.applyRules", s.ApplyRule, "presets do not depend on each other")
	}
	m.kyvernoConditions("spec.webhookConfiguration.matchConditions", s.Webhook.MatchConditions)
}

func (m *mutation) kyvernoConditions(at string, conditions []kyvernoCondition) {
	if len(conditions) > 0 && m.kind == presets.VirtualMachineInstance {
		m.restricted(at, nil, "conditions of presets read the VM, not the VMI")
		return
	}
	for _, c := range conditions {
		m.condition(c.Name, c.Expression)
	}
}

// kyvernoRule reads a rule. It reports whether the rule changes objects of the kind.
func (m *mutation) kyvernoRule(raw []byte, at string) bool {
	var rule kyvernoRule
	err := m.decodeRule(raw, at, &rule) // also decodes what follows a value of a wrong type
	m.rule = rule.Name
	filters, alternatives := rule.Match.of(m.kind)
	switch {
	case err != nil:
		m.restricted(strings.TrimSuffix(at, "."), nil, "cannot be read: "+mistyped(err).Error())
		return len(filters) > 0 || m.kind == presets.VirtualMachine && bytes.Contains(raw, []byte(m.kind))
	case rule.Mutate == nil:
		return false
	case len(rule.Mutate.Targets) > 0:
		m.restricted(at+"mutate.targets", nil, "a preset changes VMs that are written, not when another object is")
		return slices.ContainsFunc(rule.Mutate.Targets, func(t map[string]any) bool { return t["kind"] == string(m.kind) })
	case len(filters) == 0:
		return false
	}
	if len(filters) > 1 && alternatives {
		m.restricted(at+"match.any", nil, "presets have no alternatives: write a rule for each")
	}
	for _, f := range filters {
		m.include(f, at+"match."+f.at)
	}
	m.exclude(rule.Exclude, at+"exclude")
	m.kyvernoConditions(at+"celPreconditions", rule.Conditions)
	m.patch(rule.Mutate.Patch, kyvernoPlace{at: at + "mutate.patchStrategicMerge."})
	m.mergedLists("Kyverno")
	return true
}

// of returns the filters that concern a kind, and whether one of them suffices.
func (k kyvernoMatch) of(kind presets.Kind) (filters []kyvernoFilter, alternatives bool) {
	other := func(f kyvernoFilter) bool { return !f.concerns(kind) }
	k.at = "resources."
	for name, filters := range map[string][]kyvernoFilter{"any": k.Any, "all": k.All} {
		for i := range filters {
			filters[i].at = fmt.Sprintf("%s[%d].resources.", name, i)
		}
	}
	switch {
	case len(k.All) > 0:
		names := func(f kyvernoFilter) bool { return len(f.Resources.Kinds) > 0 } // others concern every kind
		if !slices.ContainsFunc(k.All, names) || slices.ContainsFunc(k.All, func(f kyvernoFilter) bool { return names(f) && other(f) }) {
			return nil, false
		}
		return k.All, false
	case len(k.Any) > 0:
		return slices.DeleteFunc(slices.Clone(k.Any), other), true
	case other(k.kyvernoFilter):
		return nil, false
	}
	return []kyvernoFilter{k.kyvernoFilter}, false
}

// concerns reports whether a filter names a kind, as Kind, version/Kind or group/version/Kind.
func (f kyvernoFilter) concerns(kind presets.Kind) bool {
	return slices.ContainsFunc(f.Resources.Kinds, func(text string) bool {
		parts := strings.Split(text, "/")
		last := len(parts) - 1
		named, _ := path.Match(parts[last], string(kind))
		group := true
		if len(parts) > 2 {
			group, _ = path.Match(parts[0], kubevirtGroup)
		}
		return named && group
	})
}

func (m *mutation) include(f kyvernoFilter, at string) {
	r := f.Resources
	if len(r.Operations) > 0 && !slices.Contains(r.Operations, "CREATE") {
		m.restricted(at+"operations", strings.Join(r.Operations, ", "), onlyUpdates)
	}
	m.selectNames(at+"namespaces", metav1.LabelSelectorOpIn, r.Namespaces)
	both(&m.labels, r.Selector)
	both(&m.namespaces, r.NamespaceSelector)
}

const onlyUpdates = "a preset acts on new VMs, too"

// exclude negates filters. One of exclude.any suffices to exclude a VM.
func (m *mutation) exclude(k kyvernoMatch, at string) {
	filters := slices.Concat(k.Any, k.All)
	if !k.isEmpty() {
		filters = append(filters, k.kyvernoFilter)
	}
	for _, f := range filters {
		if len(f.Resources.Kinds) > 0 && !f.concerns(m.kind) {
			continue
		}
		if len(k.All) > 1 || !m.excludeOne(f, at) {
			m.restricted(at, nil, "a preset can exclude only VMs that differ in one label, or namespaces by name or by one label")
		}
	}
}

func (f kyvernoFilter) isEmpty() bool {
	r := f.Resources
	return len(r.Kinds)+len(r.Namespaces)+len(r.Operations) == 0 && r.Selector == nil && r.NamespaceSelector == nil
}

// excludeOne reports false if a filter has another number of requirements than one.
func (m *mutation) excludeOne(f kyvernoFilter, at string) bool {
	r := f.Resources
	ofLabels, ofNamespaces := expressionsOf(r.Selector), expressionsOf(r.NamespaceSelector)
	switch {
	case len(ofLabels)+len(ofNamespaces)+min(len(r.Namespaces), 1) != 1, len(r.Operations) > 0:
		return false
	case len(ofLabels) > 0:
		m.labels.MatchExpressions = append(m.labels.MatchExpressions, negated(ofLabels[0]))
	case len(ofNamespaces) > 0:
		m.namespaces.MatchExpressions = append(m.namespaces.MatchExpressions, negated(ofNamespaces[0]))
	}
	m.selectNames(at, metav1.LabelSelectorOpNotIn, r.Namespaces)
	return true
}

func negated(r metav1.LabelSelectorRequirement) metav1.LabelSelectorRequirement {
	r.Operator = map[metav1.LabelSelectorOperator]metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn: metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpNotIn: metav1.LabelSelectorOpIn,
		metav1.LabelSelectorOpExists: metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpDoesNotExist: metav1.LabelSelectorOpExists,
	}[r.Operator]
	return r
}

// A kyvernoPlace is an object of a patch.
type kyvernoPlace struct {
	// at is the path of the patch in the policy; path is that of the object.
	at   string
	path []string
	// absent is true beneath the anchor that adds a field only if it is absent.
	absent bool
}

func (k kyvernoPlace) text() string { return k.at + pathText(k.path) }

var kyvernoAnchor = regexp.MustCompile(`^([+<^=X]?)\((.*)\)$`)

// patch reads an object of a strategic merge patch. Plain fields override; those with the anchor
// +() are defaults. Source: Kyverno 1.15, documentation of mutate rules.
func (m *mutation) patch(object map[string]any, in kyvernoPlace) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value, field := object[key], kyvernoPlace{in.at, append(slices.Clip(in.path), key), in.absent}
		anchor := kyvernoAnchor.FindStringSubmatch(key)
		if anchor != nil {
			field.path[len(in.path)] = anchor[2]
		}
		switch {
		case anchor != nil && anchor[1] != "+":
			m.restricted(field.text(), value, "the rule depends on this field: use a condition of the preset")
		case strings.HasPrefix(key, "$"):
			m.restricted(field.text(), value, "presets have no directives of patches")
		default:
			field.absent = in.absent || anchor != nil
			if object, _ := value.(map[string]any); field.absent && !in.absent && len(object) > 0 {
				m.lacks(field.text(), nil, "Kyverno adds this object only as a whole; the preset sets each absent field")
			}
			m.patchField(value, field)
		}
	}
}

func (m *mutation) patchField(value any, field kyvernoPlace) {
	object, isObject := value.(map[string]any)
	raw, _ := json.Marshal(value)
	text := string(raw)
	switch {
	case isObject && len(object) > 0:
		m.patch(object, field)
	case strings.Contains(text, "{{"), strings.Contains(text, "$("), strings.Contains(pathText(field.path), "{{"):
		m.lacks(field.text(), value, "the value depends on variables: use a computed value ($cel)")
	case listAnchor.MatchString(text):
		m.restricted(field.text(), nil, "the rule depends on elements of this list; write an element named \"*\"")
	case field.absent:
		m.setAbsent(value, field)
	case isEmpty(value):
		m.removed = append(m.removed, field.path)
	default:
		set(m.overrides, field.path, value)
	}
}

// setAbsent sets a field of objects that lack it. A preset would also add the elements of a list to
// other lists.
func (m *mutation) setAbsent(value any, field kyvernoPlace) {
	switch {
	case isEmpty(value):
	case !m.merges(field.path, value):
		set(m.defaults, field.path, value)
	case m.kind == presets.VirtualMachineInstance:
		m.lacks(field.text(), nil, "Kyverno adds this list only to VMIs without one, and a preset adds its elements to every list")
	default:
		if m.lists == nil {
			m.lists = map[string]listField{}
		}
		m.lists[pathText(field.path)] = listField{field.path, value}
	}
}

var listAnchor = regexp.MustCompile(`[{,]"[+<^=X]?\([^"]*\)":|"\$`)

// isEmpty reports whether a value is null or a list without elements.
func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0
}

// merges reports whether presets merge the elements of a list.
func (m *mutation) merges(path []string, value any) bool {
	object := map[string]any{}
	set(object, path, value)
	leaves, err := presets.Leaves(m.kind, object)
	return err == nil && slices.ContainsFunc(leaves, func(l presets.Leaf) bool { return l.Path.InList() })
}

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// An ObjectChange is a preset, an exception or a namespace that differs.
type ObjectChange struct {
	Namespace string `json:"namespace,omitempty"`
	// Name is the Ref of a preset.
	Name string `json:"name"`
	// Action is added, changed or deleted.
	Action string `json:"action"`
	// Loosens is true if fewer VMs may be changed or rejected.
	Loosens bool `json:"loosens,omitempty"`
	// Edits are the fields of a changed object that differ, loosening ones first.
	Edits []Edit `json:"fields,omitempty"`
	// VMs use the exception, or change in the namespace; nil for presets.
	VMs []string `json:"vms,omitempty"`
}

// An Edit is a field of an object that differs.
type Edit struct {
	Field string `json:"field"`
	// Before and After are values; nil for an absent one.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
	// Loosens is true if fewer VMs may be changed or rejected.
	Loosens bool `json:"loosens,omitempty"`
}

// Actions of an ObjectChange.
const (
	Added   = "added"
	changed = "changed"
	deleted = "deleted"
)

// compareObjects returns the objects that differ. edits returns why; nil if two objects are equal.
// The action loosening always loosens.
func compareObjects[O any](before, after map[presets.PresetName]O, loosening string, edits func(was, is O) []Edit) []*ObjectChange {
	out := []*ObjectChange{}
	add := func(key presets.PresetName, action string, found []Edit) {
		loosens := func(e Edit) bool { return e.Loosens }
		slices.SortStableFunc(found, func(a, b Edit) int { return rank(b.Loosens) - rank(a.Loosens) })
		out = append(out, &ObjectChange{key.Namespace, key.Ref, action, action == loosening || slices.ContainsFunc(found, loosens), found, nil})
	}
	for key, is := range after {
		was, existed := before[key]
		if !existed {
			add(key, Added, nil)
		} else if found := edits(was, is); found != nil {
			add(key, changed, found)
		}
	}
	for key := range before {
		if _, exists := after[key]; !exists {
			add(key, deleted, nil)
		}
	}
	slices.SortFunc(out, func(a, b *ObjectChange) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// strictness orders modes, weakest first.
var strictness = []v1alpha1.Mode{v1alpha1.ModeOff, v1alpha1.ModeAudit, v1alpha1.ModeWarn, v1alpha1.ModeEnforce}

// PresetEdits returns the differences between two versions of a preset; nil if they are equal. A
// preset loosens if it may apply to fewer VMs, or binds their authors less: by a weaker mode, a
// lower priority, or without a former override, removal or rule. A default binds no author.
func PresetEdits(was, is *presets.Compiled) []Edit {
	if !is.Differs(was) {
		return nil
	}
	out := make([]Edit, 0, 1)
	add := func(field string, before, after any, loosens bool) {
		if before != after {
			out = append(out, Edit{field, before, after, loosens})
		}
	}
	add("spec.mode", string(was.Mode), string(is.Mode), slices.Index(strictness, is.Mode) < slices.Index(strictness, was.Mode))
	add("spec.priority", was.Priority, is.Priority, is.Priority < was.Priority)
	add("spec.applyAt", string(was.ApplyAt), string(is.ApplyAt), true)
	add("spec.match.explicit", was.Explicit, is.Explicit, is.Explicit)
	vmsBefore, namespacesBefore := was.Selectors()
	vms, namespaces := is.Selectors()
	add("spec.match.labels", selectorText(vmsBefore), selectorText(vms), !implies(vmsBefore, vms))
	add("spec.match.namespaces", selectorText(namespacesBefore), selectorText(namespaces), !implies(namespacesBefore, namespaces))
	out = append(out, variableEdits(was, is)...)
	for _, text := range without(was.Conditions(), is.Conditions()) {
		add("spec.match.conditions", text, nil, false)
	}
	for _, text := range without(is.Conditions(), was.Conditions()) {
		add("spec.match.conditions", nil, text, true)
	}
	out = append(out, actionEdits(was, is)...)
	for i := range out {
		out[i].Before, out[i].After = withoutSecrets(out[i].Before, was), withoutSecrets(out[i].After, is)
	}
	return out
}

// withoutSecrets leaves out the variables of an expression if one of them belongs to a value that
// may be secret.
func withoutSecrets(v any, of *presets.Compiled) any {
	text, isText := v.(string)
	expression, uses, found := strings.Cut(text, condition.UsesOfVariables)
	if !isText || !found {
		return v
	}
	for _, a := range of.Actions() {
		if !presets.MayHoldSecret(a.Path.String()) {
			continue
		}
		for name := range of.Variables() {
			if used := "variables." + name + " is "; strings.Contains(a.Expression, used) && strings.Contains(uses, used) {
				return expression + condition.UsesOfVariables + "(hidden)"
			}
		}
	}
	return v
}

// variableEdits hides variables of values that may hold secrets.
func variableEdits(was, is *presets.Compiled) []Edit {
	out := mapEdits("spec.variables", was.Variables(), is.Variables())
	actions := slices.Concat(was.Actions(), is.Actions())
	for i, e := range out {
		for _, a := range actions {
			if strings.Contains(a.Expression, strings.TrimPrefix(e.Field, "spec.")) {
				out[i].Before, out[i].After = hidden(a.Path.String(), out[i].Before), hidden(a.Path.String(), out[i].After)
			}
		}
	}
	return out
}

func selectorText(s labels.Selector) string {
	if s == nil {
		return "(all)"
	}
	return s.String()
}

// A setting is a leaf of defaults or overrides, a removed path, or the path of a rule.
type setting struct {
	presets.Action
	field, path string
	value       any
}

func settingsOf(c *presets.Compiled) []setting {
	keys := c.ComputedKeys()
	var out []setting
	for _, a := range c.Actions() {
		s := setting{Action: a, path: printedPath(a.Path, keys), value: a.Value}
		switch a.Role {
		case provenance.Remove, provenance.Forbid, provenance.Require:
			s.field, _, _ = strings.Cut(a.Field, "[")
			s.value = s.path
		default:
			root, _, _ := strings.Cut(strings.TrimPrefix(a.Field, "spec."), ".")
			s.field = "spec." + root + "." + s.path
		}
		if a.Computed {
			s.value = map[string]any{presets.ComputedKey: a.Expression}
		}
		out = append(out, s)
	}
	return out
}

func (s setting) isSameAs(o setting) bool { return s.field == o.field && s.path == o.path }

func (s setting) edit(before, after any, loosens bool) Edit {
	return Edit{s.field, hidden(s.path, before), hidden(s.path, after), loosens}
}

func actionEdits(was, is *presets.Compiled) []Edit {
	before, after := settingsOf(was), settingsOf(is)
	var out []Edit
	added := slices.Clone(after)
	for _, s := range before {
		i := slices.IndexFunc(added, s.isSameAs)
		if i < 0 {
			out = append(out, s.edit(s.value, nil, s.wasBinding(after)))
			continue
		}
		if !vmschema.SameValue(s.Path, s.value, added[i].value) {
			out = append(out, s.edit(s.value, added[i].value, false))
		}
		if s.Message != added[i].Message {
			out = append(out, Edit{s.field + "[" + s.path + "].message", s.Message, added[i].Message, false})
		}
		added = slices.Delete(added, i, i+1)
	}
	for _, s := range added {
		out = append(out, s.edit(nil, s.value, false))
	}
	return out
}

// wasBinding reports whether removing a setting frees authors. An override of {} stays if the
// preset now overrides a field of that object, and an override of one element if it now overrides
// every element.
func (s setting) wasBinding(after []setting) bool {
	switch s.Role {
	case provenance.Forbid, provenance.Require, provenance.Remove:
		return true
	case provenance.Override:
		return !slices.ContainsFunc(after, func(o setting) bool {
			return o.Role == s.Role && (o.Path.HasPrefix(s.Path) || len(o.Path) == len(s.Path) && s.Path.HasPrefix(o.Path))
		})
	}
	return false
}

// exceptionEdits returns the differences between two versions of an exception; nil if they are
// equal.
func exceptionEdits(was, is *presets.Exception) []Edit {
	var out []Edit
	for _, ref := range without(was.Presets, is.Presets) {
		out = append(out, Edit{"spec.presets", ref, nil, false})
	}
	for _, ref := range without(is.Presets, was.Presets) {
		out = append(out, Edit{"spec.presets", nil, ref, true})
	}
	if before, after := selectorText(was.VMs()), selectorText(is.VMs()); before != after {
		out = append(out, Edit{"spec.vmSelector", before, after, !implies(is.VMs(), was.VMs())})
	}
	if !was.Until.Equal(is.Until) {
		later := is.Until.IsZero() || !was.Until.IsZero() && is.Until.After(was.Until)
		out = append(out, Edit{"spec.until", untilText(was.Until), untilText(is.Until), later})
	}
	return out
}

func untilText(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func exceptionsOf(s *presets.Snapshot) map[presets.PresetName]*presets.Exception {
	out := map[presets.PresetName]*presets.Exception{}
	for e := range s.Exceptions() {
		out[presets.PresetName{Namespace: e.Namespace, Ref: e.Name}] = e
	}
	return out
}

// CompareNamespaces adds the namespaces whose labels differ, and those whose annotations differ if
// an expression of a preset reads them. A namespace that either side lacks is not compared.
func (p *Plan) CompareNamespaces(before, after map[string]presets.Namespace) {
	was, is := map[presets.PresetName]presets.Namespace{}, map[presets.PresetName]presets.Namespace{}
	for name, n := range before {
		if other, known := after[name]; known {
			was[presets.PresetName{Ref: name}], is[presets.PresetName{Ref: name}] = n, other
		}
	}
	p.Namespaces = compareObjects(was, is, "", p.namespaceEdits)
}

// ComparePolicies adds the policies that only one side binds, by their names.
func (p *Plan) ComparePolicies(before, after []string) {
	named := func(names []string) map[presets.PresetName]string {
		out := map[presets.PresetName]string{}
		for _, name := range names {
			out[presets.PresetName{Ref: name}] = name
		}
		return out
	}
	p.Policies = compareObjects(named(before), named(after), deleted, func(string, string) []Edit { return nil })
}

func (p *Plan) namespaceEdits(was, is presets.Namespace) []Edit {
	out := mapEdits("metadata.labels", was.Labels, is.Labels)
	if slices.ContainsFunc(p.after, (*presets.Compiled).ReadsNamespace) {
		out = append(out, mapEdits("metadata.annotations", was.Annotations, is.Annotations)...)
	}
	if len(out) == 0 {
		return nil
	}
	for _, c := range p.after {
		switch {
		case c.Mode == v1alpha1.ModeOff, !c.SelectsNamespace(was):
		case !c.SelectsNamespace(is):
			out = append(out, Edit{"preset " + c.Ref, "selects the namespace", "does not select it", true})
		case c.ReadsNamespace():
			out = append(out, Edit{"preset " + c.Ref, "reads the namespace", "may not apply", true})
		}
	}
	return out
}

func mapEdits(field string, was, is map[string]string) []Edit {
	both := maps.Clone(was)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, is)
	var out []Edit
	for _, key := range slices.Sorted(maps.Keys(both)) {
		before, had := was[key]
		after, has := is[key]
		if before == after && had == has {
			continue
		}
		e := Edit{Field: provenance.Of(strings.Split(field, ".")...).Field(key).String()}
		if had {
			e.Before = before
		}
		if has {
			e.After = after
		}
		out = append(out, e)
	}
	return out
}

package fleet

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/presets/tree"
)

// minUses is how many presets use a name before another name can be a misspelling of it.
const minUses = 2

// misspelt reports label keys and values of selectors that only one preset has, and that resemble
// those of others.
func (a *analysis) misspelt() {
	for _, s := range []struct {
		field string
		of    func(*member) map[string]requirement
	}{
		{"labels", func(m *member) map[string]requirement { return m.vms }},
		{"namespaces", func(m *member) map[string]requirement { return m.namespaces }},
	} {
		users := map[string][]*member{}             // by key
		values := map[string]map[string][]*member{} // by key and value
		for _, m := range a.members {
			for key, r := range s.of(m) {
				users[key] = append(users[key], m)
				for _, value := range r.selected() {
					if values[key] == nil {
						values[key] = map[string][]*member{}
					}
					values[key][value] = append(values[key][value], m)
				}
			}
		}
		a.misspeltWellKnown(s.field, users)
		at := provenance.Of("spec", "match", s.field)
		a.misspeltIn(at, "", users)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			a.misspeltIn(at.Field("matchLabels").Field(key), key+"=", values[key])
		}
	}
}

// misspeltRules reports rules for a label, or another key, that resembles one that presets set, if
// no preset sets the first.
func (a *analysis) misspeltRules() {
	keys := map[string][]string{} // those that presets set, by the path around them
	for _, m := range a.members {
		for _, p := range m.parts {
			if p.Role.IsRule() && len(p.Path) > 1 && !gives(a.at[p.path]) && !a.ended() {
				a.misspeltRule(m, p, keys)
			}
		}
	}
}

func (a *analysis) misspeltRule(m *member, p *part, keys map[string][]string) {
	last := len(p.Path) - 1
	around := p.Path[:last]
	meant := otherLabels(p.Path)
	if p.Role != provenance.Require || !a.setsPlainly(meant) {
		set, known := keys[around.String()]
		if !known {
			set = a.keysOf(around)
			keys[around.String()] = set
		}
		near := spelling.Typos(p.Path[last].Name, slices.Values(set))
		if len(near) == 0 {
			return
		}
		meant = around.Field(near[0])
	}
	a.report(misspeltSelector, m, Finding{Field: p.Field, Message: fmt.Sprintf("no preset sets %s; did you mean %s?", p.path, meant)})
}

// setsPlainly reports whether a preset sets a path to a plain value.
func (a *analysis) setsPlainly(p provenance.Path) bool {
	return slices.ContainsFunc(a.at[p.String()], func(c claim) bool { return c.part.gives() && !c.Computed })
}

// otherLabels returns the path of a label of the VM for one of its template, and the reverse; nil
// for other paths.
func otherLabels(p provenance.Path) provenance.Path {
	own, inTemplate := provenance.Of("metadata"), provenance.Of("spec", "template", "metadata")
	switch {
	case len(p) == 3 && p.HasPrefix(own):
		return slices.Concat(inTemplate, p[1:])
	case len(p) == 5 && p.HasPrefix(inTemplate):
		return slices.Concat(own, p[3:])
	}
	return nil
}

// keysOf returns the keys of labels, annotations or a node selector that presets set.
func (a *analysis) keysOf(p provenance.Path) (out []string) {
	if !slices.Contains([]string{"labels", "annotations", "nodeSelector"}, p[len(p)-1].Name) {
		return nil
	}
	for _, c := range a.under[p.String()] {
		if c.part.gives() && len(c.Path) > len(p) {
			out = append(out, c.Path[len(p)].Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func gives(claims []claim) bool {
	return slices.ContainsFunc(claims, func(c claim) bool { return c.part.gives() })
}

// misspeltWellKnown reports keys of labels that resemble those of Kubernetes.
func (a *analysis) misspeltWellKnown(of string, users map[string][]*member) {
	for _, key := range slices.Sorted(maps.Keys(users)) {
		if near := misspelt(key); near != "" {
			for _, m := range users[key] {
				a.report(misspeltSelector, m, Finding{
					Field:   provenance.Of("spec", "match", of, "matchLabels").Field(key).String(),
					Message: fmt.Sprintf("label %s is not one that Kubernetes sets; did you mean %s?", key, near),
				})
			}
		}
	}
}

// misspeltIn reports names that one preset uses, if others use a name that it may misspell.
func (a *analysis) misspeltIn(at provenance.Path, prefix string, users map[string][]*member) {
	names := slices.Sorted(maps.Keys(users))
	common := slices.DeleteFunc(slices.Clone(names), func(o string) bool { return len(users[o]) < minUses })
	for _, name := range names {
		if len(users[name]) != 1 {
			continue
		}
		if a.ended() {
			return
		}
		m := users[name][0]
		near := spelling.Typos(name, slices.Values(common))
		near = slices.DeleteFunc(near, func(o string) bool { return slices.Contains(users[o], m) })
		if len(near) > 0 {
			a.report(misspeltSelector, m, Finding{
				Field: at.String(),
				Message: fmt.Sprintf("no other preset selects by label %s%s, but %d select by %s%s; did you mean that?",
					prefix, name, len(users[near[0]]), prefix, near[0]),
			})
		}
	}
}

// field is the place of a requirement in a selector.
func (r requirement) field() string {
	if slices.ContainsFunc([]labels.Requirement(r), func(one labels.Requirement) bool { return one.Operator() == selection.Equals }) {
		return provenance.Of("matchLabels").Field(r[0].Key()).String()
	}
	return provenance.Of("matchExpressions").Element(r[0].Key()).Field("values").String()
}

// selected are the values that a requirement selects by name.
func (r requirement) selected() []string {
	var out []string
	for _, one := range []labels.Requirement(r) {
		switch one.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			out = append(out, one.ValuesUnsorted()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// selectedPresetValues reports selectors that require a label which another preset sets, and
// conditions that require such a field.
func (a *analysis) selectedPresetValues() {
	for _, m := range a.members {
		a.notePresetLabels(m.Name(), m, provenance.Of("spec", "match", "labels", "matchLabels"), m.vms)
		for _, d := range m.demands {
			a.notePresetFields(m, d)
		}
	}
}

// parents are fields that conditions test only before they read fields beneath them.
var parents = []string{
	"metadata.labels", "metadata.annotations", "spec", "spec.template", "spec.template.metadata", "spec.template.metadata.labels",
	"spec.template.metadata.annotations", "spec.template.spec", "spec.template.spec.domain", "spec.template.spec.domain.devices",
}

// notePresetFields reports a field that a condition requires, and that another preset sets.
func (a *analysis) notePresetFields(m *member, d condition.Demand) {
	path := provenance.Of(d.Path[1:]...)
	if d.Path[0] != "object" || d.MayBeAbsent || len(d.Values) == 0 && slices.Contains(parents, path.String()) {
		return
	}
	giver := slices.IndexFunc(a.under[path.String()], func(c claim) bool {
		return m.meets(c.member) && c.part.gives() && !c.requires(path) && c.satisfies(d, path)
	})
	if giver < 0 {
		return
	}
	by := a.under[path.String()][giver]
	a.report(selectsPresetValue, m, Finding{
		Field: fmt.Sprintf("spec.match.conditions[%d].expression", d.Condition), Other: by.Name(),
		Message: fmt.Sprintf("preset %s sets %s, but fields that presets set do not select: only VMs whose author wrote the field match", by.Ref, by.path),
	})
}

// satisfies reports whether a VM with the value of a claim would meet a demand of a field.
func (c claim) satisfies(d condition.Demand, at provenance.Path) bool {
	isValue := func(v any) bool { return tree.Equal(v, c.Value) }
	return len(d.Values) == 0 || c.path == at.String() && slices.ContainsFunc(d.Values, isValue)
}

// notePresetLabels reports labels that a selector requires, and that presets other than m set.
func (a *analysis) notePresetLabels(of presets.PresetName, m *member, at provenance.Path, required map[string]requirement) {
	for _, key := range slices.Sorted(maps.Keys(required)) {
		giver := a.giverOf(m, key, required[key])
		switch {
		case giver != nil:
			a.reportOf(selectsPresetValue, of, Finding{
				Field: at.Field(key).String(), Other: giver.Name(),
				Message: fmt.Sprintf("preset %s sets label %s, but labels that presets set do not select: only VMs whose author wrote the label match", giver.Ref, key),
			})
		case key == corev1.LabelMetadataName:
			a.reportOf(misspeltSelector, of, Finding{
				Field:   at.Field(key).String(),
				Message: "namespaces have this label, and VMs do not; select namespaces by match.namespaces",
			})
		}
	}
}

// giverOf returns a preset other than m that sets a label as a selector requires it; nil for none.
func (a *analysis) giverOf(m *member, key string, required requirement) *member {
	if required.allows(labels.Set{}) {
		return nil
	}
	for _, at := range []provenance.Path{provenance.Of("metadata", "labels"), provenance.Of("spec", "template", "metadata", "labels")} {
		for _, c := range a.at[at.Field(key).String()] {
			value, isPlain := c.Value.(string)
			if isPlain && c.member != m && c.adds(key) && required.allows(labels.Set{key: value}) {
				return c.member
			}
		}
	}
	return nil
}

// adds reports whether a claim gives a label to VMs that may lack it.
func (c claim) adds(label string) bool {
	return c.part.gives() && c.acts() && c.vms[label].allows(labels.Set{})
}

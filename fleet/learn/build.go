package learn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// priorityStep is the distance of priorities, so that people can put presets in between.
const priorityStep = 100

func (f *fleet) terms(of *choice) (out []feature) {
	for _, i := range of.terms {
		out = append(out, f.features[i])
	}
	return out
}

// build makes the preset of a choice.
func (f *fleet) build(of *choice, name string) (Preset, error) {
	terms := f.terms(of)
	spec := v1alpha1.PresetSpec{Priority: int32(of.below + priorityStep*of.rank), Mode: v1alpha1.ModeAudit, Match: matchOf(terms)}
	meta := metav1.ObjectMeta{Name: name}
	defaults, err := f.defaults(of)
	if err != nil {
		return Preset{}, err
	}
	spec.Defaults = &apiextensionsv1.JSON{Raw: defaults}
	out := Preset{Object: &v1alpha1.ClusterVirtualMachinePreset{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindClusterVirtualMachinePreset}, ObjectMeta: meta, Spec: spec,
	}, Selects: described(terms), VMs: of.vms, Terms: len(terms), Fields: len(of.values)}
	if f.Namespaced {
		meta.Namespace = f.rows[0].Namespace.Name
		out.Selects = strings.TrimSuffix("namespace "+meta.Namespace+", "+out.Selects, ", ")
		out.Object = &v1alpha1.VirtualMachinePreset{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindVirtualMachinePreset}, ObjectMeta: meta, Spec: spec,
		}
	}
	return out, nil
}

// defaults returns the values of a choice as a part of a VM, in the order of the VM that has most
// of them.
func (f *fleet) defaults(of *choice) ([]byte, error) {
	values := map[string]any{}
	for path, value := range of.values {
		values[f.paths[path].String()] = f.values[value]
	}
	most, at := -1, 0
	for class := range of.extent.all {
		for _, i := range f.classes[class].rows {
			same := 0
			for path, value := range of.values {
				if is, has := f.rows[i].fields[path]; has && is == value {
					same++
				}
			}
			if same > most {
				most, at = same, i
			}
		}
	}
	object, err := presets.Part(f.rows[at].Kind, f.generalized(f.rows[at].VM), values)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s/%s: %w", f.rows[at].Namespace.Name, f.rows[at].Name, err)
	}
	return json.Marshal(computed(object))
}

func matchOf(terms []feature) (out v1alpha1.PresetMatch) {
	var labels, namespaces metav1.LabelSelector
	for _, is := range terms {
		switch is.kind {
		case label:
			metav1.AddLabelToSelector(&labels, is.key, is.value)
		case labelExists:
			labels.MatchExpressions = append(labels.MatchExpressions, metav1.LabelSelectorRequirement{Key: is.key, Operator: metav1.LabelSelectorOpExists})
		case namespaceLabel, namespace:
			metav1.AddLabelToSelector(&namespaces, is.key, is.value)
		case instancetype, preference:
			name := map[featureKind]string{instancetype: "instancetype", preference: "preference"}[is.kind]
			out.Conditions = append(out.Conditions, v1alpha1.MatchCondition{Name: name, Expression: "object.?spec." + name + ".name.orValue('') == " + quoted(is.value)})
		}
	}
	if len(labels.MatchLabels)+len(labels.MatchExpressions) > 0 {
		out.Labels = &labels
	}
	if len(namespaces.MatchLabels) > 0 {
		out.Namespaces = &namespaces
	}
	return out
}

// described says what a selector selects, as people write it.
func described(terms []feature) string {
	var out []string
	for _, is := range terms {
		switch is.kind {
		case label:
			out = append(out, is.key+"="+is.value)
		case labelExists:
			out = append(out, is.key)
		case namespaceLabel:
			out = append(out, "namespaces with "+is.key+"="+is.value)
		case namespace:
			out = append(out, "namespace "+is.value)
		case instancetype:
			out = append(out, "instancetype "+is.value)
		case preference:
			out = append(out, "preference "+is.value)
		}
	}
	return strings.Join(out, ", ")
}

// A namer gives presets names that tell what they select.
type namer struct{ taken map[string]bool }

func newNamer(taken map[string]bool) *namer {
	out := &namer{taken: map[string]bool{}}
	maps.Copy(out.taken, taken)
	return out
}

// mostName is the longest part of the name of a preset.
const mostName = 30

func short(text string) string { return text[:min(len(text), mostName)] }

func (n *namer) name(terms []feature) string {
	var parts []string
	for _, is := range terms {
		if is.key != "" && is.kind != namespace {
			parts = append(parts, short(is.key[strings.LastIndexByte(is.key, '/')+1:]))
		}
		if is.value != "" {
			parts = append(parts, short(is.value))
		}
	}
	return n.unique(cmp.Or(strings.Trim(strings.Map(plain, strings.Join(parts, "-")), "-"), "every-vm"))
}

// unique returns a name that is not taken, and takes it.
func (n *namer) unique(name string) string {
	out := name
	for i := 2; n.taken[out]; i++ {
		out = name + "-" + strconv.Itoa(i)
	}
	n.taken[out] = true
	return out
}

// plain returns a character that a name may have.
func plain(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		return r
	case r >= 'A' && r <= 'Z':
		return r - 'A' + 'a'
	}
	return '-'
}

// given returns the values that choices give a VM, as texts, by path.
func (f *fleet) given(chosen []*choice, r row) map[string]string {
	out, ranks := map[string]string{}, map[string]int{}
	for _, is := range chosen {
		if slices.ContainsFunc(is.terms, func(i int) bool { return !slices.Contains(r.features, f.features[i]) }) {
			continue
		}
		for path, value := range is.values {
			text := f.paths[path].String()
			if rank, before := ranks[text]; !before || rank < is.rank {
				out[text], ranks[text] = f.texts[value], is.rank
			}
		}
	}
	return out
}

// oneOf is how few VMs are unusual: one of that many.
const oneOf = 20

// unusual returns fields that few VMs have with another value than the one that a preset gives.
func (f *fleet) unusual(chosen []*choice, made []Preset) (out []Unusual) {
	type value struct{ by, path int }
	vms, others := map[value]int{}, map[value][]int{}
	for class, c := range f.classes {
		for path, by := range givers(chosen, class) {
			at := value{by, path}
			vms[at] += len(c.rows)
			for _, i := range c.rows {
				is, given := f.rows[i].fields[path], chosen[by].values[path]
				if is != given && !vmschema.SameValue(f.paths[path], f.values[is], f.values[given]) {
					others[at] = append(others[at], i)
				}
			}
		}
	}
	for at, rows := range others {
		if len(rows)*oneOf > vms[at] {
			continue
		}
		for _, i := range rows {
			r := f.rows[i]
			out = append(out, Unusual{r.Namespace.Name, r.Name, f.paths[at.path], presets.RefOf(made[at.by].Object), vms[at], vms[at] - len(rows)})
		}
	}
	slices.SortFunc(out, func(a, b Unusual) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Path.String(), b.Path.String()))
	})
	return out
}

// givers are the choices that give a field to the VMs of a class, by path.
func givers(chosen []*choice, class int) map[int]int {
	out := map[int]int{}
	for i, is := range chosen {
		if !is.extent.has(class) {
			continue
		}
		for path := range is.values {
			if before, given := out[path]; !given || chosen[before].rank < is.rank {
				out[path] = i
			}
		}
	}
	return out
}

// count sets what each preset saves.
func (f *fleet) count(chosen []*choice, made []Preset) {
	for class, c := range f.classes {
		for path, by := range givers(chosen, class) {
			made[by].Saved += numberOf(c.counts[path], chosen[by].values[path])
		}
	}
}

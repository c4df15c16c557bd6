// Package presettest builds presets and VMs for tests and benchmarks. Only tests import it.
package presettest

import (
	"encoding/json"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Cluster returns a cluster preset with the given spec, in YAML.
func Cluster(name, spec string) v1alpha1.Preset {
	p := &v1alpha1.ClusterVirtualMachinePreset{}
	p.Name, p.Generation = name, 1
	mustParse(spec, &p.Spec)
	return p
}

// Namespaced returns a preset of a namespace with the given spec, in YAML.
func Namespaced(namespace, name, spec string) v1alpha1.Preset {
	p := &v1alpha1.VirtualMachinePreset{}
	p.Namespace, p.Name, p.Generation = namespace, name, 1
	mustParse(spec, &p.Spec)
	return p
}

func mustParse(text string, into any) {
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		panic(fmt.Sprintf("cannot parse %s: %v", text, err))
	}
}

// JSON turns YAML into the JSON that a request carries.
func JSON(text string) []byte {
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("cannot parse %s: %v", text, err))
	}
	return out
}

// Compile compiles valid presets.
func Compile(t testing.TB, in ...v1alpha1.Preset) []*presets.Compiled {
	t.Helper()
	out := make([]*presets.Compiled, 0, len(in))
	for _, p := range in {
		c, errs := presets.Compile(p)
		if len(errs) > 0 {
			t.Fatalf("preset %s: %v", p.GetName(), errs.ToAggregate())
		}
		out = append(out, c)
	}
	return out
}

// Snapshot returns a snapshot of valid presets.
func Snapshot(t testing.TB, in ...v1alpha1.Preset) *presets.Snapshot {
	t.Helper()
	return presets.NewSnapshot(Compile(t, in...), nil)
}

// A Crowd is a number of presets that do not match.
type Crowd struct {
	Labels, Namespaces, Unindexed int
}

// String says how many of each there are, for names of benchmarks.
func (c Crowd) String() string {
	return fmt.Sprintf("labels:%d,namespaces:%d,unindexed:%d", c.Labels, c.Namespaces, c.Unindexed)
}

// Presets returns the crowd. None of them matches RealisticVM.
func (c Crowd) Presets() []v1alpha1.Preset {
	var out []v1alpha1.Preset
	defaults := &apiextensionsv1.JSON{Raw: []byte(`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":9}}}}}}`)}
	add := func(kind string, i int, match v1alpha1.PresetMatch) {
		p := &v1alpha1.ClusterVirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", kind, i), Generation: 1}}
		p.Spec = v1alpha1.PresetSpec{Match: match, Defaults: defaults}
		out = append(out, p)
	}
	for i := range c.Labels {
		add("label", i, v1alpha1.PresetMatch{Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("other-%d", i)}}})
	}
	for i := range c.Namespaces {
		add("namespace", i, v1alpha1.PresetMatch{Namespaces: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": fmt.Sprintf("team-%d", i)}}})
	}
	for i := range c.Unindexed {
		match := v1alpha1.PresetMatch{Conditions: []v1alpha1.MatchCondition{{
			Name: "other", Expression: fmt.Sprintf("object.metadata.name == 'other-%d'", i)}}}
		if i%2 == 0 {
			match = v1alpha1.PresetMatch{Labels: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop", fmt.Sprintf("x-%d", i)}}}}}
		}
		add("unindexed", i, match)
	}
	return out
}

// Object decodes JSON that must be an object.
func Object(raw []byte) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}

// At returns the value at a path of a VM in decoded JSON; nil if there is none. List elements are
// found by their name.
func At(v any, path string) any {
	p, err := provenance.ParsePath(path)
	if err != nil {
		panic(err)
	}
	for _, seg := range p {
		switch at := v.(type) {
		case map[string]any:
			v = at[seg.Name]
		case []any:
			v = named(at, seg.Name)
		default:
			return nil
		}
	}
	return v
}

func named(list []any, name string) any {
	for _, e := range list {
		if fields, ok := e.(map[string]any); ok && fields["name"] == name {
			return e
		}
	}
	return nil
}

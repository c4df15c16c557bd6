package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// A Witness is an object that shows a finding in a cluster with only the presets of the finding.
type Witness struct {
	Kind      presets.Kind
	Namespace presets.Namespace
	// Object is the VM or VMI, as decoded JSON.
	Object map[string]any
}

// WitnessName is the name of each Witness.
const WitnessName = "witness"

type trial struct {
	*Witness
	snapshot  *presets.Snapshot
	result    *presets.Result
	rejection *presets.Rejection
}

func (t *trial) matched(all ...*member) bool {
	return t.result != nil && !slices.ContainsFunc(all, func(m *member) bool { return !slices.Contains(t.result.Matched, m.Compiled) })
}

func (w *Witness) request() (presets.Request, bool) {
	raw, err := json.Marshal(w.Object)
	return presets.Request{Kind: w.Kind, Object: raw, Namespace: w.Namespace}, err == nil
}

func (a *analysis) resolve(w *Witness, with *presets.Snapshot) *trial {
	return a.resolveBy(&presets.Engine{}, w, with)
}

func (a *analysis) resolveBy(engine *presets.Engine, w *Witness, with *presets.Snapshot) *trial {
	t := &trial{Witness: w, snapshot: with}
	if request, ok := w.request(); ok {
		var err error
		t.result, err = engine.Resolve(a.ctx, with, request)
		t.rejection, _ = err.(*presets.Rejection) //nolint:errorlint // Resolve returns it as it is
	}
	return t
}

// skipped returns what presets did not set, and why.
func (t *trial) skipped(ctx context.Context) []presets.Skipped {
	var engine presets.Engine
	request, ok := t.request()
	if !ok {
		return nil
	}
	x, err := engine.Explain(ctx, t.snapshot, request)
	if err != nil {
		return nil
	}
	return x.Skipped
}

// heldBack returns the fields that an instancetype prevents a preset from setting.
func (t *trial) heldBack(ctx context.Context, ref string) []string {
	var out []string
	for _, s := range t.skipped(ctx) {
		if s.Preset == ref && s.ByInstancetype {
			out = append(out, s.Paths...)
		}
	}
	return out
}

// smallest returns the smallest object that all selectors match; nil for none.
func (a *analysis) smallest(all []*member) *Witness {
	var vms, namespaces []labels.Selector
	var named []string
	w := &Witness{Kind: presets.VirtualMachine}
	exists, _ := labels.NewRequirement(corev1.LabelMetadataName, selection.Exists, nil)
	namespaces = append(namespaces, labels.NewSelector().Add(*exists))
	for _, m := range all {
		vm, namespace := m.Selectors()
		vms, namespaces = append(vms, vm), append(namespaces, namespace)
		if m.Namespace != "" {
			w.Namespace.Name = m.Namespace
		}
		if m.Explicit {
			named = append(named, m.Ref)
		}
		if m.ApplyAt == v1alpha1.ApplyAtLaunch {
			w.Kind = presets.VirtualMachineInstance
		}
	}
	vmLabels, possible := satisfy(vms...)
	if !possible || !a.place(w, namespaces) {
		return nil
	}
	w.Object = newObject(w.Kind, w.Namespace.Name, vmLabels)
	if len(named) > 0 {
		set(w.Object, []string{"metadata", "annotations", v1alpha1.AnnotationPresets}, strings.Join(named, ", "))
	}
	return w
}

// place reports whether there is a known or possible namespace that all selectors match.
func (a *analysis) place(w *Witness, selectors []labels.Selector) bool {
	for _, known := range a.Namespaces {
		set := labels.Set(maps.Clone(known.Labels))
		if set == nil {
			set = labels.Set{}
		}
		set[corev1.LabelMetadataName] = known.Name
		selected := !slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s != nil && !s.Matches(set) })
		if selected && (w.Namespace.Name == "" || w.Namespace.Name == known.Name) {
			w.Namespace = presets.Namespace{Name: known.Name, Labels: set, Annotations: known.Annotations}
			return true
		}
		if w.Namespace.Name == known.Name {
			return false
		}
	}
	if w.Namespace.Name != "" {
		selectors = append(selectors, inNamespace(w.Namespace.Name))
	}
	set, possible := satisfy(selectors...)
	w.Namespace = presets.Namespace{Name: set[corev1.LabelMetadataName], Labels: set}
	return possible
}

func newObject(kind presets.Kind, namespace string, withLabels map[string]string) map[string]any {
	out := map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": string(kind),
		"metadata": map[string]any{"name": WitnessName, "namespace": namespace},
	}
	for key, value := range withLabels {
		set(out, []string{"metadata", "labels", key}, value)
	}
	set(out, append(specPath(kind), "domain", "devices"), map[string]any{})
	return out
}

func specPath(kind presets.Kind) []string {
	if kind == presets.VirtualMachineInstance {
		return []string{"spec"}
	}
	return []string{"spec", "template", "spec"}
}

func set(object map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		object = tree.Child(object, name)
	}
	object[path[len(path)-1]] = value
}

type change func(*Witness)

func (w *Witness) with(facts []condition.Candidate, changes []change) *Witness {
	out := &Witness{Kind: w.Kind, Namespace: w.Namespace, Object: tree.AsObject(tree.Clone(w.Object))}
	out.Namespace.Labels, out.Namespace.Annotations = maps.Clone(w.Namespace.Labels), maps.Clone(w.Namespace.Annotations)
	for _, fact := range facts {
		out.assume(fact)
	}
	for _, c := range changes {
		c(out)
	}
	return out
}

// assume sets a value that a condition requires, in the witness or its namespace.
func (w *Witness) assume(fact condition.Candidate) {
	path := fact.Path[1:]
	if list, isList := fact.Value.([]any); isList && len(list) == 0 {
		if name := linkedList(path[len(path)-1]); name != "" {
			w.addElement(name, "any")
		}
		return
	}
	switch isInstance := w.Kind == presets.VirtualMachineInstance; {
	case fact.Path[0] == "namespaceObject":
		w.assumeNamespace(path, fact.Value)
	case !isInstance:
		set(w.Object, path, fact.Value)
	case len(path) > 2 && path[0] == "spec" && path[1] == "template":
		set(w.Object, path[2:], fact.Value)
	}
}

func (w *Witness) assumeNamespace(path []string, value any) {
	text, ok := value.(string)
	if !ok || len(path) != 3 || path[0] != "metadata" {
		return
	}
	switch path[1] {
	case "labels":
		w.Namespace.Labels[path[2]] = text
	case "annotations":
		if w.Namespace.Annotations == nil {
			w.Namespace.Annotations = map[string]string{}
		}
		w.Namespace.Annotations[path[2]] = text
	}
}

// linkedElement returns the first element of a path that requires another one elsewhere. It returns
// some element for one that stands for every element.
func linkedElement(path provenance.Path) (list, name string) {
	i := slices.IndexFunc(path, func(s provenance.Segment) bool { return s.Kind != provenance.Field })
	if i < 4 {
		return "", ""
	}
	switch list = linkedList(path[i-1].Name); {
	case list == "":
	case path[i].Kind == provenance.Element:
		return list, path[i].Name
	default:
		return list, "any"
	}
	return "", ""
}

// linkedList returns the list of devices that corresponds to a list of the VMI spec.
func linkedList(name string) string {
	switch name {
	case "disks", "filesystems", "volumes":
		return "disks"
	case "interfaces", "networks":
		return "interfaces"
	}
	return ""
}

func (w *Witness) addElement(list, name string) {
	partner := map[string]any{"name": name, "pod": map[string]any{}}
	partners := "networks"
	if list == "disks" {
		partner = map[string]any{"name": name, "emptyDisk": map[string]any{"capacity": "1Gi"}}
		partners = "volumes"
	}
	spec := specPath(w.Kind)
	w.append(append(slices.Clone(spec), "domain", "devices", list), map[string]any{"name": name})
	w.append(append(slices.Clone(spec), partners), partner)
}

func (w *Witness) append(path []string, element any) {
	last := len(path) - 1
	list, _ := under(w.Object, path[:last]...)[path[last]].([]any)
	set(w.Object, path, append(list, element))
}

type requirement []labels.Requirement

// requirements groups the requirements of selectors by label key. A nil selector has none.
func requirements(selectors ...labels.Selector) map[string]requirement {
	out := map[string]requirement{}
	for _, s := range selectors {
		if s == nil {
			continue
		}
		all, _ := s.Requirements()
		for _, r := range all {
			out[r.Key()] = append(out[r.Key()], r)
		}
	}
	return out
}

func compatible(x, y map[string]requirement) bool {
	for key, r := range x {
		other := y[key]
		if len(other) == 0 {
			continue
		}
		one, isOne := r.only()
		another, isAlsoOne := other.only()
		switch {
		case isOne && isAlsoOne && one != another:
			return false
		case isOne && isAlsoOne:
		case len(choices(append(slices.Clip(r), other...), append(slices.Clip(r), other...))) == 0:
			return false
		}
	}
	return true
}

// only returns the value if a requirement allows exactly one by equality.
func (r requirement) only() (string, bool) {
	if len(r) != 1 || len(r[0].ValuesUnsorted()) != 1 {
		return "", false
	}
	op := r[0].Operator()
	return r[0].ValuesUnsorted()[0], op == selection.In || op == selection.Equals || op == selection.DoubleEquals
}

// satisfy returns a minimal set of labels that all selectors select; false for none.
func satisfy(selectors ...labels.Selector) (map[string]string, bool) {
	out := map[string]string{}
	required := requirements(selectors...)
	for _, key := range slices.Sorted(maps.Keys(required)) {
		allowed := choices(required[key], required[key])
		if len(allowed) == 0 {
			return nil, false
		}
		maps.Copy(out, allowed[0])
	}
	return out, true
}

// implies reports whether every VM that first selects is also selected by second.
func implies(first, second labels.Selector) bool {
	given := requirements(first)
	for key, wanted := range requirements(second) {
		for _, r := range wanted {
			for _, set := range choices(given[key], append(slices.Clone(given[key]), r)) {
				if !r.Matches(set) {
					return false
				}
			}
		}
	}
	return true
}

// choices returns the labels of one key that meet required: no label, or one representative of each
// group of values that mentioned treats alike.
func choices(required, mentioned requirement) []labels.Set {
	key := ""
	candidates := []labels.Set{{}}
	for _, r := range append(slices.Clone(mentioned), required...) {
		key = r.Key()
	}
	for _, value := range valuesOf(mentioned) {
		candidates = append(candidates, labels.Set{key: value})
	}
	return slices.DeleteFunc(candidates, func(set labels.Set) bool { return !required.allows(set) })
}

// allows reports whether labels meet a requirement.
func (r requirement) allows(set labels.Set) bool {
	return !slices.ContainsFunc(r, func(one labels.Requirement) bool { return !one.Matches(set) })
}

// valuesOf returns one value for each possible outcome of the requirements of one key.
func valuesOf(rs requirement) []string {
	var out []string
	for _, r := range rs {
		for _, v := range slices.Sorted(maps.Keys(r.Values())) {
			if bound, err := strconv.ParseInt(v, 10, 64); err == nil && (r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan) {
				out = append(out, strconv.FormatInt(bound+1, 10), strconv.FormatInt(bound-1, 10))
			}
			out = append(out, v)
		}
	}
	fresh := "any"
	for slices.Contains(out, fresh) {
		fresh += "-other"
	}
	return append(out, fresh)
}

func inNamespace(name string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{corev1.LabelMetadataName: name})
}

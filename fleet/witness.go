package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A Witness is an object that shows a finding when it is created in a cluster that has only the
// presets of the finding.
type Witness struct {
	Kind      presets.Kind
	Namespace presets.Namespace
	// Object is the VM or VMI, as decoded JSON.
	Object map[string]any
}

// A trial is what the engine makes of a candidate for a witness.
type trial struct {
	*Witness
	snapshot *presets.Snapshot
	result   *presets.Result
	// refusal is set where the engine refuses the object.
	refusal *presets.Refusal
}

// matched reports whether all presets act on the candidate.
func (t *trial) matched(all ...*member) bool {
	return t.result != nil && !slices.ContainsFunc(all, func(m *member) bool { return !slices.Contains(t.result.Matched, m.Compiled) })
}

func (w *Witness) request() (presets.Request, bool) {
	raw, err := json.Marshal(w.Object)
	return presets.Request{Kind: w.Kind, Object: raw, Namespace: w.Namespace}, err == nil
}

// resolve asks the engine what presets make of a candidate.
func (a *analysis) resolve(w *Witness, with *presets.Snapshot) *trial {
	t := &trial{Witness: w, snapshot: with}
	var engine presets.Engine
	if request, ok := w.request(); ok {
		var err error
		t.result, err = engine.Resolve(a.ctx, with, request)
		t.refusal, _ = err.(*presets.Refusal) //nolint:errorlint // Resolve returns it as it is
	}
	return t
}

// heldBack lists the fields that an instancetype keeps one of the presets from giving.
func (t *trial) heldBack(ctx context.Context, ref string) []string {
	var engine presets.Engine
	request, ok := t.request()
	if !ok {
		return nil
	}
	x, err := engine.Explain(ctx, t.snapshot, request)
	if err != nil {
		return nil
	}
	var out []string
	for _, h := range x.HeldBack {
		if h.Preset == ref && strings.Contains(h.Reason, "nstancetype") {
			out = append(out, h.Paths...)
		}
	}
	return out
}

// smallest is the smallest object that the selectors of presets select; nil without one.
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

// place gives the witness a namespace that all selectors select: one that is known, or one that may
// exist. It reports whether there is one.
func (a *analysis) place(w *Witness, selectors []labels.Selector) bool {
	for _, known := range a.namespaces {
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
		"metadata": map[string]any{"name": "witness", "namespace": namespace},
	}
	for key, value := range withLabels {
		set(out, []string{"metadata", "labels", key}, value)
	}
	set(out, append(specPath(kind), "domain", "devices"), map[string]any{})
	return out
}

// specPath leads to the spec of the VMI in an object of a kind.
func specPath(kind presets.Kind) []string {
	if kind == presets.VirtualMachineInstance {
		return []string{"spec"}
	}
	return []string{"spec", "template", "spec"}
}

// set sets a field, and the objects around it.
func set(object map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := object[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[name] = below
		}
		object = below
	}
	object[path[len(path)-1]] = value
}

// A change makes another candidate of one.
type change func(*Witness)

// with returns a copy of the witness with values that conditions ask for, and changes.
func (w *Witness) with(facts []presets.Fact, changes []change) *Witness {
	out := &Witness{Kind: w.Kind, Namespace: w.Namespace, Object: clone(w.Object)}
	out.Namespace.Labels, out.Namespace.Annotations = maps.Clone(w.Namespace.Labels), maps.Clone(w.Namespace.Annotations)
	for _, fact := range facts {
		out.assume(fact)
	}
	for _, c := range changes {
		c(out)
	}
	return out
}

func clone(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for name, v := range object {
		switch v := v.(type) {
		case map[string]any:
			out[name] = clone(v)
		case []any:
			out[name] = slices.Clone(v)
		default:
			out[name] = v
		}
	}
	return out
}

// assume gives the witness, or its namespace, a value that a condition asks for.
func (w *Witness) assume(fact presets.Fact) {
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

// assumeNamespace gives the namespace a label or an annotation.
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

// linkedElement returns the list and the name of the element of a list in the VMI's spec that a
// path leads through, if the element needs a partner elsewhere.
func linkedElement(path provenance.Path) (list, name string) {
	i := slices.IndexFunc(path, func(s provenance.Segment) bool { return s.Kind != provenance.Field })
	if i < 4 || path[i].Kind != provenance.Element {
		return "", ""
	}
	if list = linkedList(path[i-1].Name); list == "" {
		return "", ""
	}
	return list, path[i].Name
}

// linkedList is the list of devices that goes with a list of the VMI's spec.
func linkedList(name string) string {
	switch name {
	case "disks", "filesystems", "volumes":
		return "disks"
	case "interfaces", "networks":
		return "interfaces"
	}
	return ""
}

// addElement adds a disk with its volume, or an interface with its network.
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
	at := w.Object
	for _, name := range path[:len(path)-1] {
		at, _ = at[name].(map[string]any)
	}
	list, _ := at[path[len(path)-1]].([]any)
	set(w.Object, path, append(list, element))
}

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

// maxChanges is how many changes of the smallest object are tried, alone and in pairs.
const maxChanges = 24

// A trial is what the engine makes of a candidate for a witness.
type trial struct {
	*Witness
	result *presets.Result
	// refusal is set where the engine refuses the object.
	refusal *presets.Refusal
}

// matched reports whether all presets act on the candidate.
func (t *trial) matched(all []*presets.Compiled) bool {
	return t.result != nil && !slices.ContainsFunc(all, func(c *presets.Compiled) bool { return !slices.Contains(t.result.Matched, c) })
}

// heldBack lists the fields that an instancetype keeps one of the presets from giving.
func (w *Witness) heldBack(ctx context.Context, all []*presets.Compiled, ref string) []string {
	raw, err := json.Marshal(w.Object)
	if err != nil {
		return nil
	}
	var engine presets.Engine
	x, err := engine.Explain(ctx, presets.NewSnapshot(all, nil), presets.Request{Kind: w.Kind, Object: raw, Namespace: w.Namespace})
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

// resolve asks the engine what presets make of a candidate.
func (w *Witness) resolve(ctx context.Context, all []*presets.Compiled) *trial {
	t := &trial{Witness: w}
	raw, err := json.Marshal(w.Object)
	if err != nil {
		return t
	}
	var engine presets.Engine
	t.result, err = engine.Resolve(ctx, presets.NewSnapshot(all, nil), presets.Request{Kind: w.Kind, Object: raw, Namespace: w.Namespace})
	t.refusal, _ = err.(*presets.Refusal) //nolint:errorlint // Resolve returns it as it is
	return t
}

// find returns an object that all presets match and for which shows is true; nil without one.
// It tries the smallest object that their selectors select, then what conditions and linked
// elements may need.
func (a *analysis) find(all []*presets.Compiled, shows func(*trial) bool) *Witness {
	base := smallest(all)
	if base == nil {
		return nil
	}
	try := func(changes ...change) *Witness {
		a.left--
		w := base.with(changes)
		if t := w.resolve(a.ctx, all); shows(t) {
			return w.whole(a.ctx, all, shows)
		}
		return nil
	}
	if w := try(); w != nil {
		return w
	}
	changes := changesFor(all)
	for i, first := range changes[:min(len(changes), maxChanges)] {
		if w := try(first); w != nil {
			return w
		}
		for _, second := range changes[:i] {
			if w := try(second, first); w != nil || a.ended() {
				return w
			}
		}
	}
	return nil
}

// smallest is the smallest object that the selectors of presets select; nil without one.
func smallest(all []*presets.Compiled) *Witness {
	var vms, namespaces []labels.Selector
	var named []string
	w := &Witness{Kind: presets.VirtualMachine}
	exists, _ := labels.NewRequirement(corev1.LabelMetadataName, selection.Exists, nil)
	namespaces = append(namespaces, labels.NewSelector().Add(*exists))
	for _, c := range all {
		vm, namespace := c.Selectors()
		vms, namespaces = append(vms, vm), append(namespaces, namespace)
		if c.Namespace != "" {
			namespaces = append(namespaces, inNamespace(c.Namespace))
		}
		if c.Explicit {
			named = append(named, c.Ref)
		}
		if c.ApplyAt == v1alpha1.ApplyAtLaunch {
			w.Kind = presets.VirtualMachineInstance
		}
	}
	vmLabels, possible := satisfy(vms...)
	namespaceLabels, alsoPossible := satisfy(namespaces...)
	if !possible || !alsoPossible {
		return nil
	}
	w.Namespace = presets.Namespace{Name: namespaceLabels[corev1.LabelMetadataName], Labels: namespaceLabels}
	w.Object = newObject(w.Kind, w.Namespace.Name, vmLabels)
	if len(named) > 0 {
		set(w.Object, []string{"metadata", "annotations", v1alpha1.AnnotationPresets}, strings.Join(named, ", "))
	}
	return w
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

// with returns a copy of the witness with changes.
func (w *Witness) with(changes []change) *Witness {
	out := &Witness{Kind: w.Kind, Namespace: w.Namespace, Object: clone(w.Object)}
	out.Namespace.Labels, out.Namespace.Annotations = maps.Clone(w.Namespace.Labels), maps.Clone(w.Namespace.Annotations)
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

// changesFor lists changes that conditions of presets, or linked elements in them, may need.
func changesFor(all []*presets.Compiled) []change {
	var out []change
	linked := map[string]bool{}
	for _, c := range all {
		for _, fact := range c.Facts() {
			out = append(out, func(w *Witness) { w.assume(fact) })
		}
		for _, part := range c.Parts() {
			if list, name := linkedElement(part.Path); name != "" && !linked[list+name] {
				linked[list+name] = true
				out = append(out, func(w *Witness) { w.addElement(list, name) })
			}
		}
	}
	return out
}

// assume gives the witness, or its namespace, a value that a condition asks for.
func (w *Witness) assume(fact presets.Fact) {
	path := fact.Path[1:]
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
	switch list = path[i-1].Name; list {
	case "disks", "filesystems", "volumes":
		return "disks", path[i].Name
	case "interfaces", "networks":
		return "interfaces", path[i].Name
	}
	return "", ""
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

// whole returns the witness with memory, which every VM needs, if nothing gives it memory and it
// shows the same with it.
func (w *Witness) whole(ctx context.Context, all []*presets.Compiled, shows func(*trial) bool) *Witness {
	gives := func(p presets.Part) bool {
		text := p.Path.String()
		return strings.Contains(text, ".domain.memory.") || strings.Contains(text, ".domain.resources.") || strings.HasPrefix(text, "spec.instancetype")
	}
	for _, c := range all {
		if slices.ContainsFunc(c.Parts(), gives) {
			return w
		}
	}
	out := w.with([]change{func(w *Witness) { set(w.Object, append(specPath(w.Kind), "domain", "memory", "guest"), "1Gi") }})
	if !shows(out.resolve(ctx, all)) {
		return w
	}
	return out
}

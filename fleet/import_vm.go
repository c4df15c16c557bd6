package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// A Converted is a VM that selects imported presets.
type Converted struct {
	// VM has labels instead of spec.instancetype and spec.preference, as decoded JSON. It is nil
	// if the VM has neither, or if it would change.
	VM map[string]any
	// Set are fields written into VM because no preset sets them.
	Set []Change
	// Changes are the fields with which the VM would start differently.
	Changes  []Change
	Problems []string

	named bool
	// old is the stored VM that an update replaces; may be nil.
	old map[string]any
}

// legacyMarks is the prefix of annotations with which KubeVirt records applied legacy presets.
const legacyMarks = `spec.template.metadata.annotations["virtualmachinepreset.kubevirt.io/`

// holders have no meaning if they are empty.
var holders = []string{
	"spec.template", "spec.template.metadata", "spec.template.metadata.annotations", "spec.template.metadata.labels", "spec.template.spec",
	"spec.template.spec.domain", "spec.template.spec.domain.devices", "spec.template.spec.domain.resources",
}

func isNoDifference(c Change) bool {
	isEmpty := func(v any) bool {
		fields, ok := v.(map[string]any)
		return v == nil || ok && len(fields) == 0
	}
	return strings.HasPrefix(c.Path, legacyMarks) || slices.Contains(holders, c.Path) && isEmpty(c.Before) && isEmpty(c.After)
}

const maxRounds = 3

// Convert replaces the instancetype and preference of a VM by labels that select imported presets.
// It compares how the VM starts before and after. The VM is decoded JSON; with a resourceVersion,
// it is updated.
func (i *Import) Convert(ctx context.Context, vm map[string]any, namespace presets.Namespace) (Converted, error) {
	_, named, _ := presets.ExpandInstancetype(vm, i.find(namespace.Name))
	out := Converted{Problems: i.problems(vm, namespace.Name, named), named: len(named) > 0}
	if len(out.Problems) > 0 {
		return out, nil
	}
	expanded, rejected, err := i.expanded(ctx, vm, namespace)
	if err != nil || rejected != "" {
		out.Problems = []string{rejected}
		return out, err
	}
	converted := i.relabelled(vm, named)
	if isStored(vm) {
		out.old = vm
	}
	if err := i.compare(ctx, &out, expanded, converted, namespace); err != nil {
		return out, err
	}
	if len(out.Changes)+len(out.Problems) > 0 {
		out.Set = nil
	} else if out.named {
		out.VM = converted
	}
	return out, nil
}

// expanded returns a VM with the fields that KubeVirt adds at its start, or why it is rejected.
func (i *Import) expanded(ctx context.Context, vm map[string]any, namespace presets.Namespace) (out map[string]any, rejected string, err error) {
	if !isStored(vm) {
		if vm, rejected, err = i.defined(ctx, i.before, vm, nil, namespace); err != nil || rejected != "" {
			return nil, "a preset currently rejects it: " + rejected, err
		}
	}
	out, _, conflict := presets.ExpandInstancetype(vm, i.find(namespace.Name))
	if conflict != "" {
		return nil, "KubeVirt rejects it: " + conflict, nil
	}
	delete(out, "status")
	spec, _ := out["spec"].(map[string]any)
	delete(spec, "instancetype")
	delete(spec, "preference")
	return out, "", nil
}

func isStored(vm map[string]any) bool { return under(vm, "metadata")["resourceVersion"] != nil }

func (i *Import) compare(ctx context.Context, out *Converted, expanded, converted map[string]any, namespace presets.Namespace) error {
	rejected := ""
	if !i.source.Standalone {
		rejected = i.source.applyLegacy(expanded, namespace.Name)
	}
	var before []presets.Origin
	var err error
	if rejected == "" {
		before, rejected, err = launched(ctx, i.before, expanded, namespace)
	}
	if err != nil || rejected != "" {
		out.Problems = rejections("its VMI is currently rejected", rejected)
		return err
	}
	for range maxRounds {
		after, rejected, err := i.start(ctx, converted, out.old, namespace)
		if err != nil || rejected != "" {
			out.Problems = rejections("the imported presets reject it", rejected)
			return err
		}
		out.Changes = slices.DeleteFunc(Changes(before, after, NoUpdates), isNoDifference)
		if !out.named || !out.complete(converted, expanded) {
			return nil
		}
	}
	return nil
}

// complete writes the fields that changes lack into a VM. It reports whether it wrote any.
func (c *Converted) complete(vm, from map[string]any) bool {
	var at []provenance.Path
	for _, change := range c.Changes {
		path, err := presets.ParsePath(change.Path)
		if err != nil || change.Before == nil {
			continue
		}
		at, c.Set = append(at, path), append(c.Set, change)
	}
	presets.CopyFields(vm, from, at...)
	return len(at) > 0
}

func rejections(what, text string) []string {
	if text == "" {
		return nil
	}
	return []string{what + ": " + text}
}

func (i *Import) find(namespace string) presets.InstancetypeFinder {
	return func(m presets.Matcher) (map[string]any, error) { return i.contributor(namespace, m).Spec, nil }
}

// contributor returns what a VM references; the zero value if it is not imported.
func (i *Import) contributor(namespace string, m presets.Matcher) Contributor {
	for _, c := range i.source.Contributors {
		if c.Kind == m.Kind && c.Name == m.Name && (c.Namespace == "" || c.Namespace == namespace) {
			return c
		}
	}
	return Contributor{}
}

func (i *Import) problems(vm map[string]any, namespace string, named []presets.Matcher) []string {
	var out []string
	for _, m := range named {
		c, revision := i.contributor(namespace, m), cmp.Or(m.Revision, m.Stored)
		switch {
		case m.Name == "":
			out = append(out, "its instancetype or preference is inferred from a volume: set the name")
		case c.Spec == nil:
			out = append(out, fmt.Sprintf("%s is not in the input", m)+i.otherKind(namespace, m))
		case revision != "" && (c.Revision == "" || !strings.HasSuffix(revision, "-"+c.Revision)):
			out = append(out, fmt.Sprintf("it uses revision %s of %s, but the input has another revision", revision, m))
		}
	}
	out = append(out, i.taken(vm, named)...)
	if under(vm, "spec", "preference") != nil && len(out) == 0 {
		out = append(out, implicit(vm, i.contributor(namespace, named[len(named)-1]).Spec)...)
	}
	return out
}

// otherKind suggests the other kind if it has an object of the same name.
func (i *Import) otherKind(namespace string, m presets.Matcher) string {
	other := strings.Replace(m.Kind, "Cluster", "", 1)
	if other == m.Kind {
		other = strings.Replace(m.Kind, "VirtualMachine", "VirtualMachineCluster", 1)
	}
	m.Kind = other
	if i.contributor(namespace, m).Spec == nil {
		return ""
	}
	return fmt.Sprintf(", but %s is: set the kind", m)
}

// taken reports labels with which the VM would select other presets.
func (i *Import) taken(vm map[string]any, named []presets.Matcher) []string {
	var out []string
	for _, m := range named {
		key := i.source.label(m.Kind)
		if value := under(vm, "metadata", "labels")[key]; value != nil && value != m.Name && i.selected[labelValue{key, m.Name}] {
			out = append(out, fmt.Sprintf("its existing label %s: %v would select another preset: use another label prefix", key, value))
		}
	}
	return out
}

// implicit reports devices that KubeVirt adds with settings of the preference.
func implicit(vm, preference map[string]any) []string {
	template := under(vm, "spec", "template", "spec")
	devices := under(template, "domain", "devices")
	prefers := under(preference, "devices")
	var out []string
	if prefers["preferredInterfaceModel"] != nil && devices["interfaces"] == nil && template["networks"] == nil && devices["autoattachPodInterface"] != false {
		out = append(out, fmt.Sprintf("KubeVirt adds an interface to it, with model %v of its preference: name the interface and the network", prefers["preferredInterfaceModel"]))
	}
	if (prefers["preferredInputBus"] != nil || prefers["preferredInputType"] != nil) && devices["autoattachInputDevice"] == true && devices["inputs"] == nil {
		out = append(out, "KubeVirt adds an input device to it, as its preference prefers: name the input device")
	}
	return out
}

func (i *Import) relabelled(vm map[string]any, named []presets.Matcher) map[string]any {
	out := runtime.DeepCopyJSON(vm)
	delete(out, "status")
	spec, _ := out["spec"].(map[string]any)
	delete(spec, "instancetype")
	delete(spec, "preference")
	for _, m := range named {
		if key := i.source.label(m.Kind); i.selected[labelValue{key, m.Name}] {
			tree.Child(tree.Child(out, "metadata"), "labels")[key] = m.Name
		}
	}
	return out
}

// start returns the fields with which a VM starts under imported presets, or the rejection.
func (i *Import) start(ctx context.Context, vm, old map[string]any, namespace presets.Namespace) (fields []presets.Origin, rejected string, err error) {
	stored, rejected, err := i.defined(ctx, i.after, vm, old, namespace)
	if err != nil || rejected != "" {
		return nil, rejected, err
	}
	stored, _, _ = presets.ExpandInstancetype(stored, nil)
	return launched(ctx, i.after, stored, namespace)
}

// defined returns a VM as stored with presets, or why they reject it.
func (i *Import) defined(ctx context.Context, s *presets.Snapshot, vm, old map[string]any, namespace presets.Namespace) (out map[string]any, rejected string, err error) {
	request := presets.Request{Kind: presets.VirtualMachine, Namespace: namespace, Instancetypes: i.find(namespace.Name)}
	if request.Object, err = json.Marshal(vm); err == nil && old != nil {
		request.OldObject, err = json.Marshal(old)
	}
	if err != nil {
		return nil, "", err
	}
	result, err := (&presets.Engine{}).Resolve(ctx, s, request)
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return nil, rejection.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	return result.Object(), "", nil
}

// launched returns the fields of the VMI of a VM, or why presets reject it.
func launched(ctx context.Context, s *presets.Snapshot, vm map[string]any, namespace presets.Namespace) (fields []presets.Origin, rejected string, err error) {
	raw, err := json.Marshal(vm)
	if err != nil {
		return nil, "", err
	}
	vmi, err := (&presets.Engine{}).Launch(ctx, s, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: namespace})
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return nil, rejection.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	x, err := presets.ExplainStored(presets.Request{Kind: presets.VirtualMachineInstance, Object: vmi})
	if err != nil {
		return nil, "", err
	}
	return x.Fields, "", nil
}

package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// plugs reports whether KubeVirt updates a VMI.
func (c *candidate) plugs() bool {
	return c.Guard.Addon && c.Kind == presets.VirtualMachineInstance && c.old != nil && c.trusted
}

// checkPlugged rejects volumes that KubeVirt plugs into a running VMI, if presets would reject them
// on its VM. KubeVirt plugs them on behalf of users, and with its feature gate HotplugVolumes
// before it changes the VM.
func (c *candidate) checkPlugged(ctx context.Context) error {
	snapshot := c.Snapshots.Snapshot()
	if snapshot == nil {
		return errors.New("presets are not loaded yet")
	}
	raw, err := c.Owners.Of(ctx, c.req.Namespace, c.req.Object.Raw)
	if err != nil {
		return fmt.Errorf("cannot read the VirtualMachine that controls the VMI: %w", err)
	}
	request, err := c.engineRequest(ctx)
	if err != nil {
		return err
	}
	request.Kind, request.Decoded, request.OldDecoded = presets.VirtualMachine, nil, nil
	if request.OldObject = raw; raw == nil { // as a VM would be that has this VMI
		spec := map[string]any{"template": map[string]any{"spec": c.old["spec"]}}
		if request.OldObject, err = json.Marshal(map[string]any{"metadata": c.old["metadata"], "spec": spec}); err != nil {
			return fmt.Errorf("cannot write the VMI: %w", err)
		}
	}
	var vm map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(request.OldObject, &vm); err != nil {
		return fmt.Errorf("cannot read the VirtualMachine that controls the VMI: %w", err)
	}
	template, _, _ := unstructured.NestedMap(vm, "spec", "template", "spec")
	if !addNamed(template, c.object, c.old, "volumes") {
		return nil
	}
	addNamed(template, c.object, c.old, "domain", "devices", "disks")
	if err := unstructured.SetNestedMap(vm, template, "spec", "template", "spec"); err != nil {
		return fmt.Errorf("cannot change the VirtualMachine that controls the VMI: %w", err)
	}
	if request.Object, err = json.Marshal(vm); err != nil {
		return fmt.Errorf("cannot write the VirtualMachine that controls the VMI: %w", err)
	}
	_, err = c.Engine.Resolve(ctx, snapshot, request)
	rejection, ok := errors.AsType[*presets.Rejection](err)
	if !ok {
		return err
	}
	for _, p := range rejection.Problems {
		p.Field = strings.TrimPrefix(p.Field, "spec.template.")
		c.problems = append(c.problems, p)
	}
	return nil
}

// addNamed adds to a list of a VM's template the elements that a VMI has, and that neither the list
// nor the stored VMI has. It reports whether there are any.
func addNamed(template, vmi, old map[string]any, path ...string) bool {
	list, _, _ := unstructured.NestedSlice(template, path...)
	now, _, _ := unstructured.NestedSlice(vmi, append([]string{"spec"}, path...)...)
	before, _, _ := unstructured.NestedSlice(old, append([]string{"spec"}, path...)...)
	known := map[any]bool{}
	for _, e := range append(before, list...) {
		fields, _ := e.(map[string]any)
		known[fields["name"]] = true
	}
	count := len(list)
	for _, e := range now {
		if fields, _ := e.(map[string]any); !known[fields["name"]] {
			list = append(list, e)
		}
	}
	return len(list) > count && unstructured.SetNestedSlice(template, list, path...) == nil
}

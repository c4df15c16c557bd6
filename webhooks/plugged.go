package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// plugs reports whether KubeVirt updates a VMI.
func (c *candidate) plugs() bool {
	return c.Guard.Addon && c.Kind == presets.VirtualMachineInstance && c.old != nil && c.trusted
}

// checkPlugged rejects what KubeVirt plugs into a running VMI on behalf of users, if presets forbid
// it. Presets that act at launch see volumes and networks, the others see volumes, as they would on
// the VM: with its feature gate HotplugVolumes, KubeVirt plugs them before it changes the VM.
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
	request.Owner = raw
	if err := c.rejected(c.Engine.VerifyPlugged(ctx, snapshot, request)); err != nil || raw == nil {
		return err
	}
	request.Kind, request.Decoded, request.OldDecoded, request.Owner, request.OldObject = presets.VirtualMachine, nil, nil, nil, raw
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

// addNamed writes to a list of a VM's template the elements of a VMI that the stored VMI lacks. It
// reports whether there are any.
func addNamed(template, vmi, old map[string]any, path ...string) bool {
	list, _, _ := unstructured.NestedSlice(template, path...)
	now, _, _ := unstructured.NestedSlice(vmi, append([]string{"spec"}, path...)...)
	before, _, _ := unstructured.NestedSlice(old, append([]string{"spec"}, path...)...)
	added := false
	for _, e := range now {
		if slices.ContainsFunc(before, func(o any) bool { return tree.Equal(e, o) }) {
			continue
		}
		added = true
		if i := slices.IndexFunc(list, func(o any) bool { return nameIn(o) == nameIn(e) }); i >= 0 {
			list[i] = e
		} else {
			list = append(list, e)
		}
	}
	return added && unstructured.SetNestedSlice(template, list, path...) == nil
}

func nameIn(element any) any {
	fields, _ := element.(map[string]any)
	return fields["name"]
}

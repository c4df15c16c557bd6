package virtualmachine

import (
	"context"
	"encoding/json"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/lifecycle/machine"
)

// tell writes status where it says something new, and in it only what is new:
// the rest of status is others'. An event says how the guest of the VMI, which may be nil, ended.
func (c *Controller) tell(ctx context.Context, vm *machine.VirtualMachine, instance *machine.Instance, status machine.Status) error {
	if apiequality.Semantic.DeepEqual(vm.Status, status) {
		return nil
	}
	changed, err := merge(vm.Status, status)
	if err != nil || len(changed) == 0 {
		return err
	}
	// Whoever asked for something meanwhile must not lose it.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": vm.ResourceVersion}, "status": changed})
	if err != nil {
		return fmt.Errorf("cannot write status: %w", err)
	}
	written := &machine.VirtualMachine{}
	written.Namespace, written.Name = vm.Namespace, vm.Name
	if err := c.Client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("cannot write the status of VirtualMachine %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	before := vm.Status
	vm.ResourceVersion, vm.Status = written.ResourceVersion, written.Status
	c.machines.note(client.ObjectKeyFromObject(vm), written.ResourceVersion)
	c.tellCrash(vm, instance, &before)
	return nil
}

// merge is the merge patch that leads from one status to another.
func merge(was, now machine.Status) (map[string]any, error) {
	var fields [2]map[string]any
	for i, status := range []machine.Status{was, now} {
		text, err := json.Marshal(status)
		if err == nil {
			err = json.Unmarshal(text, &fields[i])
		}
		if err != nil {
			return nil, fmt.Errorf("cannot write status: %w", err)
		}
	}
	out := map[string]any{}
	for key, value := range fields[1] {
		if !apiequality.Semantic.DeepEqual(fields[0][key], value) {
			out[key] = value
		}
	}
	for key := range fields[0] {
		if _, stays := fields[1][key]; !stays {
			out[key] = nil
		}
	}
	return out, nil
}

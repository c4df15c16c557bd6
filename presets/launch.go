package presets

import (
	"context"
	"encoding/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Launches reports whether any preset acts when instances are made.
func (s *Snapshot) Launches() bool { return s.launches }

// launching reports whether c acts when instances are made.
func (c *Compiled) launching() bool {
	return c.ApplyAt == v1alpha1.ApplyAtLaunch && c.Mode == v1alpha1.ModeEnforce
}

// Launch returns the JSON of the instance that a VM would have if it started
// now. Req is about the VM, as it is stored or will be. The error is a *Refusal
// or a *Malformed.
func (e *Engine) Launch(ctx context.Context, s *Snapshot, req Request) ([]byte, error) {
	vm, err := req.Decoded, error(nil)
	if vm == nil {
		vm, err = decode("object", req.Object)
	}
	if err != nil {
		return nil, err
	}
	if problems := checkSpine(vm); len(problems) > 0 {
		return nil, &Refusal{Problems: problems}
	}
	instance := instanceOf(vm)
	raw, err := json.Marshal(instance)
	if err != nil {
		return nil, &Malformed{What: "object", Err: err}
	}
	copied, _ := cloneJSON(instance).(map[string]any)
	result, err := e.Resolve(ctx, s, Request{Kind: VirtualMachineInstance, Object: raw, Decoded: copied, Namespace: req.Namespace, Owner: req.Object})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result.Object())
}

// instanceOf is the instance of a VM, as a lifecycle controller asks for it.
func instanceOf(vm map[string]any) map[string]any {
	from, _ := lookup(vm, vmSchema(), template).(map[string]any)
	templated, _ := from["metadata"].(map[string]any)
	meta := map[string]any{}
	for _, name := range []string{"labels", "annotations"} {
		if templated[name] != nil {
			meta[name] = templated[name]
		}
	}
	for _, name := range []string{"name", "namespace"} {
		if v := lookup(vm, vmSchema(), provenance.Of("metadata", name)); v != nil {
			meta[name] = v
		}
	}
	out := map[string]any{"apiVersion": vm["apiVersion"], "kind": string(VirtualMachineInstance), "metadata": meta}
	if from["spec"] != nil {
		out["spec"] = from["spec"]
	}
	return out
}

package presets_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestDecimalsInPatch applies the patch as API servers do.
func TestDecimalsInPatch(t *testing.T) {
	instance := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"x"},"spec":{"domain":{"resources":{"requests":{"a/b~c":0.1,"cpu":1e3}},"memory":{"guest":1.5e9}},
"volumes":[{"name":"a","emptyDisk":{"capacity":0.5}},{"name":"b","emptyDisk":{"capacity":2}},{"name":"c","emptyDisk":{"capacity":2.5}}]}}`
	vm := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"x"},"spec":{"template":{"spec":{"domain":{"resources":{"requests":{"cpu":0.1}}}}}}}`
	set := presettest.Snapshot(t,
		cluster("a", `{defaults: {spec: {template: {spec: {volumes: [{name: d, emptyDisk: {capacity: 1.5}}], domain: {devices: {disks: [{name: d}]}}}}}}, remove: ["spec.template.spec.volumes[a]"]}`),
		cluster("b", overrides("{resources: {requests: {cpu: 0.1}}}")))
	for _, req := range []presets.Request{
		{Kind: presets.VirtualMachineInstance, Object: []byte(instance)},
		{Kind: presets.VirtualMachine, Object: []byte(vm)},
		{Kind: presets.VirtualMachine, Object: []byte(vm), OldObject: []byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"x"},"spec":{}}`)},
	} {
		for _, engine := range []*presets.Engine{{}, {Platform: &presets.Platform{}}} {
			out, err := engine.Resolve(t.Context(), set, req)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(out.Patch)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := jsonpatch.DecodePatch(raw)
			if err != nil {
				t.Fatal(err)
			}
			patched, err := patch.Apply(req.Object)
			if err != nil {
				t.Fatalf("cannot apply %s: %v", raw, err)
			}
			var got, want any
			if err := json.Unmarshal(patched, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(marshal(t, out.Object()), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -object, +patched:\n%s", req.Object, diff)
			}
			if cpu := presettest.At(out.Object(), "spec.template.spec.domain.resources.requests.cpu"); req.Kind == presets.VirtualMachine && cpu != "100m" {
				t.Errorf("cpu is %v", cpu)
			}
		}
	}
}

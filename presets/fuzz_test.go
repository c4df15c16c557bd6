package presets

import (
	"errors"
	"testing"

	"github.com/virtwright/virtwright/presets/tree"
)

// FuzzResolve resolves arbitrary objects, stored objects and owners. Nothing may panic, the patch
// must apply, and a second request must change nothing.
func FuzzResolve(f *testing.F) {
	f.Add([]byte(`{"kind":"VirtualMachine","metadata":{"name":"a"}}`), []byte(nil), []byte(nil), false)
	f.Add([]byte(`{"metadata":{"labels":{"os":"windows"},"annotations":{"virtwright.dev/exclude":"*","virtwright.dev/presets":"cluster/gpu"}},
		"spec":{"running":true,"template":{"spec":{"domain":{"cpu":{"cores":2},"devices":{"disks":[{"name":"root","cdrom":{}}]}},"volumes":[{"name":"root","containerDisk":{"image":"a:1"}}]}}}}`), []byte(nil), []byte(nil), false)
	f.Add([]byte(`{"metadata":{"annotations":{"virtwright.dev/provenance":"{\"v\":1,\"snapshot\":\"\",\"by\":[\"p@1:default\"],\"set\":{\"spec\":{\"running\":[0]}}}"}},"spec":{"running":false}}`),
		[]byte(`{"spec":{"running":true,"template":{"spec":{"domain":{"devices":{"interfaces":[{"name":"default"}]}}}}}}`), []byte(nil), false)
	f.Add([]byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"domain":{"devices":{"disks":[null,"x",{"name":1}]}}}}`), []byte(nil), []byte(`{"metadata":{},"spec":{"template":{"spec":{}}}}`), true)
	snapshot := NewSnapshot(fuzzPresets(), nil)
	f.Fuzz(func(t *testing.T, object, old, owner []byte, instance bool) {
		req := Request{Kind: VirtualMachine, Object: object, OldObject: old, Owner: owner, Namespace: Namespace{Name: "ns"}}
		if instance {
			req.Kind = VirtualMachineInstance
		}
		for _, e := range []Engine{{}, {Platform: &Platform{}}} {
			out, err := e.Resolve(t.Context(), snapshot, req)
			var rejection *Rejection
			var malformed *Malformed
			if err != nil {
				if !errors.As(err, &rejection) && !errors.As(err, &malformed) {
					t.Fatalf("neither rejected nor malformed: %v", err)
				}
				continue
			}
			checkAnswer(t, e, snapshot, req, out)
		}
	})
}

func checkAnswer(t *testing.T, e Engine, s *Snapshot, req Request, out *Result) {
	t.Helper()
	if len(out.Warnings) > maxWarnings {
		t.Errorf("%d warnings", len(out.Warnings))
	}
	for _, w := range out.Warnings {
		if len(w) > MaxWarningBytes {
			t.Errorf("warning of %d bytes", len(w))
		}
	}
	got := roundTrip(apply(t, req.Object, out.Patch)) // the same spelling of large numbers
	if want := roundTrip(out.Object()); !tree.Equal(want, got) {
		t.Fatalf("patch %s makes\n%s\nnot\n%s", encode(out.Patch), encode(got), encode(want))
	}
	if len(req.OldObject) > 0 {
		return
	}
	req.Object = encode(got)
	again, err := e.Resolve(t.Context(), s, req)
	if err != nil {
		t.Fatalf("a second pass fails: %v", err)
	}
	if len(again.Patch) > 0 {
		t.Fatalf("a second pass changes %s\nof %s", encode(again.Patch), req.Object)
	}
}

func fuzzPresets() []*Compiled {
	specs := []map[string]any{
		{"defaults": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"domain": map[string]any{"cpu": map[string]any{"cores": 2, "features": []any{map[string]any{"name": "vmx", "policy": "require"}}},
				"devices": map[string]any{"disks": []any{map[string]any{"name": "root", "disk": map[string]any{"bus": "virtio"}}}}},
			"tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}}}}}}},
		{"priority": 5, "overrides": map[string]any{"metadata": map[string]any{"labels": map[string]any{"managed": "yes"}},
			"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"memory": map[string]any{"guest": "1Gi"}}}}}}},
		{"remove": []any{"spec.template.spec.domain.devices.rng", "spec.template.spec.domain.devices.inputs[tablet]"},
			"forbid": []any{map[string]any{"path": "spec.template.spec.volumes[*].hostDisk.path"}, map[string]any{"path": "spec.template.spec.domain.memory.maxGuest"}}},
		{"remove": []any{"spec.template.spec.domain.cpu.model", "spec.template.spec.domain.chassis.sku"}},
		{"match": map[string]any{"conditions": []any{map[string]any{"name": "c", "expression": "object.metadata.name.startsWith('w')"}}},
			"defaults": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"hostname": "w"}}}}},
	}
	var out []*Compiled
	for i, spec := range specs {
		for _, namespace := range []string{"", "ns"} {
			if c := compileSpec(namespace, string(rune('a'+i)), spec); c != nil {
				out = append(out, c)
			}
		}
	}
	return out
}

package presets_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestTemplateChanges: changes of a user or preset after the start are reported. Fields that the
// start itself sets are not.
func TestTemplateChanges(t *testing.T) {
	const sparse = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web}, spec: {runStrategy: Always, template: {metadata: {annotations: {virtwright.dev/presets: extra}}, spec: {
		domain: {machine: {type: pc}, devices: {disks: [{name: root, disk: {bus: virtio}}, {name: data, disk: {}}]}, memory: {guest: 1Gi}},
		volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: data, emptyDisk: {capacity: 1Gi}}]}}}}`
	engine := &presets.Engine{Platform: &presets.Platform{}}
	snapshot := presettest.Snapshot(
		t,
		presettest.Cluster("sized", `defaults: {spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}`),
		presettest.Cluster("modern", `overrides: {spec: {template: {spec: {domain: {machine: {type: q35}}}}}}`),
		presettest.Cluster("late", `{applyAt: Launch, overrides: {spec: {template: {spec: {terminationGracePeriodSeconds: 9, domain: {memory: {guest: 2Gi}}}}}}, defaults: {spec: {template: {spec: {hostname: given}}}}}`),
	)
	for name, c := range map[string]struct {
		do   func(spec, vm map[string]any)
		want []string
	}{
		"nothing": {do: func(map[string]any, map[string]any) {}},
		"the user": {do: func(spec, _ map[string]any) {
			spec["hostname"] = "mine"
			spec["domain"].(map[string]any)["cpu"].(map[string]any)["cores"] = 4
		}, want: []string{"spec.template.spec.domain.cpu.cores user", "spec.template.spec.hostname user"}},
		"a quantity in other words": {do: func(spec, _ map[string]any) {
			spec["domain"].(map[string]any)["memory"] = map[string]any{"guest": "1024Mi"}
		}},
		"an override at launch": {do: func(spec, _ map[string]any) {
			spec["domain"].(map[string]any)["memory"] = map[string]any{"guest": "5Gi"}
		}, want: []string{"spec.template.spec.domain.memory.guest user"}},
		"an element is removed, and one is added": {do: func(spec, _ map[string]any) {
			devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
			devices["disks"] = []any{devices["disks"].([]any)[0], map[string]any{"name": "more", "disk": map[string]any{"bus": "sata"}}}
			spec["volumes"] = []any{spec["volumes"].([]any)[0], map[string]any{"name": "more", "emptyDisk": map[string]any{"capacity": "1Gi"}}}
		}, want: []string{
			"spec.template.spec.domain.devices.disks[data] user", "spec.template.spec.domain.devices.disks[more] user",
			"spec.template.spec.volumes[data] user", "spec.template.spec.volumes[more] user",
		}},
		"the order of a list": {do: func(spec, _ map[string]any) {
			devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
			devices["disks"] = []any{devices["disks"].([]any)[1], devices["disks"].([]any)[0]}
		}},
		"labels": {do: func(_, vm map[string]any) {
			meta := vm["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
			meta["labels"] = map[string]any{"app.example.com/tier": "front"}
		}, want: []string{`spec.template.metadata.labels["app.example.com/tier"] user`}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := resolved(t, engine, snapshot, presettest.JSON(sparse))
			vmi, err := engine.Launch(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: stored, Namespace: presets.Namespace{Name: "default"}})
			if err != nil {
				t.Fatal(err)
			}
			vm := presettest.Object(stored)
			c.do(vm["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any), vm)
			if got := changes(t, updated(t, engine, snapshot, stored, vm), vmi); !cmp.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func resolved(t *testing.T, engine *presets.Engine, snapshot *presets.Snapshot, vm []byte) []byte {
	t.Helper()
	result, err := engine.Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: vm, Namespace: presets.Namespace{Name: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	return asJSON(t, result.Object())
}

func updated(t *testing.T, engine *presets.Engine, snapshot *presets.Snapshot, stored []byte, vm map[string]any) []byte {
	t.Helper()
	result, err := engine.Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: asJSON(t, vm), OldObject: stored, Namespace: presets.Namespace{Name: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	return asJSON(t, result.Object())
}

func asJSON(t *testing.T, object any) []byte {
	t.Helper()
	out, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func changes(t *testing.T, vm, vmi []byte) []string {
	t.Helper()
	found, err := presets.TemplateChanges(vm, vmi)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range found {
		by := "user"
		if !o.User {
			by = o.By.String()
		}
		out = append(out, fmt.Sprint(o.Path, " ", by))
	}
	return out
}

// A change by a preset names the preset.
func TestTemplateChangesOfPresets(t *testing.T) {
	const sparse = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web}, spec: {template: {spec: {domain: {devices: {}}}}}}`
	engine := &presets.Engine{}
	before := resolved(t, engine, presettest.Snapshot(t), presettest.JSON(sparse))
	vmi, err := engine.Launch(t.Context(), presettest.Snapshot(t), presets.Request{Kind: presets.VirtualMachine, Object: before, Namespace: presets.Namespace{Name: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	after := resolved(t, engine, presettest.Snapshot(t, presettest.Cluster("sized", `defaults: {spec: {template: {spec: {
		domain: {cpu: {cores: 2}, devices: {disks: [{name: data, disk: {bus: virtio}}]}}, volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}}`)), presettest.JSON(sparse))
	want := []string{
		"spec.template.spec.domain.cpu.cores cluster/sized@1:default",
		"spec.template.spec.domain.devices.disks[data] cluster/sized@1:default",
		"spec.template.spec.volumes[data] cluster/sized@1:default",
	}
	if got := changes(t, after, vmi); !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

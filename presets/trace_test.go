package presets_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestTrace checks which actions of presets a request reaches, by their fields.
func TestTrace(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("strong", `{priority: 9, defaults: {spec: {template: {spec: {hostname: strong}}}}}`),
		presettest.Cluster("weak", `{defaults: {spec: {template: {spec: {hostname: weak, subdomain: weak}}}}}`),
		presettest.Cluster("disk", `
defaults:
  spec:
    dataVolumeTemplates: [{metadata: {name: {$cel: "object.metadata.name + '-root'"}}, spec: {storage: {resources: {requests: {storage: 10Gi}}}}}]
    template: {spec: {volumes: [{name: root, dataVolume: {name: {$cel: "object.metadata.name + '-root'"}}}], domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}}}`),
		presettest.Cluster("taker", `{remove: [spec.template.spec.domain.devices.rng, spec.template.spec.schedulerName, spec.template.spec.domain.devices.clientPassthrough]}`),
		presettest.Cluster("passthrough", `{defaults: {spec: {template: {spec: {domain: {devices: {clientPassthrough: {}}}}}}}}`),
		presettest.Cluster("guard", `{mode: Audit, forbid: [{path: spec.template.spec.nodeSelector}, {path: spec.template.spec.affinity}]}`),
		presettest.Cluster("conditional", `
match: {conditions: [{name: a, expression: "true"}, {name: b, expression: "object.metadata.name == 'other'"}, {name: c, expression: "true"}]}
defaults: {spec: {running: true}}`),
		presettest.Cluster("elsewhere", `{match: {labels: {matchLabels: {a: b}}, conditions: [{name: a, expression: "true"}]}, defaults: {spec: {running: true}}}`),
		presettest.Cluster("elements", `
defaults: {spec: {template: {spec: {
  tolerations: [{key: users, operator: Exists}, {key: ours, operator: Exists}],
  domain: {devices: {inputs: [{name: users, type: tablet, bus: usb}, {name: same, type: tablet, bus: usb}]}}}}}}`),
		presettest.Cluster("launch", `{applyAt: Launch, overrides: {spec: {template: {spec: {priorityClassName: vms}}}}}`),
		presettest.Cluster("off", `{mode: "Off", defaults: {spec: {running: true}}}`),
	)
	object := presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: shop},
  spec: {template: {spec: {nodeSelector: {a: b}, tolerations: [{key: users, operator: Exists}],
  domain: {devices: {rng: {}, inputs: [{name: users, type: tablet}, {name: same, type: tablet, bus: usb}]}}}}}}`)
	request := presets.Request{Kind: presets.VirtualMachine, Object: object, Namespace: presets.Namespace{Name: "shop"}}
	engine := &presets.Engine{}
	type traced struct {
		Matched    bool
		Conditions []bool
		Reached    []string
	}
	by := func(traces []presets.Trace, err error) map[string]traced {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]traced{}
		for _, trace := range traces {
			one := traced{Matched: trace.Matched, Conditions: trace.Conditions}
			for _, i := range trace.Applied {
				one.Reached = append(one.Reached, trace.Preset.Actions()[i].Field)
			}
			out[trace.Preset.Ref] = one
		}
		return out
	}
	none := []bool{}
	want := map[string]traced{
		"cluster/strong":      {true, none, []string{"spec.defaults.spec.template.spec.hostname"}},
		"cluster/weak":        {true, none, []string{"spec.defaults.spec.template.spec.subdomain"}},
		"cluster/taker":       {true, none, []string{"spec.remove[0]", "spec.remove[2]"}},
		"cluster/passthrough": {true, none, nil},
		"cluster/guard":       {true, none, []string{"spec.forbid[0].path"}},
		"cluster/elements": {true, none, []string{
			"spec.defaults.spec.template.spec.domain.devices.inputs[users].bus", "spec.defaults.spec.template.spec.domain.devices.inputs[users].name",
			"spec.defaults.spec.template.spec.tolerations[ours,Exists,,].key", "spec.defaults.spec.template.spec.tolerations[ours,Exists,,].operator",
		}},
		"cluster/conditional": {false, []bool{true, false}, nil},
		"cluster/elsewhere":   {},
		"cluster/launch":      {},
	}
	got := by(engine.Trace(t.Context(), snapshot, request))
	disk := got["cluster/disk"]
	delete(got, "cluster/disk")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	parts := snapshotPreset(t, snapshot, "cluster/disk").Actions()
	if len(disk.Reached) != len(parts) || len(parts) != 6 {
		t.Errorf("reached %d of %d computed parts: %v", len(disk.Reached), len(parts), disk.Reached)
	}
	launched := by(engine.TraceLaunch(t.Context(), snapshot, request))
	if got := launched["cluster/launch"].Reached; !cmp.Equal(got, []string{"spec.overrides.spec.template.spec.priorityClassName"}) {
		t.Errorf("the launch reached %v", got)
	}
	if _, err := engine.Trace(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: []byte("[]")}); err == nil {
		t.Error("a list is traced")
	}
}

func snapshotPreset(t *testing.T, s *presets.Snapshot, ref string) *presets.Compiled {
	t.Helper()
	c, ok := s.Lookup("shop", ref)
	if !ok {
		t.Fatalf("no preset %s", ref)
	}
	return c
}

// TestExplainRemovals shows removals of values that the author or a weaker preset wrote, and no
// others.
func TestExplainRemovals(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("base", `{defaults: {spec: {template: {spec: {schedulerName: vms}}}}}`),
		presettest.Cluster("taker", `{remove: [spec.template.spec.domain.devices.rng, spec.template.spec.schedulerName, spec.template.spec.domain.devices.clientPassthrough]}`),
	)
	object := presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: shop}, spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}`)
	var engine presets.Engine
	x, err := engine.Explain(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: object, Namespace: presets.Namespace{Name: "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{} // removed fields, and the presets that they beat
	for _, o := range x.Fields {
		if o.Value == nil {
			got[o.Path.String()] = len(o.Losing)
		}
	}
	want := map[string]int{"spec.template.spec.domain.devices.rng": 0, "spec.template.spec.schedulerName": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestExplainCounts counts the fields that explain shows, names losers of alternatives, and
// tells labels of presets from the author's.
func TestExplainCounts(t *testing.T) {
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("disk", `{priority: 10, defaults: {spec: {template: {spec: {
  domain: {firmware: {bootloader: {bios: {}}}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, containerDisk: {image: q/x}}]}}}}}`),
		presettest.Cluster("tuning", `{overrides: {metadata: {labels: {family: linux}}, spec: {template: {spec: {subdomain: b}}}}, defaults: {spec: {template: {spec: {
  domain: {firmware: {bootloader: {efi: {secureBoot: false}}}, devices: {disks: [{name: root, cache: none, disk: {bus: sata}}]}}}}}}}`),
		presettest.Cluster("linux", `{match: {labels: {matchLabels: {family: linux}}}, defaults: {spec: {template: {spec: {hostname: a}}}}}`),
	)
	object := presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: shop}, spec: {template: {spec: {subdomain: a, domain: {}}}}}`)
	var engine presets.Engine
	x, err := engine.Explain(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: object, Namespace: presets.Namespace{Name: "shop"}})
	if err != nil {
		t.Fatal(err)
	}
	counts, reasons, beaten := map[string]presets.Counts{}, map[string]string{}, map[string]string{}
	for _, m := range x.Presets {
		if m.Counts != nil {
			counts[m.Preset] = *m.Counts
		} else {
			reasons[m.Preset] = m.Reason
		}
	}
	for _, o := range x.Fields {
		for _, lost := range o.Losing {
			beaten[o.Path.String()] = lost.Path.String()
		}
	}
	if diff := cmp.Diff(map[string]presets.Counts{"cluster/disk": {Set: 5}, "cluster/tuning": {Set: 3, Lost: 2, Overruled: 1}}, counts); diff != "" {
		t.Errorf("counts: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"cluster/linux": "labels do not match family=linux: preset cluster/tuning sets family=linux, and only labels of the author select presets"}, reasons); diff != "" {
		t.Errorf("reasons: -want +got:\n%s", diff)
	}
	const firmware = "spec.template.spec.domain.firmware.bootloader."
	if diff := cmp.Diff(map[string]string{firmware + "bios": firmware + "efi.secureBoot", "spec.template.spec.domain.devices.disks[root].disk.bus": ""}, beaten); diff != "" {
		t.Errorf("beaten: -want +got:\n%s", diff)
	}
}

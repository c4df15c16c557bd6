package presets_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// A VM that is created from a copy of a stored one keeps its record for the leaves that presets
// give today, and no others.
func TestRestore(t *testing.T) {
	size := func(memory string) v1alpha1.Preset {
		return presettest.Cluster("size", `
match: {labels: {matchLabels: {size: small}}}
defaults: {spec: {template: {spec: {domain: {memory: {guest: `+memory+`}, cpu: {cores: 2}, devices: {tpm: {}, disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`)
	}
	class := presettest.Cluster("class", `overrides: {spec: {template: {spec: {priorityClassName: vms}}}}`)
	drop := presettest.Cluster("drop", `remove: [spec.template.spec.domain.devices.rng]`)
	more := presettest.Cluster("more", `defaults: {spec: {template: {spec: {hostname: new}}}}`)
	const sparse = `{metadata: {name: a, namespace: lab, labels: {size: small}}, spec: {template: {spec: {priorityClassName: mine, domain: {devices: {rng: {}}}}}}}`
	same := func(copied string) string { return copied }
	const (
		memory = "spec.template.spec.domain.memory.guest"
		cores  = "spec.template.spec.domain.cpu.cores"
		bus    = "spec.template.spec.domain.devices.disks[root].disk.bus"
		prio   = "spec.template.spec.priorityClassName"
		run    = "spec.runStrategy"
	)
	all := map[string]string{memory: "cluster/size", cores: "cluster/size", bus: "cluster/size", prio: "cluster/class", run: "run-strategy"}
	with := func(change map[string]string) map[string]string {
		out := maps.Clone(all)
		maps.Copy(out, change)
		return out
	}
	for name, c := range map[string]struct {
		now    []v1alpha1.Preset
		change func(string) string
		want   map[string]string // origins by path; empty for the user
		at     map[string]any
	}{
		"presets are as they were": {[]v1alpha1.Preset{size("2Gi"), class, drop}, same, all, nil},
		"another preset came":      {[]v1alpha1.Preset{size("2Gi"), class, drop, more}, same, all, map[string]any{"spec.template.spec.hostname": "new"}},
		"a value of one changed":   {[]v1alpha1.Preset{size("4Gi"), class, drop}, same, with(map[string]string{memory: ""}), map[string]any{memory: "2Gi"}},
		"a preset is gone":         {[]v1alpha1.Preset{class, drop}, same, with(map[string]string{memory: "", cores: "", bus: ""}), map[string]any{memory: "2Gi"}},
		"an override is gone":      {[]v1alpha1.Preset{size("2Gi"), drop}, same, with(map[string]string{prio: ""}), map[string]any{prio: "vms"}},
		"a removal is gone":        {[]v1alpha1.Preset{size("2Gi"), class}, same, all, map[string]any{"spec.template.spec.domain.devices.rng": nil}},
		"the copy has another name": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			func(copied string) string { return strings.Replace(copied, `"name":"a"`, `"name":"b"`, 1) }, all, nil,
		},
		"the copy has another value": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			func(copied string) string { return strings.Replace(copied, `"cores":2`, `"cores":3`, 1) }, with(map[string]string{cores: ""}), map[string]any{cores: int64(3)},
		},
		"the copy has another label": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			func(copied string) string { return strings.Replace(copied, `"size":"small"`, `"size":"other"`, 1) },
			with(map[string]string{memory: "", cores: "", bus: ""}), map[string]any{memory: "2Gi"},
		},
		"the copy adds to an object": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			func(copied string) string { return strings.Replace(copied, `"tpm":{}`, `"tpm":{"persistent":true}`, 1) },
			with(map[string]string{"spec.template.spec.domain.devices.tpm": ""}), map[string]any{"spec.template.spec.domain.devices.tpm.persistent": true},
		},
		"the copy adds to the default network": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			func(copied string) string {
				return strings.Replace(copied, `"pod":{}`, `"pod":{"vmNetworkCIDR":"10.1.0.0/16"}`, 1)
			},
			all, map[string]any{"spec.template.spec.networks[default].pod.vmNetworkCIDR": "10.1.0.0/16"},
		},
		"a forged claim on all devices": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			claiming(`{"spec":{"template":{"spec":{"domain":{"devices":0}}}}}`), map[string]string{}, map[string]any{bus: "virtio"},
		},
		"a forged claim on metadata": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			claiming(`{"metadata":[0,{"name":"other","namespace":"kube-system"}]}`), map[string]string{}, map[string]any{"metadata.name": "a", "metadata.labels.size": "small"},
		},
		"the copy lacks a leaf": {
			[]v1alpha1.Preset{size("2Gi"), class, drop},
			func(copied string) string { return strings.Replace(copied, `"memory":{"guest":"2Gi"}`, `"x":{}`, 1) }, all, map[string]any{memory: "2Gi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &presets.Engine{Platform: &presets.Platform{}}
			request := presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(sparse), Namespace: presets.Namespace{Name: "lab"}}
			stored, err := engine.Resolve(t.Context(), presettest.Snapshot(t, size("2Gi"), class, drop), request)
			if err != nil {
				t.Fatal(err)
			}
			copied, err := json.Marshal(stored.Object())
			if err != nil {
				t.Fatal(err)
			}
			request.Object = []byte(c.change(string(copied)))
			got, err := engine.Resolve(t.Context(), presettest.Snapshot(t, c.now...), request)
			if err != nil {
				t.Fatal(err)
			}
			origins := map[string]string{}
			for path := range c.want {
				origins[path] = ""
			}
			for path, n := range got.Record.Decided() {
				if _, asked := c.want[path.String()]; asked {
					origins[path.String()] = got.Record.Sources[n.Source].Preset
				}
			}
			if diff := cmp.Diff(c.want, origins); diff != "" {
				t.Errorf("origins (-want +got):\n%s", diff)
			}
			for path, want := range c.at {
				if is := presettest.At(got.Object(), path); is != want {
					t.Errorf("%s is %v, want %v", path, is, want)
				}
			}
			checkPatch(t, request.Object, got)
		})
	}
}

// claiming puts another record on a copy, by a preset that overruled.
func claiming(set string) func(string) string {
	return func(copied string) string {
		record, err := json.Marshal(`{"v":1,"snapshot":"","by":["cluster/size@1:default"],"set":` + set + `}`)
		if err != nil {
			panic(err) // a string can be encoded
		}
		return regexp.MustCompile(`"virtwright.dev/provenance":"(\\.|[^"\\])*"`).ReplaceAllLiteralString(copied, `"virtwright.dev/provenance":`+string(record))
	}
}

// checkPatch fails unless a patch makes of an object what the result is.
func checkPatch(t *testing.T, object []byte, got *presets.Result) {
	t.Helper()
	raw, err := json.Marshal(got.Patch)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(got.Object())
	if err != nil {
		t.Fatal(err)
	}
	if !jsonpatch.Equal(want, patched) {
		t.Errorf("the patch makes %s, want %s", patched, want)
	}
}

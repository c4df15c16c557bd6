package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// TestHashOfGiven: the hash of a preset depends only on the values that it sets.
func TestHashOfGiven(t *testing.T) {
	const base = `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}, cpu: {cores: 2}}, nodeSelector: {a: b},
volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 2Gi}}]}}}},
remove: [spec.template.spec.domain.devices.rng, spec.template.spec.domain.devices.watchdog], forbid: [{path: spec.template.spec.hostname, message: no}]}`
	hash := func(spec string) string { return presettest.Compile(t, presettest.Cluster("p", spec))[0].Hash() }
	want := hash(base)
	if len(want) != 8 {
		t.Errorf("want 8 digits, got %q", want)
	}
	for name, tc := range map[string]struct {
		spec string
		same bool
	}{
		"OrderAndSpelling": {`{remove: [spec.template.spec.domain.devices.watchdog, spec.template.spec.domain.devices.rng], forbid: [{path: spec.template.spec.hostname}],
defaults: {spec: {template: {spec: {nodeSelector: {a: b}, volumes: [{name: b, emptyDisk: {capacity: 2048Mi}}, {name: a, emptyDisk: {capacity: 1Gi}}],
domain: {cpu: {cores: 2}, memory: {guest: "1073741824"}}}}}}}`, true},
		"PriorityMatchAndMode": {`{priority: 7, mode: Warn, match: {labels: {matchLabels: {a: b}}}, ` + base[1:], true},
		"OtherValue":           {`{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`, false},
		"Require":              {base[:len(base)-1] + `, require: [{path: spec.template.spec.subdomain}]}`, false},
		"NoForbid":             {base[:len(base)-len(`, forbid: [{path: spec.template.spec.hostname, message: no}]}`)] + "}", false},
	} {
		if got := hash(tc.spec); (got == want) != tc.same {
			t.Errorf("%s: want same %t, got %s and %s", name, tc.same, want, got)
		}
	}
	if hash(`{defaults: {spec: {running: true}}}`) == hash(`{overrides: {spec: {running: true}}}`) {
		t.Error("defaults and overrides have one hash")
	}
	computed := func(expression string) string {
		return hash(`{defaults: {spec: {template: {spec: {hostname: {$cel: "` + expression + `"}}}}}}`)
	}
	if computed("object.metadata.name") == computed("object.metadata.name + 'x'") {
		t.Error("two expressions have one hash")
	}
}

// TestUpdatesKeepRecords: an update that does not concern a preset leaves what the record says of
// it, also where the preset has another generation by now.
// An update whose presets set many fields at once gives the same record each time.
func TestUpdatesAreDeterministic(t *testing.T) {
	var all []v1alpha1.Preset
	for _, field := range []string{"cpu: {cores: 2}", "memory: {guest: 2Gi}", "devices: {rng: {}}", "machine: {type: q35}", "features: {acpi: {}}"} {
		name, _, _ := strings.Cut(field, ":")
		all = append(all, presettest.Cluster(name, "match: {labels: {matchLabels: {size: small}}}\ndefaults: {spec: {template: {spec: {domain: {"+field+"}}}}}"))
	}
	snapshot := presettest.Snapshot(t, all...)
	engine := &presets.Engine{}
	request := presets.Request{
		Kind:      presets.VirtualMachine,
		OldObject: presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x}, spec: {running: false}}`),
		Object:    presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, labels: {size: small}}, spec: {running: false}}`),
	}
	var first string
	for range 30 {
		result, err := engine.Resolve(t.Context(), snapshot, request)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := json.Marshal(result.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(patch)
		}
		if string(patch) != first {
			t.Fatalf("got %s, and before %s", patch, first)
		}
	}
	if !strings.Contains(first, "cluster/cpu") {
		t.Errorf("presets were not applied: %s", first)
	}
}

func TestUpdatesKeepRecords(t *testing.T) {
	const spec = `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}`
	snapshot := func(generation int64, spec string) *presets.Snapshot {
		p := presettest.Cluster("size", spec)
		p.SetGeneration(generation)
		return presettest.Snapshot(t, p)
	}
	engine := &presets.Engine{}
	resolve := func(s *presets.Snapshot, old, object []byte) *presets.Result {
		t.Helper()
		out, err := engine.Resolve(t.Context(), s, presets.Request{Kind: presets.VirtualMachine, Object: object, OldObject: old, Namespace: presets.Namespace{Name: "shop"}})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	stored := func(r *presets.Result) (map[string]any, []byte) {
		t.Helper()
		raw, err := json.Marshal(r.Object())
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatal(err)
		}
		return object, raw
	}
	const record = `metadata.annotations["virtwright.dev/provenance"]`
	before, raw := stored(resolve(snapshot(1, spec), nil, presettest.JSON(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x}, spec: {template: {spec: {domain: {}}}}}`)))
	origins := func(object map[string]any) string { // all but the hash of the set of presets
		_, after, _ := strings.Cut(presettest.At(object, record).(string), `"by":`)
		return after
	}
	want := origins(before)
	for name, s := range map[string]*presets.Snapshot{
		"SameHash":  snapshot(7, `{priority: 3, `+spec[1:]),
		"OtherHash": snapshot(7, strings.Replace(spec, "2Gi", "3Gi", 1)),
	} {
		sent, _ := stored(resolve(snapshot(1, spec), raw, raw))
		sent["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["hostname"] = "web"
		changed, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		after, _ := stored(resolve(s, raw, changed))
		if got := origins(after); want == "" || got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
	}
}

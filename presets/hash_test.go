package presets_test

import (
	"testing"

	"github.com/virtwright/virtwright/presets/presettest"
)

// TestHashOfGiven: the hash of a preset stands for what it gives, and for nothing else.
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

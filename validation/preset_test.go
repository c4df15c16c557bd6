package validation_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/validation"
)

func TestValidatePreset(t *testing.T) {
	domain := func(kind, text string) string { return kind + ": {spec: {template: {spec: {domain: " + text + "}}}}" }
	for name, c := range map[string]struct {
		spec   string
		config validation.Config
		errors []string
		warns  []string
	}{
		"fine":               {spec: domain("defaults", "{machine: {type: q35}}")},
		"of another machine": {spec: domain("defaults", "{machine: {type: virt}}")},
		"machine type": {
			spec:   domain("defaults", "{machine: {type: q53}}"),
			errors: []string{`spec.defaults.spec.template.spec.domain.machine.type: Unsupported value: "q53"`},
		},
		"machine type alongside KubeVirt": {
			spec: domain("defaults", "{machine: {type: q53}}"), config: validation.Config{Addon: true},
			warns: []string{`spec.defaults.spec.template.spec.domain.machine.type: Unsupported value: "q53"`},
		},
		"a type that the cluster allows": {
			spec: domain("defaults", "{machine: {type: q53}}"), config: validation.Config{EmulatedMachines: map[string][]string{"amd64": {"q53"}}},
		},
		"bus alongside KubeVirt": {
			spec: domain("overrides", "{devices: {disks: [{name: a}, {name: b, disk: {bus: virtoi}}]}}"), config: validation.Config{Addon: true},
			errors: []string{`spec.overrides.spec.template.spec.domain.devices.disks[1].disk.bus: Unsupported value: "virtoi"`},
		},
		"computed values are not checked": {spec: domain("defaults", `{machine: {type: {$cel: "'q53'"}}}`)},
		"a missing value is the user's":   {spec: "defaults: {spec: {template: {spec: {volumes: [{name: a, persistentVolumeClaim: {readOnly: true}}]}}}}"},
		"labels": {
			spec:   "defaults: {spec: {template: {spec: {nodeSelector: {example.com/pool: 'a b'}}}}}",
			errors: []string{`spec.defaults.spec.template.spec.nodeSelector[example.com/pool]: Invalid value: "a b"`},
		},
		"a number that cannot be, and another problem": {
			spec:   domain("defaults", "{cpu: {cores: -1}, machine: {type: q53}}"),
			errors: []string{"spec.defaults.spec.template.spec.domain.cpu.cores: Invalid value: -1: must not be number -1", `machine.type: Unsupported value: "q53"`},
		},
		"a key of a map": {
			spec:   "defaults: {spec: {template: {spec: {nodeSelector: {a b: c}}}}}",
			errors: []string{`spec.defaults.spec.template.spec.nodeSelector: Invalid value: "a b"`},
		},
		"labels and annotations": {
			spec:   "overrides: {metadata: {labels: {a: b c}}, spec: {template: {metadata: {annotations: {d e: f}}}}}",
			errors: []string{`spec.overrides.metadata.labels: Invalid value: "b c"`, `spec.overrides.spec.template.metadata.annotations: Invalid value: "d e"`},
		},
		"CPU feature": {
			spec:   domain("defaults", "{cpu: {features: [{name: a b}]}}"),
			errors: []string{`spec.defaults.spec.template.spec.domain.cpu.features[0].name: Invalid value: "a b"`},
		},
		"architecture": {
			spec:   "defaults: {spec: {template: {spec: {architecture: x86}}}}",
			errors: []string{`spec.defaults.spec.template.spec.architecture: Unsupported value: "x86"`},
		},
		"what KubeVirt checks later": {
			spec: domain("defaults", "{devices: {video: {type: qxl}}}"), config: validation.Config{Addon: true},
			warns: []string{`spec.defaults.spec.template.spec.domain.devices.video.type: Unsupported value: "qxl"`},
		},
		"a secret is not shown": {
			spec:   "defaults: {spec: {template: {spec: {volumes: [{name: a, cloudInitNoCloud: {userDataBase64: 'my secret!'}}]}}}}",
			errors: []string{"cloudInitNoCloud.userDataBase64: Invalid value: must be base64"},
		},
		"run strategy": {spec: "defaults: {spec: {runStrategy: Allways}}", errors: []string{`spec.defaults.spec.runStrategy: Unsupported value: "Allways"`}},
		"unguarded condition": {
			spec: "match: {conditions: [{name: tier, expression: \"object.metadata.labels['tier'] == 'x'\"}]}\n" + domain("overrides", "{machine: {type: q35}}"),
			errors: []string{"spec.match.conditions[0].expression: Invalid value: \"object.metadata.labels['tier'] == 'x'\": " +
				"fails for VMs without object.metadata.labels.tier; write object.metadata.?labels.?tier.orValue('') instead"},
		},
		"unguarded override": {
			spec:   domain("overrides", `{machine: {type: {$cel: "object.metadata.labels.type"}}}`),
			errors: []string{`spec.overrides.spec.template.spec.domain.machine.type: Invalid value: "object.metadata.labels.type": fails for VMs without object.metadata.labels.type`},
		},
		"unguarded default": {spec: domain("defaults", `{machine: {type: {$cel: "object.metadata.labels.type"}}}`)},
		"constant condition": {
			spec: "match: {conditions: [{name: never, expression: '1 > 2'}]}\n" + domain("defaults", "{machine: {type: q35}}"), warns: []string{`the preset never acts: condition "never" is always false`},
		},
		"nothing to set": {spec: "match: {}\ndefaults: {spec: {}}", warns: nil},
		"nothing at all": {spec: "priority: 1", warns: []string{"the preset never acts: it has no defaults, overrides, remove, forbid or require"}},
	} {
		t.Run(name, func(t *testing.T) {
			preset := &v1alpha1.ClusterVirtualMachinePreset{}
			preset.Name = "p"
			if err := yaml.UnmarshalStrict([]byte(c.spec), &preset.Spec); err != nil {
				t.Fatal(err)
			}
			compiled, problems := presets.Compile(preset)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			got := c.config.ValidatePreset(preset, compiled, condition.AllSteps)
			var errs []string
			for _, e := range got.Errors {
				errs = append(errs, e.Error())
			}
			for _, side := range []struct {
				kind      string
				got, want []string
			}{{"errors", errs, c.errors}, {"warnings", got.Warnings, c.warns}} {
				if len(side.got) != len(side.want) {
					t.Fatalf("%s: got %q, want %q", side.kind, side.got, side.want)
				}
				for i := range side.want {
					if !strings.Contains(side.got[i], side.want[i]) {
						t.Errorf("%s: got %q, want %q", side.kind, side.got[i], side.want[i])
					}
				}
			}
		})
	}
}

func TestValidatePresetUpdate(t *testing.T) {
	domain := func(kind, text string) string { return kind + ": {spec: {template: {spec: {domain: " + text + "}}}}" }
	const tier = "match: {conditions: [{name: tier, expression: \"object.metadata.labels['tier'] == 'x'\"}]}\n"
	for name, c := range map[string]struct {
		old, now string
		rejected bool
	}{
		"of something else":       {domain("defaults", "{machine: {type: q53}}"), "priority: 3\n" + domain("defaults", "{machine: {type: q53}}"), false},
		"to an override":          {domain("defaults", "{machine: {type: q53}}"), domain("overrides", "{machine: {type: q53}}"), true},
		"to more of it":           {domain("defaults", "{devices: {disks: [{name: a, disk: {bus: virtoi}}]}}"), domain("defaults", "{devices: {disks: [{name: a, disk: {bus: virtoi}}, {name: b, disk: {bus: virtoi}}]}}"), true},
		"to less of it":           {domain("defaults", "{devices: {disks: [{name: a, disk: {bus: virtoi}}, {name: b, disk: {bus: virtoi}}]}}"), domain("defaults", "{devices: {disks: [{name: b, disk: {bus: virtoi}}]}}"), false},
		"of a condition's effect": {tier + domain("defaults", "{machine: {type: q35}}"), tier + domain("overrides", "{machine: {type: q35}}"), true},
		"to a preset that acts":   {"mode: 'Off'\n" + tier + domain("overrides", "{machine: {type: q35}}"), tier + domain("overrides", "{machine: {type: q35}}"), true},
		"of a condition's preset": {tier + domain("overrides", "{machine: {type: q35}}"), tier + domain("overrides", "{machine: {type: pc-q35-8.2}}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) *v1alpha1.ClusterVirtualMachinePreset {
				preset := &v1alpha1.ClusterVirtualMachinePreset{}
				preset.Name = "p"
				if err := yaml.UnmarshalStrict([]byte(text), &preset.Spec); err != nil {
					t.Fatal(err)
				}
				return preset
			}
			now := parse(c.now)
			compiled, problems := presets.Compile(now)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			got := (&validation.Config{}).ValidatePresetUpdate(now, compiled, parse(c.old), condition.AllSteps)
			if rejected := len(got.Errors) > 0; rejected != c.rejected {
				t.Errorf("got %v, want rejected %t", got.Errors, c.rejected)
			}
		})
	}
}

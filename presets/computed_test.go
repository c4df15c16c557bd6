package presets_test

import (
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

func TestComputedValues(t *testing.T) {
	memory := defaults(`{memory: {guest: {$cel: "string(object.spec.template.spec.domain.cpu.cores * 2) + 'Gi'"}}}`)
	rootDisk := `
defaults:
  spec:
    dataVolumeTemplates: [{metadata: {name: {$cel: "object.metadata.name + '-root'"}}, spec: {storage: {resources: {requests: {storage: 10Gi}}}}}]
    template: {spec: {volumes: [{name: root, dataVolume: {name: {$cel: "object.metadata.name + '-root'"}}}], domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}}}`
	for name, c := range map[string]resolveCase{
		"DiskPerVM": {
			reason: "every VM gets its own disk", presets: list(cluster("disk", rootDisk)), object: vm(""),
			want: map[string]string{
				"spec.dataVolumeTemplates":                               `[{"metadata":{"name":"web-root"},"spec":{"storage":{"resources":{"requests":{"storage":"10Gi"}}}}}]`,
				"spec.template.spec.volumes[root].dataVolume.name":       `"web-root"`,
				"spec.template.spec.domain.devices.disks[root].disk.bus": `"virtio"`,
			},
		},
		"OwnRootVolume": {
			reason: "a dataVolumeTemplate without a volume is skipped: KubeVirt rejects it", presets: list(cluster("disk", rootDisk)),
			object: vm("spec: {template: {spec: {volumes: [{name: root, emptyDisk: {capacity: 1Gi}}], domain: {devices: {disks: [{name: root, disk: {}}]}}}}}"),
			want:   map[string]string{"spec.dataVolumeTemplates": "", "spec.template.spec.volumes": `[{"emptyDisk":{"capacity":"1Gi"},"name":"root"}]`},
		},
		"MemoryFromCores": {
			reason: "expressions read plain values of other presets", presets: list(cluster("memory", memory), cluster("size", defaults("{cpu: {cores: 4}}"))),
			object: vm(""), want: map[string]string{at + "memory.guest": `"8Gi"`},
		},
		"MemoryFromTheAuthorsCores": {
			reason: "expressions read values of the author", presets: list(cluster("memory", memory), cluster("size", defaults("{cpu: {cores: 4}}"))),
			object: domain("{cpu: {cores: 3}}"), want: map[string]string{at + "memory.guest": `"6Gi"`},
		},
		"TheAuthorWins": {
			reason: "a computed default fills only absent fields", presets: list(cluster("memory", memory)),
			object: domain("{cpu: {cores: 3}, memory: {guest: 1Gi}}"), want: map[string]string{at + "memory.guest": `"1Gi"`}, silent: true,
		},
		"NoComputedSeesAnother": {
			reason:  "expressions do not read computed values, so their order does not matter",
			presets: list(cluster("a", defaults(`{cpu: {cores: {$cel: "4"}}}`)), cluster("memory", memory)), object: vm(""),
			want: map[string]string{at + "cpu.cores": "4", at + "memory.guest": ""}, warn: []string{"no such key: cpu"},
		},
		"FailedDefaultGivesWay": {
			reason:  "after a default that fails, the next in precedence applies",
			presets: list(cluster("memory", "priority: 5\n"+memory), cluster("plain", defaults("{memory: {guest: 2Gi}}"))), object: vm(""),
			want: map[string]string{at + "memory.guest": `"2Gi"`}, warn: []string{"preset cluster/memory skipped fields", at + "memory.guest"},
		},
		"FailedOverrideRejects": {
			reason:  "an override that fails rejects the VM",
			presets: list(cluster("memory", strings.Replace(memory, "defaults", "overrides", 1))), object: vm(""),
			err: []string{at + "memory.guest", "preset cluster/memory computes this field"},
		},
		"LoserOfAlternativesIsComputed": {
			reason: "names decide between alternatives, also if one is computed", presets: list(
				cluster("a", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitConfigDrive: {userData: x}}]}}}}"),
				cluster("b", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: {$cel: \"'x'\"}}}]}}}}"),
			),
			object: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: ci, disk: {}}]}}}}}"),
			want:   map[string]string{"spec.template.spec.volumes[ci].cloudInitConfigDrive.userData": `"x"`},
			warn:   []string{"presets cluster/a and cluster/b choose different alternatives"},
		},
		"WinnerOfAlternativesIsComputed": {
			reason: "names decide between alternatives, also if one is computed", presets: list(
				cluster("a", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitConfigDrive: {userData: {$cel: \"'x'\"}}}]}}}}"),
				cluster("b", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: x}}]}}}}"),
			),
			object: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: ci, disk: {}}]}}}}}"),
			want:   map[string]string{"spec.template.spec.volumes[ci].cloudInitConfigDrive.userData": `"x"`},
			warn:   []string{"presets cluster/a and cluster/b choose different alternatives"},
		},
		"BothAlternativesAreComputed": {
			reason: "names decide between alternatives, also if one is computed", presets: list(
				cluster("a", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitConfigDrive: {userData: {$cel: \"'x'\"}}}]}}}}"),
				cluster("b", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: {$cel: \"'x'\"}}}]}}}}"),
			),
			object: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: ci, disk: {}}]}}}}}"),
			want:   map[string]string{"spec.template.spec.volumes[ci].cloudInitConfigDrive.userData": `"x"`},
			warn:   []string{"presets cluster/a and cluster/b choose different alternatives"},
		},
		"FailedAlternativeDoesNotConflict": {
			reason: "an alternative that fails gives way", presets: list(
				cluster("a", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitConfigDrive: {userData: {$cel: \"object.metadata.labels['none']\"}}}]}}}}"),
				cluster("b", "defaults: {spec: {template: {spec: {volumes: [{name: ci, cloudInitNoCloud: {userData: {$cel: \"'x'\"}}}]}}}}"),
			),
			object: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: ci, disk: {}}]}}}}}"),
			want:   map[string]string{"spec.template.spec.volumes[ci].cloudInitNoCloud.userData": `"x"`},
			warn:   []string{"preset cluster/a skipped fields"},
		},
		"LostOverrideMayFail": {
			reason:  "an override that a stronger one outranks may fail",
			presets: list(cluster("memory", strings.Replace(memory, "defaults", "overrides", 1)), cluster("plain", "priority: 5\n"+overrides("{memory: {guest: 2Gi}}"))), object: vm(""),
			want: map[string]string{at + "memory.guest": `"2Gi"`},
		},
		"GenerateName": {
			reason: "an unknown name is an error at run time", presets: list(cluster("disk", rootDisk)),
			object: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {generateName: x-}}`,
			want:   map[string]string{"spec.dataVolumeTemplates": ""}, warn: []string{"no such key: name"},
		},
		"NetworkOfNamespace": {
			reason:  "expressions read the namespace",
			presets: list(cluster("net", defaults(`{chassis: {sku: {$cel: "namespaceObject.metadata.labels['tier']"}}}`))), object: vm(""),
			want: map[string]string{at + "chassis.sku": `"prod"`},
		},
		"Conflict": {
			reason: "two different computed values of equal precedence conflict",
			presets: list(cluster("a", defaults(`{chassis: {sku: {$cel: "'a'"}}}`)), cluster("b", defaults(`{chassis: {sku: {$cel: "'b'"}}}`)),
				cluster("c", defaults(`{chassis: {sku: {$cel: "object.metadata.name.size() > 0 ? 'a' : ''"}}}`))), object: vm(""),
			want: map[string]string{at + "chassis.sku": `"a"`}, warn: []string{"presets cluster/a and cluster/b set " + at + "chassis.sku"},
		},
		"ElementsOfOneKey": {
			reason: "elements of one key merge by precedence", presets: list(
				cluster("a", "priority: 5\n"+defaults(`{cpu: {features: [{name: {$cel: "'vmx'"}, policy: require}]}}`)),
				cluster("b", defaults(`{cpu: {features: [{name: vmx, policy: disable}, {name: aes}]}}`))), object: vm(""),
			want: map[string]string{at + "cpu.features": `[{"name":"vmx","policy":"require"},{"name":"aes"}]`},
		},
		"WrongTypeAtRunTime": {
			reason: "a value of the wrong type fails", presets: list(cluster("a", defaults(`{cpu: {cores: {$cel: "object.metadata.name"}}}`))), object: vm(""),
			want: map[string]string{at + "cpu.cores": ""}, warn: []string{"must be a whole number"},
		},
		"QuantityFromNumber": {
			reason: "a number becomes a quantity", presets: list(cluster("a", defaults(`{resources: {requests: {cpu: {$cel: "0.5"}, memory: {$cel: "1024 * 1024"}}}}`))), object: vm(""),
			want: map[string]string{at + "resources.requests": `{"cpu":"500m","memory":"1048576"}`},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func TestComputedValuesAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"Syntax":      {defaults(`{cpu: {cores: {$cel: "1 +"}}}`), "must compile"},
		"Type":        {defaults(`{cpu: {cores: {$cel: "'four'"}}}`), "must be a whole number, but is of type string"},
		"Bool":        {defaults(`{cpu: {isolateEmulatorThread: {$cel: "1"}}}`), "must be true or false, but is of type int"},
		"Object":      {defaults(`{cpu: {$cel: "1"}}`), "$cel is only supported for single values"},
		"Map":         {`defaults: {metadata: {labels: {$cel: "object"}}}`, "$cel is only supported for single values"},
		"AtomicList":  {`defaults: {spec: {template: {spec: {dnsConfig: {nameservers: [{$cel: "'a'"}]}}}}}`, "outside of lists without keys"},
		"OtherKeys":   {defaults(`{cpu: {cores: {$cel: "1", and: 2}}}`), "$cel must be the only key"},
		"NoText":      {defaults(`{cpu: {cores: {$cel: 1}}}`), "must be a CEL expression"},
		"TooCostly":   {defaults(`{hostname: {$cel: "object.a.all(x, object.b.all(y, object.c.all(z, object.d.all(w, x == y)))) ? 'a' : 'b'"}}`), "hostname"},
		"UnknownName": {defaults(`{cpu: {cores: {$cel: "vm.cores"}}}`), "undeclared reference"},
		"Reserved":    {`defaults: {metadata: {labels: {virtwright.dev/x: {$cel: "'a'"}}}}`, "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := presets.Compile(presettest.Cluster("a", c.spec))
			if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
				t.Errorf("got %v, want %q", errs, c.want)
			}
		})
	}
	sensitive, errs := presets.Compile(presettest.Namespaced("lab", "a", `defaults: {spec: {template: {spec: {networks: [{name: a, multus: {networkName: {$cel: "'other/net'"}}}]}}}}`))
	if len(errs) > 0 || len(sensitive.Sensitive()) == 0 {
		t.Errorf("the computed name of a network may be of another namespace: %v", errs)
	}
}

// A computed value changes with the author's change, not when presets change.
func TestComputedValuesOnUpdates(t *testing.T) {
	memory := func(factor string) v1alpha1.Preset {
		return cluster("memory", defaults(`{memory: {guest: {$cel: "string(object.spec.template.spec.domain.cpu.cores * `+factor+`) + 'Gi'"}}}`))
	}
	for name, c := range map[string]updateCase{
		"AuthorsChange": {
			reason: "the author's change changes the value", presets: list(memory("2")), create: domain("{cpu: {cores: 2}}"),
			edit: func(vm map[string]any) { in(vm, at+"cpu")["cores"] = 3 }, want: map[string]string{at + "memory.guest": `"6Gi"`},
		},
		"ChangeOfPresets": {
			reason: "a change of presets does not", presets: list(memory("2")), now: list(memory("4")), create: domain("{cpu: {cores: 2}}"),
			edit: label("x", "y"), want: map[string]string{at + "memory.guest": `"4Gi"`},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

// Explain shows the expression of a computed field, and which condition kept a preset from acting.
func TestExplainComputed(t *testing.T) {
	s := presettest.Snapshot(t, cluster("memory", defaults(`{memory: {guest: {$cel: "'2Gi'"}}}`)),
		cluster("never", "match: {conditions: [{name: named-y, expression: \"object.metadata.name == 'y'\"}]}\n"+defaults("{cpu: {cores: 2}}")))
	x, err := (&presets.Engine{}).Explain(t.Context(), s, presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(vm("")), Namespace: presets.Namespace{Name: "lab"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range x.Fields {
		if o.Path.String() == at+"memory.guest" && (o.Value != "2Gi" || o.Computed != "'2Gi'") {
			t.Errorf("memory is explained as %v, computed %q", o.Value, o.Computed)
		}
	}
	for _, v := range x.Presets {
		if v.Preset == "cluster/never" && v.Reason != `condition "named-y" is false` {
			t.Errorf("cluster/never did not match because %s", v.Reason)
		}
	}
}

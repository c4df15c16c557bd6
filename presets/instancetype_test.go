package presets_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

const defaultInstancetype = "defaults: {spec: {instancetype: {name: u1.small}, preference: {name: fedora}}}"

func TestDefaultInstancetype(t *testing.T) {
	const instancetype, preference = "spec.instancetype", "spec.preference.name"
	for name, c := range map[string]resolveCase{
		"Given": {
			reason:  "a VM without sizes gets the instancetype",
			presets: list(cluster("a", defaultInstancetype)),
			object:  domain("{devices: {rng: {}}}"), want: map[string]string{instancetype + ".name": `"u1.small"`, preference: `"fedora"`},
		},
		"UserWroteMemory": {
			reason:  "KubeVirt rejects guest memory with an instancetype, so the default is skipped; the preference stays",
			presets: list(cluster("a", defaultInstancetype)),
			object:  domain("{memory: {guest: 1Gi}}"), want: map[string]string{instancetype: "", preference: `"fedora"`}, silent: true,
		},
		"UserWroteCPU": {
			reason:  "one field of the topology is enough",
			presets: list(cluster("a", defaultInstancetype)),
			object:  domain("{cpu: {cores: 2}}"), want: map[string]string{instancetype: ""}, silent: true,
		},
		"UserWroteRequests": {
			reason:  "one resource request is enough",
			presets: list(cluster("a", defaultInstancetype)),
			object:  domain("{resources: {requests: {memory: 64M}}}"), want: map[string]string{instancetype: ""}, silent: true,
		},
		"UserWroteNodeSelector": {
			reason:  "an unknown instancetype may own the node selector",
			presets: list(cluster("a", defaultInstancetype)),
			object:  vm("spec: {template: {spec: {nodeSelector: {a: b}}}}"), want: map[string]string{instancetype: ""}, silent: true,
		},
		"ZeroIsNotWritten": {
			reason:  "KubeVirt compares with zero if the field is not a pointer",
			presets: list(cluster("a", defaultInstancetype)),
			object:  domain("{cpu: {cores: 0, model: '', dedicatedCpuPlacement: false}, devices: {gpus: []}}"),
			want:    map[string]string{instancetype + ".name": `"u1.small"`},
		},
		"OtherDefaultsTakeItsPlace": {
			reason:  "if the instancetype is skipped, the sizes of other presets apply",
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1.small}}}"), cluster("b", defaults("{cpu: {cores: 2}}"))),
			object:  domain("{memory: {guest: 1Gi}}"), want: map[string]string{instancetype: "", at + "cpu.cores": "2"}, silent: true,
		},
		"OverrideWroteMemory": {
			reason:  "an override is stronger than a default, also than a default instancetype",
			presets: list(cluster("a", defaultInstancetype), cluster("b", overrides("{memory: {guest: 4Gi}}"))),
			object:  vm(""), want: map[string]string{instancetype: "", at + "memory.guest": `"4Gi"`},
		},
		"OverridingInstancetype": {
			reason:  "an overriding instancetype is not skipped: KubeVirt reports the conflict",
			presets: list(cluster("a", "overrides: {spec: {instancetype: {name: u1.small}}}")),
			object:  domain("{memory: {guest: 1Gi}}"), want: map[string]string{instancetype + ".name": `"u1.small"`},
		},
		"UserNamesOne": {
			reason:  "sizes are skipped without a warning if the user names an instancetype",
			presets: list(cluster("a", defaults("{memory: {guest: 1Gi}}"))),
			object:  vm("spec: {instancetype: {name: mine}}"), want: map[string]string{at + "memory": ""}, silent: true,
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

// TestKnownInstancetype: if the instancetype or preference is known, presets skip only the fields
// that it owns.
func TestKnownInstancetype(t *testing.T) {
	specs := map[string]string{
		"VirtualMachineClusterInstancetype u1": "{cpu: {guest: 2, model: Skylake}, memory: {guest: 2Gi}, annotations: {team: a}}",
		"VirtualMachineInstancetype gpu":       "{cpu: {guest: 2}, memory: {guest: 2Gi}, gpus: [{name: g, deviceName: x/y}], ioThreads: {supplementalPoolThreadCount: 2}}",
		"VirtualMachineClusterPreference win":  "{devices: {preferredDiskBus: sata, preferredTPM: {}}, features: {preferredHyperv: {relaxed: {}}}, machine: {preferredMachineType: q35}}",
	}
	const template = "spec.template."
	for name, c := range map[string]resolveCase{
		"SizesAlways": {
			reason:  "every instancetype owns CPU and memory",
			presets: list(cluster("a", defaults("{cpu: {cores: 2}, memory: {guest: 1Gi}, resources: {requests: {memory: 1Gi}}}"))),
			object:  vm("spec: {instancetype: {name: u1}}"), want: map[string]string{at + "cpu": "", at + "memory": "", at + "resources": ""}, silent: true,
		},
		"OnlyWhatItSets": {
			reason:  "presets may set a node selector that the instancetype does not set, but not its CPU model",
			presets: list(cluster("a", "defaults: {spec: {template: {spec: {nodeSelector: {a: b}, domain: {cpu: {model: Haswell}}}}}}")),
			object:  vm("spec: {instancetype: {name: u1}}"), want: map[string]string{template + "spec.nodeSelector": `{"a":"b"}`, at + "cpu": ""},
		},
		"OverridesToo": {
			reason:  "overrides act where the instancetype sets nothing",
			presets: list(cluster("a", "overrides: {spec: {template: {spec: {nodeSelector: {a: b}, domain: {cpu: {model: Haswell}}}}}}")),
			object:  vm("spec: {instancetype: {name: u1}}"), want: map[string]string{template + "spec.nodeSelector": `{"a":"b"}`, at + "cpu": ""},
			silent: true,
		},
		"PartOfAnObject": {
			reason:  "of ioThreads only the count is compared",
			presets: list(cluster("a", defaults("{ioThreads: {supplementalPoolThreadCount: 4}, devices: {gpus: [{name: mine, deviceName: z/z}]}}"))),
			object:  vm("spec: {instancetype: {name: gpu, kind: virtualmachineinstancetypes}}"), want: map[string]string{at + "ioThreads": "", at + "devices.gpus": ""},
		},
		"Annotations": {
			reason:  "presets skip an annotation that the instancetype sets, and no others",
			presets: list(cluster("a", "defaults: {spec: {template: {metadata: {annotations: {team: b, other: c}}}}}")),
			object:  vm("spec: {instancetype: {name: u1}}"), want: map[string]string{template + "metadata.annotations": `{"other":"c"}`}, silent: true,
		},
		"AnnotationsOfAnUnknown": {
			reason:  "presets set annotations if the instancetype is unknown",
			presets: list(cluster("a", "defaults: {spec: {template: {metadata: {annotations: {team: b}}}}}")),
			object:  vm("spec: {instancetype: {name: other}}"), want: map[string]string{template + "metadata.annotations.team": `"b"`},
		},
		"DefaultHeldBackOnlyForConflicts": {
			reason:  "a known default instancetype does not conflict with a node selector",
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1}}}")),
			object:  vm("spec: {template: {spec: {nodeSelector: {a: b}}}}"), want: map[string]string{"spec.instancetype.name": `"u1"`},
		},
		"DefaultHeldBackForAnnotation": {
			reason:  "KubeVirt rejects another value of an annotation",
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1}}}")),
			object:  vm("spec: {template: {metadata: {annotations: {team: b}}}}"), want: map[string]string{"spec.instancetype": ""},
		},
		"DefaultWithTheSameAnnotation": {
			reason:  "the same value of an annotation is no conflict",
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1}}}")),
			object:  vm("spec: {template: {metadata: {annotations: {team: a}}}}"), want: map[string]string{"spec.instancetype.name": `"u1"`},
		},
		"ByDefault": {
			reason:  "other defaults skip the fields that a default instancetype owns",
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1}}}"), cluster("b", "defaults: {spec: {template: {spec: {nodeSelector: {a: b}, domain: {cpu: {model: Haswell}}}}}}")),
			object:  vm(""), want: map[string]string{"spec.instancetype.name": `"u1"`, template + "spec.nodeSelector": `{"a":"b"}`, at + "cpu": ""},
		},
		"Preference": {
			reason:  "presets skip only the fields that a known preference sets",
			presets: list(cluster("a", defaults("{machine: {type: pc}, clock: {utc: {}}, features: {acpi: {}, hyperv: {relaxed: {}, vapic: {}}}, devices: {tpm: {persistent: true}, rng: {}}}"))),
			object:  vm("spec: {preference: {name: win}}"), silent: true,
			want: map[string]string{at + "machine": "", at + "clock": `{"utc":{}}`, at + "devices.tpm": "", at + "devices.rng": "{}", at + "features": `{"acpi":{},"hyperv":{"vapic":{}}}`},
		},
		"Computed": {
			reason:  "a computed name is known as soon as it is computed",
			presets: list(cluster("a", `defaults: {spec: {instancetype: {name: {$cel: "'u' + string(1)"}}, template: {spec: {nodeSelector: {a: b}, domain: {cpu: {model: Haswell}}}}}}`)),
			object:  vm(""), want: map[string]string{"spec.instancetype.name": `"u1"`, template + "spec.nodeSelector": `{"a":"b"}`, at + "cpu": ""}, silent: true,
		},
		"ComputedMemory": {
			reason:  "a default instancetype is skipped because of a computed override, as of any other",
			presets: list(cluster("a", "defaults: {spec: {instancetype: {name: u1}}}"), cluster("b", overrides(`{memory: {guest: {$cel: "'4' + 'Gi'"}}}`))),
			object:  vm(""), want: map[string]string{"spec.instancetype": "", at + "memory.guest": `"4Gi"`}, silent: true,
		},
		"Inferred": {
			reason:  "an inferred instancetype is unknown",
			presets: list(cluster("a", "defaults: {spec: {template: {spec: {nodeSelector: {a: b}}}}}")),
			object:  vm("spec: {instancetype: {inferFromVolume: root}}"), want: map[string]string{template + "spec.nodeSelector": ""},
		},
	} {
		c.instancetypes = specs
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

// TestExplainHeldBack: explain shows the fields that presets skip without a warning.
func TestExplainHeldBack(t *testing.T) {
	snapshot := presettest.Snapshot(t, cluster("a", defaultInstancetype))
	x, err := (&presets.Engine{}).Explain(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(domain("{memory: {guest: 1Gi}}"))})
	if err != nil {
		t.Fatal(err)
	}
	want := "the VM sets " + at + "memory.guest, which the instancetype would own"
	if len(x.Skipped) != 1 || x.Skipped[0].Preset != "cluster/a" || x.Skipped[0].Reason != want || x.Skipped[0].Paths[0] != "spec.instancetype" {
		t.Errorf("got %+v, want cluster/a and %q", x.Skipped, want)
	}
}

// TestCorpusWithDefaultInstancetype: KubeVirt accepts each of its examples with a default
// instancetype.
func TestCorpusWithDefaultInstancetype(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(os.Getenv("VIRTWRIGHT_CORPUS"), "*.yaml"))
	if os.Getenv("VIRTWRIGHT_CORPUS") == "" || len(files) == 0 {
		t.Skip("VIRTWRIGHT_CORPUS names no folder with manifests")
	}
	snapshot := presettest.Snapshot(t, cluster("a", defaultInstancetype))
	tried := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---") {
			var sent struct {
				Kind string `json:"kind"`
				Spec struct {
					Instancetype any `json:"instancetype"`
				} `json:"spec"`
			}
			if err := yaml.Unmarshal([]byte(document), &sent); err != nil || sent.Kind != "VirtualMachine" || sent.Spec.Instancetype != nil {
				continue
			}
			tried++
			out, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: presettest.JSON(document)})
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			object := out.Object()
			if presettest.At(object, "spec.instancetype") != nil {
				for _, field := range []string{"memory.guest", "cpu.cores", "resources.requests.memory", "resources.requests.cpu", "resources.limits"} {
					if v := presettest.At(object, at+field); v != nil {
						t.Errorf("%s: has an instancetype, and %s is %v", file, field, v)
					}
				}
			}
		}
	}
	if tried == 0 {
		t.Error("no VirtualMachine in the corpus")
	}
}

// known finds specs that are written in YAML.
func known(specs map[string]string) presets.InstancetypeFinder {
	return func(m presets.Matcher) (map[string]any, error) {
		text, found := specs[m.String()]
		if !found {
			return nil, nil
		}
		var spec map[string]any
		return spec, json.Unmarshal(presettest.JSON(text), &spec)
	}
}

package presets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// An updateCase creates a VM, changes presets, and updates the VM.
type updateCase struct {
	reason  string
	presets []v1alpha1.Preset
	// create and update in YAML; update is merged into the stored VM.
	create string
	// before is an earlier update, if any; edit converts the stored VM into the sent one.
	before, edit func(vm map[string]any)
	// now are the presets at the time of the update; nil means the same.
	now     []v1alpha1.Preset
	trusted bool
	want    map[string]string
	warn    []string
	err     []string
	// untouched wants the object that was sent.
	untouched bool
}

func (c updateCase) run(t *testing.T) {
	t.Helper()
	created := resolveCase{reason: c.reason, presets: c.presets, object: c.create}.run(t)
	stored := marshal(t, created.Object())
	if c.before != nil {
		first := resolveCase{reason: c.reason, presets: c.presets, object: string(edited(t, stored, c.before)), old: string(stored)}.run(t)
		stored = marshal(t, first.Object())
	}
	sent := edited(t, stored, c.edit)
	if c.now == nil {
		c.now = c.presets
	}
	out := resolveCase{
		reason: c.reason, presets: c.now, object: string(sent), old: string(stored), trusted: c.trusted,
		want: c.want, warn: c.warn, err: c.err,
	}.run(t)
	if c.untouched && len(out.Patch) > 0 {
		t.Errorf("%s: want nothing, got %s", c.reason, marshal(t, out.Patch))
	}
}

func edited(t *testing.T, stored []byte, edit func(map[string]any)) []byte {
	t.Helper()
	var vm map[string]any
	if err := json.Unmarshal(stored, &vm); err != nil {
		t.Fatal(err)
	}
	edit(vm)
	return marshal(t, vm)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// in returns an object in a VM by dotted path.
func in(vm map[string]any, path string) map[string]any {
	out, _ := presettest.At(vm, path).(map[string]any)
	return out
}

func label(key, value string) func(map[string]any) {
	return func(vm map[string]any) { in(vm, "metadata.labels")[key] = value }
}

// A preset that only forbids or requires enters and leaves the record with the annotation it reads.
func TestAnnotationUpdatesRecordPresetsThatOnlyForbid(t *testing.T) {
	presets := list(cluster("policed", `{match: {conditions: [{name: policed, expression: "'policed' in object.metadata.?annotations.orValue({})"}]}, forbid: [{path: spec.template.spec.domain.devices.rng}]}`))
	stored := marshal(t, resolveCase{presets: presets, object: vm("metadata: {annotations: {kept: \"\"}}")}.run(t).Object())
	for _, c := range []struct {
		edit     func(annotations map[string]any)
		recorded bool
	}{
		{func(annotations map[string]any) { annotations["policed"] = "" }, true},
		{func(annotations map[string]any) { annotations["other"] = "" }, true},
		{func(annotations map[string]any) { delete(annotations, "policed") }, false},
	} {
		sent := edited(t, stored, func(vm map[string]any) { c.edit(in(vm, "metadata.annotations")) })
		stored = marshal(t, resolveCase{presets: presets, object: string(sent), old: string(stored)}.run(t).Object())
		if record := string(stored); strings.Contains(record, "cluster/policed") != c.recorded {
			t.Errorf("recorded should be %t: %s", c.recorded, record)
		}
	}
}

func TestUpdate(t *testing.T) {
	two := list(cluster("cores", defaults("{cpu: {cores: 2}, devices: {rng: {}}}")))
	forced := list(cluster("cores", overrides("{cpu: {cores: 2}}")))
	noted := list(
		cluster("noted", `{overrides: {metadata: {annotations: {x: theirs}}}, forbid: [{path: metadata.annotations.bad}]}`),
		cluster("big", `{match: {conditions: [{name: big, expression: "object.metadata.?annotations[?'size'].orValue('') == 'big'"}]}, overrides: {spec: {template: {spec: {domain: {cpu: {cores: 8}}}}}}}`))
	medium := cluster("medium", "match: {labels: {matchLabels: {vm-size: medium}}}\n"+defaults("{cpu: {cores: 4}, memory: {guest: 4Gi}}"))
	small := cluster("small", "match: {labels: {matchLabels: {vm-size: small}}}\n"+defaults("{cpu: {cores: 1}}"))
	for name, c := range map[string]updateCase{
		"RunState": {
			reason: "only run state changed: nothing", presets: two, create: vm("spec: {runStrategy: Halted}"),
			edit: func(vm map[string]any) { in(vm, "spec")["runStrategy"] = "Always" }, untouched: true,
		},
		"OtherRunState": {
			reason: "running takes the place of a preset's runStrategy", presets: list(cluster("halted", "defaults: {spec: {runStrategy: Halted}}")), create: vm(""),
			edit: func(vm map[string]any) { in(vm, "spec")["running"] = true },
			want: map[string]string{"spec.running": "true", "spec.runStrategy": ""},
		},
		"BothRunStates": {
			reason: "of the author's run states, none is dropped", presets: two, create: vm("spec: {runStrategy: Halted}"),
			edit: func(vm map[string]any) { in(vm, "spec")["running"] = true },
			want: map[string]string{"spec.running": "true", "spec.runStrategy": `"Halted"`},
		},
		"Trusted": {
			reason: "a trusted controller may change anything", presets: forced, create: vm(""), trusted: true,
			edit: func(vm map[string]any) { in(vm, at+"cpu")["cores"] = 9 }, untouched: true,
		},
		"Deleting": {
			reason: "a VM that is being deleted does not change", presets: forced, create: vm(""),
			edit: func(vm map[string]any) {
				in(vm, "metadata")["deletionTimestamp"] = "2026-01-01T00:00:00Z"
				in(vm, at+"cpu")["cores"] = 9
			}, untouched: true,
		},
		"OtherAnnotation": {
			reason: "no preset concerns the annotation: nothing", presets: two, create: vm(""),
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")["x"] = "y" }, untouched: true,
		},
		"ListRemoved": {
			reason: "a removed list comes back, with one warning", presets: list(cluster("tolerant", `defaults: {spec: {template: {spec: {tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]}}}}`)), create: vm(""),
			edit: func(vm map[string]any) { delete(in(vm, "spec.template.spec"), "tolerations") },
			want: map[string]string{"spec.template.spec.tolerations": `[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]`},
			warn: []string{"preset cluster/tolerant sets spec.template.spec.tolerations again; to exclude it, add cluster/tolerant:spec.template.spec.tolerations to virtwright.dev/exclude"},
		},
		"AnnotationOverridden": {
			reason: "an overridden annotation is restored, with a warning", presets: noted, create: vm(""),
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")["x"] = "mine" },
			want: map[string]string{"metadata.annotations.x": `"theirs"`}, warn: []string{"preset cluster/noted overrides metadata.annotations.x"},
		},
		"AnnotationForbidden": {
			reason: "a forbidden annotation is rejected", presets: noted, create: vm(""),
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")["bad"] = "1" },
			err:  []string{"metadata.annotations.bad"},
		},
		"AnnotationRead": {
			reason: "a condition reads the annotation", presets: noted, create: vm(""),
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")["size"] = "big" },
			want: map[string]string{at + "cpu.cores": "8"},
		},
		"PresetChangedMeanwhile": {
			reason: "a VM keeps its values when presets change", presets: two, now: list(cluster("cores", defaults("{cpu: {cores: 16}}"))), create: vm(""),
			edit: func(vm map[string]any) { in(vm, "metadata.labels")["x"] = "y" }, want: map[string]string{at + "cpu.cores": "2"},
		},
		"PresetGone": {
			reason: "a VM keeps its values when the preset is deleted", presets: two, now: []v1alpha1.Preset{}, create: vm(""),
			edit: func(vm map[string]any) { delete(in(vm, at+"cpu"), "cores") }, want: map[string]string{at + "cpu.cores": "2"},
		},
		"RecordForged": {
			reason: "the record is recomputed from the stored VM", presets: two, create: vm(""),
			edit: func(vm map[string]any) {
				in(vm, "metadata.annotations")[v1alpha1.AnnotationProvenance] = "{}"
				in(vm, "metadata.labels")["x"] = "y"
			},
			want: map[string]string{at + "cpu.cores": "2"},
		},
		"GovernedLeaf": {
			reason: "an overridden value is restored, with a warning", presets: forced, create: vm(""),
			edit: func(vm map[string]any) { in(vm, at+"cpu")["cores"] = 9 },
			want: map[string]string{at + "cpu.cores": "2"}, warn: []string{"preset cluster/cores overrides " + at + "cpu.cores: it stays 2"},
		},
		"GovernedLeafReleased": {
			reason: "a deleted override does nothing", presets: forced, now: []v1alpha1.Preset{}, create: vm(""),
			edit: func(vm map[string]any) { in(vm, at+"cpu")["cores"] = 9 }, want: map[string]string{at + "cpu.cores": "9"},
		},
		"RemovedStaysRemoved": {
			reason:  "a removed field cannot be added by hand",
			presets: list(cluster("a", `remove: ["spec.template.spec.domain.devices.rng"]`)), create: domain("{devices: {tpm: {}}}"),
			edit: func(vm map[string]any) { in(vm, at+"devices")["rng"] = map[string]any{} },
			want: map[string]string{at + "devices.rng": ""}, warn: []string{"removes " + at + "devices.rng: it stays absent"},
		},
		"ChoiceGoverned": {
			reason:  "the alternative of an overridden field is removed again",
			presets: list(cluster("a", overrides("{firmware: {bootloader: {efi: {secureBoot: true}}}}"))), create: vm(""),
			edit: func(vm map[string]any) { in(vm, at+"firmware.bootloader")["bios"] = map[string]any{} },
			want: map[string]string{at + "firmware.bootloader.bios": "", at + "firmware.bootloader.efi.secureBoot": "true"},
		},
		"DefaultTakenOver": {
			reason: "a default may be changed", presets: two, create: vm(""),
			edit: func(vm map[string]any) { in(vm, at+"cpu")["cores"] = 9 }, want: map[string]string{at + "cpu.cores": "9"},
		},
		"WrittenOutOnLeaving": {
			reason: "a manifest that leaves a preset and has its values keeps them, but not the others", presets: list(medium), create: vm("metadata: {labels: {vm-size: medium}}"),
			edit: func(vm map[string]any) {
				delete(in(vm, "metadata.labels"), "vm-size")
				in(vm, "metadata.annotations")["kubectl.kubernetes.io/last-applied-configuration"] = `{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":4}}}}}}`
			},
			want: map[string]string{at + "cpu.cores": "4", at + "memory.guest": ""},
		},
		"AppliedOnLeaving": {
			reason: "server-side apply says what its manifest has", presets: list(medium), create: vm("metadata: {labels: {vm-size: medium}}"),
			edit: func(vm map[string]any) {
				delete(in(vm, "metadata.labels"), "vm-size")
				fields := map[string]any{"f:spec": map[string]any{"f:template": map[string]any{"f:spec": map[string]any{"f:domain": map[string]any{"f:memory": map[string]any{"f:guest": map[string]any{}}}}}}}
				in(vm, "metadata")["managedFields"] = []any{map[string]any{"manager": "kubectl", "operation": "Apply", "fieldsV1": fields}}
			},
			want: map[string]string{at + "cpu.cores": "", at + "memory.guest": `"4Gi"`},
		},
		"WrittenOutDisk": {
			reason: "a manifest that leaves a preset and has its disk owns the disk", presets: list(cluster("a", "match: {labels: {matchLabels: {root: yes-a}}}\ndefaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, containerDisk: {image: x}}]}}}}")),
			create: vm("metadata: {labels: {root: yes-a}}"),
			before: func(vm map[string]any) {
				delete(in(vm, "metadata.labels"), "root")
				in(vm, "metadata.annotations")["kubectl.kubernetes.io/last-applied-configuration"] = `{"spec":{"template":{"spec":{"domain":{"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]}},"volumes":[{"name":"root","containerDisk":{"image":"x"}}]}}}}`
			},
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" },
			want: map[string]string{"spec.template.spec.volumes": `[{"containerDisk":{"image":"x"},"name":"root"}]`},
		},
		"ParentsVanished": {
			reason: "the last field of a manifest takes no identity and no plugged volume with it", presets: two,
			create: vm("spec: {template: {spec: {domain: {firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, serial: s}, memory: {guest: 1Gi}, devices: {disks: [{name: a, disk: {}}, {name: hot, serial: h, disk: {bus: scsi}}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: hot, persistentVolumeClaim: {claimName: hot, hotpluggable: true}}]}}}"),
			edit:   func(vm map[string]any) { delete(in(vm, "spec"), "template") },
			want: map[string]string{
				at + "firmware": `{"serial":"s","uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"}`, at + "memory": "",
				at + "devices.disks":         `[{"disk":{"bus":"scsi"},"name":"hot","serial":"h"}]`,
				"spec.template.spec.volumes": `[{"name":"hot","persistentVolumeClaim":{"claimName":"hot","hotpluggable":true}}]`,
			},
		},
		"OwnVolumesVanished": {
			reason: "an author removes the identity and the volumes that the manifest had", presets: two,
			create: vm(`metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"template":{"spec":{"domain":{"firmware":{"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"}},"volumes":[{"name":"hot"}]}}}}'}}
spec: {template: {spec: {domain: {firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223}}, volumes: [{name: hot, persistentVolumeClaim: {claimName: hot, hotpluggable: true}}]}}}`),
			edit: func(vm map[string]any) { delete(in(vm, "spec"), "template") },
			want: map[string]string{at + "firmware": "", "spec.template.spec.volumes": ""},
		},
		"SerialRemoved": {
			reason: "an author removes a serial number", presets: two, create: domain("{firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, serial: s}}"),
			edit: func(vm map[string]any) { delete(in(vm, at+"firmware"), "serial") },
			want: map[string]string{at + "firmware.serial": ""},
		},
		"DefaultVanished": {
			reason: "a removed default is set again", presets: two, create: vm(""),
			edit: func(vm map[string]any) { delete(vm, "spec") }, want: map[string]string{at + "cpu.cores": "2", at + "devices.rng": "{}"},
		},
		"ElementOfUserVanished": {
			reason:  "a preset's element replaces a removed one of the author, as on a create",
			presets: list(cluster("a", defaults("{cpu: {features: [{name: vmx, policy: require}]}}"))), create: domain("{cpu: {features: [{name: vmx}, {name: aes}]}}"),
			edit: func(vm map[string]any) { in(vm, at+"cpu")["features"] = []any{map[string]any{"name": "aes"}} },
			want: map[string]string{at + "cpu.features": `[{"name":"aes"},{"name":"vmx","policy":"require"}]`},
		},
		"WidowedElement": {
			reason:  "an element of a preset is removed with its partner",
			presets: list(cluster("a", defaults("{devices: {disks: [{name: data, disk: {bus: virtio}}]}}"))),
			create:  vm("spec: {template: {spec: {volumes: [{name: data, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]}}}"),
			edit: func(vm map[string]any) {
				in(vm, "spec.template.spec")["volumes"] = []any{map[string]any{"name": "b", "emptyDisk": map[string]any{"capacity": "1Gi"}}}
			},
			want: map[string]string{at + "devices.disks[data]": ""},
		},
		"ForbidRatchets": {
			reason: "an old violation does not block", presets: list(), now: list(cluster("a", "forbid: [{path: spec.template.spec.domain.devices.rng}]")),
			create: domain("{devices: {rng: {}}}"), edit: func(vm map[string]any) { in(vm, at+"devices")["tpm"] = map[string]any{} },
			want: map[string]string{at + "devices.rng": "{}"},
		},
		"ForbidNew": {
			reason: "a new violation does", presets: list(cluster("a", "forbid: [{path: spec.template.spec.domain.devices.rng}]")),
			create: domain("{devices: {}}"), edit: func(vm map[string]any) { in(vm, at+"devices")["rng"] = map[string]any{} },
			err: []string{at + "devices.rng"},
		},
		"RequireRatchets": {
			reason: "an old gap does not block", presets: list(), now: list(cluster("a", "require: [{path: spec.template.spec.hostname}]")),
			create: domain("{devices: {}}"), edit: func(vm map[string]any) { in(vm, at+"devices")["tpm"] = map[string]any{} },
			want: map[string]string{at + "devices.tpm": "{}"},
		},
		"RequireNew": {
			reason: "a removed value does", presets: list(cluster("a", "require: [{path: spec.template.spec.domain.devices.rng}]")),
			create: domain("{devices: {rng: {}}}"), edit: func(vm map[string]any) { delete(in(vm, at+"devices"), "rng") },
			err: []string{at + "devices.rng: Required value"},
		},
		"RequireInNewElement": {
			reason: "a new element has no old gap", presets: list(), now: list(cluster("a", `require: [{path: "spec.template.spec.domain.devices.disks[*].cache"}]`)),
			create: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: a, disk: {}}]}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}]}}}"),
			edit: func(vm map[string]any) {
				devices := in(vm, at+"devices")
				devices["disks"] = append(devices["disks"].([]any), map[string]any{"name": "b", "disk": map[string]any{}})
				spec := in(vm, "spec.template.spec")
				spec["volumes"] = append(spec["volumes"].([]any), map[string]any{"name": "b", "emptyDisk": map[string]any{"capacity": "1Gi"}})
			},
			err: []string{at + "devices.disks[b].cache: Required value"},
		},
		"Relabelled": {
			reason: "presets that match now act as on a create, against presets that match no longer", presets: list(small, medium),
			create: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, labels: {vm-size: small}}}`,
			edit:   label("vm-size", "medium"), want: map[string]string{at + "cpu.cores": "4", at + "memory.guest": `"4Gi"`},
		},
		"RelabelledUserWins": {
			reason: "but not against the user", presets: list(small, medium),
			create: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, labels: {vm-size: small}}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}`,
			edit:   label("vm-size", "medium"), want: map[string]string{at + "memory.guest": `"1Gi"`},
		},
		"NamedLater": {
			reason:  "an annotation that selects presets counts like a label",
			presets: list(cluster("gpu", "match: {explicit: true}\n"+defaults("{devices: {rng: {}}}"))), create: vm(""),
			edit: func(vm map[string]any) {
				in(vm, "metadata")["annotations"] = map[string]any{v1alpha1.AnnotationPresets: "cluster/gpu"}
			},
			want: map[string]string{at + "devices.rng": "{}"},
		},
		"Reapply": {
			reason: "reapply expands again, with overruled values restored", presets: list(cluster("cores", overrides("{cpu: {cores: 2}}")), cluster("m", defaults("{memory: {guest: 1Gi}}"))),
			now: list(cluster("m", defaults("{memory: {guest: 8Gi}}"))), create: domain("{cpu: {cores: 6}}"),
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" },
			want: map[string]string{at + "cpu.cores": "6", at + "memory.guest": `"8Gi"`},
		},
		"ReapplySpelling": {
			reason: "a quantity keeps its spelling", presets: list(cluster("m", defaults("{memory: {guest: 4Gi}, resources: {requests: {cpu: \"1\"}}}"))),
			now: list(cluster("m", defaults("{memory: {guest: 4096Mi}, resources: {requests: {cpu: 1000m}}}"))), create: domain("{}"),
			edit: func(vm map[string]any) { in(vm, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" },
			want: map[string]string{at + "memory.guest": `"4Gi"`, at + "resources.requests.cpu": `"1"`},
		},
		"RelabelledStaysRunning": {
			reason:  "run state belongs to the user once it is stored",
			presets: list(cluster("halt", "match: {labels: {matchLabels: {x: \"y\"}}}\ndefaults: {spec: {running: false}}"), cluster("manual", "match: {labels: {matchLabels: {x: \"y\"}}}\noverrides: {spec: {runStrategy: Manual}}"), cluster("a", "defaults: {spec: {runStrategy: Halted}}")),
			create:  vm(""),
			edit: func(vm map[string]any) {
				in(vm, "metadata.labels")["x"] = "y"
				in(vm, "spec")["runStrategy"] = "Always"
			},
			want: map[string]string{"spec.runStrategy": `"Always"`, "spec.running": ""},
		},
		"RelabelledAgainstHigher": {
			reason:  "a default that newly matches does not beat a stronger one that still does",
			presets: list(cluster("hi", "priority: 100\n"+defaults("{cpu: {cores: 8}}")), cluster("lo", "match: {labels: {matchLabels: {x: \"y\"}}}\n"+defaults("{cpu: {cores: 2}}"))),
			create:  vm(""), edit: label("x", "y"), want: map[string]string{at + "cpu.cores": "8"},
		},
		"ClusterOverrideAgainstRecordedRemove": {
			reason:  "a cluster override that newly matches outranks a namespaced remove",
			presets: list(local("a", `remove: ["spec.template.spec.domain.devices.rng"]`), cluster("b", "match: {labels: {matchLabels: {x: \"y\"}}}\n"+overrides("{devices: {rng: {}}}"))),
			create:  vm(""), edit: label("x", "y"), want: map[string]string{at + "devices.rng": "{}"},
		},
		"NamedPresetGone": {
			reason:  "a named preset that was deleted blocks no other edit",
			presets: list(cluster("gpu", "match: {explicit: true}\n"+defaults("{devices: {rng: {}}}"))), now: []v1alpha1.Preset{},
			create: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, labels: {a: b}, annotations: {virtwright.dev/presets: cluster/gpu}}}`,
			edit:   label("x", "y"), want: map[string]string{"metadata.labels.x": `"y"`, at + "devices.rng": "{}"}, warn: []string{"preset does not exist"},
		},
		"GovernedElementOfUserGoes": {
			reason:  "an override brings back no element that its user deleted",
			presets: list(cluster("a", overrides("{devices: {interfaces: [{name: default, model: virtio}]}}"))),
			create:  vm("spec: {template: {spec: {domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}, networks: [{name: default, pod: {}}]}}}"),
			edit: func(vm map[string]any) {
				delete(in(vm, at+"devices"), "interfaces")
				delete(in(vm, "spec.template.spec"), "networks")
			},
			want: map[string]string{at + "devices.interfaces": ""},
		},
		"PresenceIsGovernedNotContent": {
			reason:  "an override {} asks for presence only",
			presets: list(cluster("a", overrides("{devices: {tpm: {}}}"))), create: vm(""),
			edit: func(vm map[string]any) { in(vm, at+"devices")["tpm"] = map[string]any{"persistent": true} },
			want: map[string]string{at + "devices.tpm.persistent": "true"},
		},
		"ReapplyWithAValueTooLargeToKeep": {
			reason:  "a value that was not recorded cannot be restored, and gets no placeholder",
			presets: list(cluster("a", "overrides: {metadata: {annotations: {note: short}}}")), now: []v1alpha1.Preset{},
			create: `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: x, annotations: {note: ` + strings.Repeat("long", 300) + `}}}`,
			edit:   func(vm map[string]any) { in(vm, "metadata.annotations")[v1alpha1.AnnotationReapply] = "1" },
			want:   map[string]string{"metadata.annotations.note": `"short"`},
		},
		"WrongShape": {
			reason:  "a list instead of an object is no error",
			presets: list(cluster("a", defaults("{cpu: {cores: 2}}")), cluster("b", `forbid: [{path: "spec.template.spec.domain.memory.guest"}]`+"\nremove: [\"spec.template.spec.domain.memory.maxGuest\"]")),
			create:  vm(""),
			edit: func(vm map[string]any) {
				in(vm, "spec.template.spec.domain")["memory"] = []any{map[string]any{}}
				in(vm, "metadata.labels")["x"] = "y"
			},
			want: map[string]string{at + "memory": "[{}]"},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func TestLaunch(t *testing.T) {
	definition := cluster("definition", "priority: 50\n"+defaults("{cpu: {model: host-model}, memory: {guest: 1Gi}}"))
	forced := cluster("forced", overrides("{machine: {type: q35}}"))
	launch := cluster("launch", "applyAt: Launch\n"+defaults("{cpu: {model: host-passthrough, cores: 4}, machine: {type: pc}}"))
	owner := resolveCase{reason: "the owner", presets: list(definition, forced), object: domain("{cpu: {cores: 2}}")}.run(t)
	template := in(owner.Object(), "spec.template.spec")
	instance := func(spec any) string {
		return string(marshal(t, map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": map[string]any{"name": "web"}, "spec": spec}))
	}
	resolveCase{
		reason: "Launch wins over Definition defaults, not over overrides or the user", engine: presets.Engine{WarnEverything: true}, kind: presets.VirtualMachineInstance,
		presets: list(definition, forced, launch), object: instance(template), owner: string(marshal(t, owner.Object())),
		want: map[string]string{"spec.domain.cpu.model": `"host-passthrough"`, "spec.domain.cpu.cores": "2", "spec.domain.machine.type": `"q35"`, "spec.domain.memory.guest": `"1Gi"`},
		warn: []string{"preset cluster/launch set spec.domain.cpu.model"},
	}.run(t)
	resolveCase{
		reason: "a VMI without a VM gets both", kind: presets.VirtualMachineInstance, presets: list(definition, launch),
		object: instance(map[string]any{}), want: map[string]string{"spec.domain.cpu.model": `"host-model"`, "spec.domain.cpu.cores": "4"},
	}.run(t)
	resolveCase{
		reason: "errors have the path of the object that was sent", kind: presets.VirtualMachineInstance, presets: list(definition),
		object: instance(map[string]any{"domain": "x"}), err: []string{"spec.domain: Invalid value"},
	}.run(t)
}

// TestLeavesToPresets: fields that an author leaves to presets are theirs from then on, although no
// value changes. So a later change of the presets reaches them.
func TestLeavesToPresets(t *testing.T) {
	full := `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, namespace: lab}, spec: {runStrategy: Always, template: {spec: {
domain: {cpu: {cores: 2}, memory: {guest: 2Gi}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`
	gives := func(guest string) []v1alpha1.Preset {
		return []v1alpha1.Preset{presettest.Cluster("p", `defaults: {spec: {template: {spec: {
domain: {cpu: {cores: 2}, memory: {guest: `+guest+`}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}]}}}}`)}
	}
	sparse := `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, namespace: lab}, spec: {template: {spec: {domain: {cpu: {cores: 2}}}}}}`
	stored := marshal(t, resolveCase{object: full}.run(t).Object())
	before := edited(t, stored, func(vm map[string]any) { delete(vm["metadata"].(map[string]any), "annotations") })

	update := func(sent, old []byte, by []v1alpha1.Preset) []byte {
		t.Helper()
		return marshal(t, resolveCase{presets: by, object: string(sent), old: string(old)}.run(t).Object())
	}
	now := update(presettest.JSON(sparse), stored, gives("2Gi"))
	if got := edited(t, now, func(vm map[string]any) { delete(vm["metadata"].(map[string]any), "annotations") }); string(got) != string(before) {
		t.Errorf("the VM changes:\n%s\n%s", before, got)
	}
	if again := update(presettest.JSON(sparse), now, gives("2Gi")); string(again) != string(now) {
		t.Errorf("the same manifest changes the VM again:\n%s\n%s", now, again)
	}
	after := update(edited(t, now, func(vm map[string]any) {
		annotations, _ := vm["metadata"].(map[string]any)["annotations"].(map[string]any)
		if annotations == nil {
			t.Fatal("the record names no preset")
		}
		annotations[v1alpha1.AnnotationReapply] = "1"
	}), now, gives("4Gi"))
	for _, want := range []string{`"guest":"4Gi"`, `"cores":2`, `"runStrategy":"Always"`, `"capacity":"1Gi"`} {
		if !strings.Contains(string(after), want) {
			t.Errorf("a reapply lacks %s: %s", want, after)
		}
	}
}

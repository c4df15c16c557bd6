package presets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A restoredCase creates a VM, changes presets, and restores it from a snapshot.
type restoredCase struct {
	reason string
	// before are the presets when the VM is created, now those when it is restored.
	before, now []v1alpha1.Preset
	create      string
	// edit converts the stored VM into what the controller sends.
	edit func(vm map[string]any)
	// isNew restores another VM, not in place.
	isNew bool
	want  map[string]string
	err   []string
	// named are the presets that the restored VM names.
	named string
	// origins are the recorded origins of fields.
	origins map[string]string
}

func TestRestored(t *testing.T) {
	sized := cluster("size", defaults("{cpu: {cores: 2}}"))
	larger := cluster("size", defaults("{cpu: {cores: 4}, memory: {guest: 4Gi}, devices: {rng: {}}}"))
	claim := cluster("root", `defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, persistentVolumeClaim: {claimName: {$cel: "object.metadata.name + '-root'"}}}]}}}}`)
	volume := cluster("root", `defaults: {spec: {dataVolumeTemplates: [{metadata: {name: {$cel: "object.metadata.name + '-root'"}}, spec: {source: {blank: {}}}}], template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, dataVolume: {name: {$cel: "object.metadata.name + '-root'"}}}]}}}}`)
	disk := cluster("disk", "defaults: {spec: {template: {spec: {domain: {devices: {disks: [{name: data, disk: {bus: virtio}}]}}, volumes: [{name: data, emptyDisk: {capacity: 1Gi}}]}}}}")
	ruled := cluster("ruled", "overrides: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, persistentVolumeClaim: {claimName: ruled}}]}}}}")
	trusted := cluster("trusted", `overrides: {spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}, {name: agent, disk: {bus: virtio}}]}}, volumes: [{name: root, containerDisk: {image: trusted}}, {name: agent, cloudInitNoCloud: {userData: enforced}}]}}}}`)
	images := cluster("images", `overrides: {spec: {dataVolumeTemplates: [{metadata: {name: root}, spec: {source: {registry: {url: trusted}}}}]}}`)
	const imageVM = "spec: {dataVolumeTemplates: [{metadata: {name: root}, spec: {source: {registry: {url: trusted}}, storage: {}}}], template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, dataVolume: {name: root}}]}}}"
	template := func(vm map[string]any) map[string]any {
		return vm["spec"].(map[string]any)["dataVolumeTemplates"].([]any)[0].(map[string]any)
	}
	secure := cluster("secure", `overrides: {spec: {template: {spec: {priorityClassName: production}}}}`)
	noSound := cluster("silent", `forbid: [{path: spec.template.spec.domain.devices.sound}]`)
	gpu := cluster("gpu", "match: {explicit: true}\n"+defaults("{devices: {gpus: [{name: a, deviceName: d}]}}"))
	const gpuVM = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, annotations: {virtwright.dev/presets: cluster/gpu}}}"
	const volumes = "spec.template.spec.volumes"
	restoresClaim := func(vm map[string]any) {
		in(vm, volumes+"[root].persistentVolumeClaim")["claimName"] = "restore-1-root"
	}
	for name, c := range map[string]restoredCase{
		"Unchanged": {
			reason: "the record stays true", before: list(sized), now: list(sized), create: vm(""), edit: func(map[string]any) {},
			want: map[string]string{at + "cpu.cores": "2"}, origins: map[string]string{at + "cpu.cores": "cluster/size"},
		},
		"DefaultChanged": {
			reason: "the values of the snapshot stay, and it gets no others", before: list(sized), now: list(larger), create: vm(""), edit: func(map[string]any) {},
			want:    map[string]string{at + "cpu.cores": "2", at + "memory": "", at + "devices.rng": ""},
			origins: map[string]string{at + "cpu.cores": ""},
		},
		"SnapshotLacksDefault": {
			reason: "a default is no part of the snapshot", before: list(larger), now: list(larger), create: vm(""),
			edit: func(vm map[string]any) { delete(in(vm, at[:len(at)-1]), "memory") },
			want: map[string]string{at + "memory": "", at + "cpu.cores": "4"}, origins: map[string]string{at + "memory.guest": "", at + "cpu.cores": "cluster/size"},
		},
		"NewVM": {
			reason: "a VM of another name gets no defaults either", before: list(sized), now: list(larger), create: vm(""), edit: func(map[string]any) {}, isNew: true,
			want: map[string]string{at + "cpu.cores": "2", at + "memory": ""}, origins: map[string]string{at + "cpu.cores": ""},
		},
		"NewOverride": {
			reason: "an override that is newer than the snapshot holds", before: list(sized), now: list(sized, secure), create: vm(""), edit: func(map[string]any) {},
			want: map[string]string{"spec.template.spec.priorityClassName": `"production"`}, origins: map[string]string{"spec.template.spec.priorityClassName": "cluster/secure"},
		},
		"EditedSnapshot": {
			reason: "removing an override from the snapshot has no effect", before: list(secure), now: list(secure), create: vm(""),
			edit: func(vm map[string]any) { delete(in(vm, "spec.template.spec"), "priorityClassName") },
			want: map[string]string{"spec.template.spec.priorityClassName": `"production"`},
		},
		"Claim": {
			reason: "the restored claim stays, and is no longer the preset's", before: list(claim), now: list(claim), create: vm(""), edit: restoresClaim,
			want:    map[string]string{volumes: `[{"name":"root","persistentVolumeClaim":{"claimName":"restore-1-root"}}]`},
			origins: map[string]string{volumes + "[root].persistentVolumeClaim.claimName": ""},
		},
		"DataVolume": {
			reason: "the restored DataVolume stays", before: list(volume), now: list(volume), create: vm(""),
			edit: func(vm map[string]any) {
				in(vm, volumes+"[root].dataVolume")["name"] = "restore-1-root"
				in(template(vm), "metadata")["name"] = "restore-1-root"
			},
			want: map[string]string{
				volumes: `[{"dataVolume":{"name":"restore-1-root"},"name":"root"}]`, "spec.dataVolumeTemplates": `[{"metadata":{"name":"restore-1-root"},"spec":{"source":{"blank":{}}}}]`,
			},
			origins: map[string]string{volumes + "[root].dataVolume.name": ""},
		},
		"Order": {
			reason: "disks keep their order", before: list(disk), now: list(disk), create: vm("spec: {template: {spec: {domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, emptyDisk: {capacity: 1Gi}}, {name: zz, emptyDisk: {capacity: 1Gi}}]}}}"),
			edit: func(vm map[string]any) {
				devices := in(vm, at[:len(at)-1])["devices"].(map[string]any)
				devices["disks"] = append(devices["disks"].([]any), map[string]any{"name": "zz", "disk": map[string]any{"bus": "virtio"}})
			},
			want: map[string]string{at + "devices.disks": `[{"disk":{"bus":"virtio"},"name":"root"},{"disk":{"bus":"virtio"},"name":"data"},{"disk":{"bus":"virtio"},"name":"zz"}]`},
		},
		"OverriddenClaim": {
			reason: "an override does not undo the restore of a disk", before: list(ruled), now: list(ruled), create: vm(""), edit: restoresClaim,
			want: map[string]string{volumes: `[{"name":"root","persistentVolumeClaim":{"claimName":"restore-1-root"}}]`},
		},
		"EditedVolumes": {
			reason: "an override of another volume source holds", before: list(trusted), now: list(trusted), create: vm(""), isNew: true,
			edit: func(vm map[string]any) {
				in(vm, volumes+"[root].containerDisk")["image"] = "evil"
				agent := in(vm, volumes+"[agent]")
				delete(agent, "cloudInitNoCloud")
				agent["persistentVolumeClaim"] = map[string]any{"claimName": "evil"}
			},
			want:    map[string]string{volumes: `[{"containerDisk":{"image":"trusted"},"name":"root"},{"cloudInitNoCloud":{"userData":"enforced"},"name":"agent"}]`},
			origins: map[string]string{volumes + "[root].containerDisk.image": "cluster/trusted"},
		},
		"EditedTemplate": {
			reason: "an override of a DataVolume that the restore keeps holds", before: list(images), now: list(images), create: vm(imageVM),
			edit: func(vm map[string]any) {
				in(template(vm), "spec.source.registry")["url"] = "evil"
			},
			want: map[string]string{"spec.dataVolumeTemplates": `[{"metadata":{"name":"root"},"spec":{"source":{"registry":{"url":"trusted"}},"storage":{}}}]`},
		},
		"RenamedTemplate": {
			reason: "an override does not add the template that a restore renamed", before: list(images), now: list(images), create: vm(imageVM),
			edit: func(vm map[string]any) {
				in(vm, volumes+"[root].dataVolume")["name"] = "restore-1-root"
				in(template(vm), "metadata")["name"] = "restore-1-root"
			},
			want: map[string]string{"spec.dataVolumeTemplates": `[{"metadata":{"name":"restore-1-root"},"spec":{"source":{"registry":{"url":"trusted"}},"storage":{}}}]`},
		},
		"ClaimOfDataVolume": {
			reason: "a claim that was a DataVolume stays", before: list(volume), now: list(cluster("root", "overrides: {spec: {template: {spec: {volumes: [{name: root, dataVolume: {name: web-root}}]}}}}")), create: vm(""),
			edit: func(vm map[string]any) {
				root := in(vm, volumes+"[root]")
				delete(root, "dataVolume")
				root["persistentVolumeClaim"] = map[string]any{"claimName": "restore-1-root"}
			},
			want: map[string]string{volumes: `[{"name":"root","persistentVolumeClaim":{"claimName":"restore-1-root"}}]`},
		},
		"Forbidden": {
			reason: "a snapshot must not set a forbidden field", before: list(sized), now: list(sized, noSound), create: vm(""),
			edit: func(vm map[string]any) {
				in(vm, at[:len(at)-1])["devices"] = map[string]any{"sound": map[string]any{"name": "s"}}
			},
			err: []string{at + "devices.sound"},
		},
		"ForbiddenBefore": {
			reason: "a VM may keep a field that was forbidden later", before: list(sized), now: list(sized, noSound), create: domain("{devices: {sound: {name: s}}}"),
			edit: func(map[string]any) {}, want: map[string]string{at + "devices.sound.name": `"s"`},
		},
		"Named": {
			reason: "the names of the replaced VM stay", before: list(gpu), now: list(gpu), create: gpuVM,
			edit: func(map[string]any) {}, named: "cluster/gpu", want: map[string]string{at + "devices.gpus": `[{"deviceName":"d","name":"a"}]`},
		},
		"NewlyNamed": {
			reason: "the controller has no rights to name another preset", before: list(gpu), now: list(gpu), create: domain("{}"),
			edit: func(vm map[string]any) {
				in(vm, "spec.template")["metadata"] = map[string]any{"annotations": map[string]any{"virtwright.dev/presets": "cluster/gpu"}}
			},
			want: map[string]string{at + "devices": "{}", "spec.template.metadata.annotations": "{}"},
		},
		"NamedOnNewVM": {
			reason: "a copy keeps the values, but not the name", before: list(gpu), now: list(gpu), create: gpuVM, isNew: true,
			edit: func(map[string]any) {}, want: map[string]string{at + "devices.gpus": `[{"deviceName":"d","name":"a"}]`},
			origins: map[string]string{at + "devices.gpus[a].deviceName": ""},
		},
		"RunState": {
			reason: "the controller decides the run state", before: list(sized), now: list(cluster("on", "overrides: {spec: {runStrategy: Always}}")), create: vm("spec: {runStrategy: Halted}"),
			edit: func(map[string]any) {}, want: map[string]string{"spec.runStrategy": `"Halted"`},
		},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

func (c restoredCase) run(t *testing.T) {
	t.Helper()
	stored := marshal(t, resolveCase{reason: c.reason, presets: c.before, object: c.create}.run(t).Object())
	restore := resolveCase{reason: c.reason, presets: c.now, object: string(edited(t, stored, c.edit)), restored: true, want: c.want, err: c.err}
	if !c.isNew {
		restore.old = string(stored)
	}
	out := restore.run(t)
	if out == nil {
		return
	}
	for path, want := range c.origins {
		parsed, err := provenance.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if source, _ := out.Record.SourceOf(parsed); source.Preset != want {
			t.Errorf("%s: %s is of %q, want %q", c.reason, path, source.Preset, want)
		}
	}
	if got := named(out); got != c.named {
		t.Errorf("%s: it names %q, want %q", c.reason, got, c.named)
	}
}

// named returns the presets that a VM or its template names.
func named(out *presets.Result) string {
	var refs []string
	for _, n := range presets.NamedPresets(presets.VirtualMachine, out.Object()) {
		refs = append(refs, n.Ref)
	}
	return strings.Join(slices.Compact(refs), ",")
}

package main

import (
	"strings"
	"testing"
)

const (
	// fourCores is the preset cores with another value.
	fourCores = "cores: 4"
	reapply   = "--reapply"
)

// stored is a VM as printed by kubectl get, expanded with the preset of a file. Its author set the
// CPU model.
func stored(t *testing.T, preset string) string {
	t.Helper()
	written := sparse + "spec: {template: {spec: {domain: {cpu: {model: Haswell}}}}}\n"
	out := call(t, written, "expand", "-f", "-", "-f", preset).fine(t).out
	return strings.Replace(out, "  name: vm\n", "  name: vm\n  resourceVersion: \"7\"\n  uid: 3a\n", 1)
}

// changed is the preset cores with another value, in a file.
func changed(t *testing.T) string {
	t.Helper()
	return write(t, "changed.yaml", strings.Replace(cores, "cores: 7", fourCores, 1))
}

func TestExpandStored(t *testing.T) {
	same := write(t, "cores.yaml", cores)
	vm := stored(t, same)
	unchanged := call(t, vm, "expand", "-f", "-", "-f", same).fine(t)
	if unchanged.out != vm || unchanged.err != "" {
		t.Errorf("a stored VM was printed otherwise, or with a note:\n%s%s", unchanged.out, unchanged.err)
	}
	requested := strings.Replace(vm, "  annotations:\n", "  annotations:\n    virtwright.dev/template-requester: alice\n", 1)
	says(t, call(t, requested, "expand", "-f", "-", "-f", same).fine(t).out, "template-requester: alice")
	outdated := call(t, vm, "expand", "-f", "-", "-f", changed(t)).fine(t)
	if outdated.out != vm {
		t.Errorf("a stored VM was printed otherwise:\n%s", outdated.out)
	}
	says(t, outdated.err, "Note: VirtualMachine default/vm is stored in a cluster and is shown unchanged; a reapply would change spec.template.spec.domain.cpu.cores (cores): see --reapply\n")

	again := call(t, vm, "expand", "-f", "-", "-f", changed(t), reapply).fine(t)
	says(t, again.out, fourCores, "model: Haswell", "uid: 3a", `resourceVersion: "7"`)
	if strings.Contains(again.out, "virtwright.dev/reapply") {
		t.Errorf("it has the annotation of a reapply:\n%s", again.out)
	}
	diff := call(t, vm, "expand", "-f", "-", "-f", changed(t), reapply, "-o", "diff").fine(t).out
	says(t, diff, "\n-          cores: 7\n+          cores: 4\n")
}

// A manifest may contain the uid of the original. API servers ignore it, but they do
// not create an object with a resourceVersion.
func TestUIDAloneIsNotStored(t *testing.T) {
	vm := strings.Replace(stored(t, write(t, "cores.yaml", cores)), "  resourceVersion: \"7\"\n", "", 1)
	got := call(t, vm, "expand", "-f", "-", "-f", changed(t)).fine(t)
	if strings.Contains(got.err, "is stored in a cluster") {
		t.Errorf("it is taken for a stored VM: %s", got.err)
	}
	copied := strings.Replace(small, "{name: vm}", "{name: vm, uid: 3a}", 1)
	says(t, call(t, copied, "expand", "-f", "-").fine(t).out, "model: host-model")
}

// Notes list presets that would newly change a stored VM, and presets that are not found.
func TestExpandStoredUnderOtherPresets(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	other := write(t, "other.yaml", strings.NewReplacer("{name: cores}", "{name: other}", "cores: 7", "threads: 2").Replace(cores))
	says(t, call(t, vm, "expand", "-f", "-", "-f", other).fine(t).err,
		"spec.template.spec.domain.cpu.cores (cores, not found)", "spec.template.spec.domain.cpu.threads (other)")
	if alone := call(t, vm, "expand", "-f", "-").fine(t); alone.err != "" {
		t.Errorf("without presets there is nothing to compare with: %s", alone.err)
	}
}

func TestExplainStoredWithPresets(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	got := call(t, vm, "explain", "-f", "-", "-f", changed(t)).fine(t)
	says(t, single(got.out), "cpu.cores 7 cores (default)", "cpu.model Haswell user",
		"OUTDATED STORED REAPPLIED FROM spec.template.spec.domain.cpu.cores 7 4 cores")
	says(t, call(t, vm, "explain", "-f", "-", "-f", changed(t), "-o", "json").fine(t).out,
		`"outdated": [
    {
      "path": "spec.template.spec.domain.cpu.cores",
      "stored": 7,
      "reapplied": 4,
      "preset": "cores"
    }
  ]`)
	again := call(t, vm, "explain", "-f", "-", "-f", changed(t), reapply).fine(t)
	says(t, single(again.out), "cpu.cores 4 cores (default)", "cpu.model Haswell user")
	if strings.Contains(again.out, "OUTDATED") || strings.Contains(again.out, "virtwright.dev/reapply") {
		t.Errorf("after a reapply nothing is outdated:\n%s", again.out)
	}
}

// Once a VM is stored, its run state belongs to the user, even if a preset sets the same.
func TestExplainReapplyRunState(t *testing.T) {
	preset := write(t, "strategy.yaml", strings.Replace(cores, "{template:", "{runStrategy: Always, template:", 1))
	got := call(t, stored(t, preset), "explain", "-f", "-", "-f", preset, reapply, "spec.runStrategy").fine(t)
	says(t, single(got.out), "spec.runStrategy Always user also Always cores (default)")
}

// A rejected reapply is reported, and the VM is shown without it.
func TestReapplyRejected(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	forbids := write(t, "forbids.yaml", strings.Replace(cores, "spec: {", "spec: {forbid: [{path: spec.template.spec.domain.cpu.model, message: no models}], ", 1))
	says(t, call(t, vm, "expand", "-f", "-", "-f", forbids).fine(t).err, "a reapply would be rejected: ", "no models (preset cores)")
	says(t, call(t, vm, "explain", "-f", "-", "-f", forbids).fine(t).err, "a reapply would be rejected: ")
	for _, command := range []string{"expand", "explain", "render", "validate"} {
		got := call(t, vm, command, "-f", "-", "-f", forbids, reapply)
		if got.code != exitRejected {
			t.Errorf("%s: exit code %d, want %d", command, got.code, exitRejected)
		}
		says(t, got.out+got.err, "no models (preset cores)")
	}
	says(t, call(t, vm, "render", "-f", "-", "-f", forbids).fine(t).out, "<domain")
}

// single replaces white space by single spaces.
func single(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestStoredPresetInvalid checks that an invalid stored preset affects no other object, like in a
// cluster.
func TestStoredPresetInvalid(t *testing.T) {
	const invalid = "---\napiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: old, namespace: other, resourceVersion: \"2\"}\n" +
		"spec: {defaults: {spec: {template: {spec: {gone: 3}}}}}\n"
	dump := write(t, "presets.yaml", cores+invalid)
	for _, command := range []string{"expand", "explain", "render"} {
		got := call(t, sparse, command, "-f", "-", "-f", dump).fine(t)
		says(t, got.err, "Note: "+dump+", document 2: VirtualMachinePreset other/old is stored in a cluster, but is invalid and has no effect: "+
			`spec.defaults.spec.template.spec.gone: Invalid value: "gone": unknown field "gone"`)
		if command == "expand" {
			says(t, got.out, "cores: 7")
		}
	}
	named := strings.Replace(sparse, "{name: vm}", "{name: vm, namespace: other, annotations: {virtwright.dev/presets: old}}", 1)
	if got := call(t, named, "expand", "-f", "-", "-f", dump); got.code != exitRejected || strings.Contains(got.err, "Not found") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, call(t, sparse, "validate", "-f", "-", "-f", dump).out, "VirtualMachinePreset other/old: spec.defaults", "1 rejected")
	newer := strings.Replace(cores, "{name: cores}", `{name: cores, resourceVersion: "2", managedFields: [{operation: Future}]}`, 1)
	says(t, call(t, sparse+"---\n"+newer, "expand", "-f", "-").fine(t).out, "cores: 7")
}

// kubectlGet is a VM with its VMI, as printed by kubectl get vm,vmi -o yaml.
const kubectlGet = kubectlGetVM + `- apiVersion: kubevirt.io/v1
  kind: VirtualMachineInstance
  metadata: {name: a, namespace: lab, uid: "2", resourceVersion: "6", ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: a, uid: "1", controller: true}]}
  spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {bus: virtio}}]}}, volumes: [{name: root, containerDisk: {image: q}}]}
  status: {phase: Running}
`

const kubectlGetVM = `apiVersion: v1
kind: List
items:
- apiVersion: kubevirt.io/v1
  kind: VirtualMachine
  metadata: {name: a, namespace: lab, uid: "1", resourceVersion: "5"}
  spec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root}]}}, volumes: [{name: root, containerDisk: {image: q}}]}}}
`

// TestStoredJudged checks that stored objects are validated by rules, but not for permissions or
// duplicate names.
func TestStoredJudged(t *testing.T) {
	got := call(t, kubectlGet, "validate", "-f", "-").fine(t)
	if got.err != "" {
		t.Errorf("it warns: %s", got.err)
	}
	wrong := strings.Replace(kubectlGet, "disks: [{name: root}]", "disks: [{name: root, io: uring, serial: '<&>'}]", 1)
	for _, args := range [][]string{{"validate"}, {"render"}, {"render", reapply}} {
		got := call(t, wrong, append(args, "-f", "-")...)
		if got.code != exitRejected {
			t.Errorf("%v: exit code %d, want %d", args, got.code, exitRejected)
		}
		says(t, got.out+got.err, `disks[0].io: Unsupported value: "uring"`, "(disk-serial-characters)")
	}
	says(t, call(t, wrong, "expand", "-f", "-").fine(t).out, "uring")
	clash := strings.NewReplacer("resourceVersion: \"5\"", "", "name: a,", "name: b,", "spec: {runStrategy: Always,", dataVolume).Replace(kubectlGetVM)
	owner := strings.Replace(kubectlGet, "spec: {runStrategy: Always,", dataVolume, 1)
	says(t, call(t, owner+"---\n"+clash, "validate", "-f", "-").out, "VirtualMachine lab/b: spec.dataVolumeTemplates[0].metadata.name")
}

const dataVolume = "spec: {runStrategy: Always, dataVolumeTemplates: [{metadata: {name: disk}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}],"

// TestStoredRecordDamaged checks that a VM with an unreadable record is shown unchanged, and that
// no field is attributed to the user.
func TestStoredRecordDamaged(t *testing.T) {
	damaged := strings.Replace(kubectlGet, `resourceVersion: "5"`, `resourceVersion: "5", annotations: {virtwright.dev/provenance: '{"x'}`, 1)
	preset := write(t, "cores.yaml", strings.Replace(cores, "name: cores", "name: cores, namespace: lab", 1))
	const note = "Note: VirtualMachine lab/a is stored in a cluster and is shown unchanged; its record cannot be read, so the origins of its fields are unknown: "
	for _, args := range [][]string{{"expand"}, {"explain"}, {"explain", "-f", preset}, {"expand", "-f", preset}} {
		got := call(t, damaged, append(args, "-f", "-")...).fine(t)
		if args[0] == "explain" || len(args) > 1 {
			says(t, got.err, note)
		}
		if args[0] == "explain" {
			says(t, single(got.out), "domain.memory.guest 1Gi unknown")
		}
	}
}

// TestExplainReapplyRejected checks that explain and expand reject the same VM.
func TestExplainReapplyRejected(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	for _, command := range []string{"expand", "explain"} {
		got := call(t, vm, command, "-f", "-", reapply)
		if got.code != exitRejected {
			t.Errorf("%s: exit code %d, want %d", command, got.code, exitRejected)
		}
		says(t, got.err, "Error: standard input, document 1: VirtualMachine default/vm is rejected:", "(memory-given)")
	}
}

// TestOutdatedContainers checks that an empty field that a reapply fills is not listed as removed.
func TestOutdatedContainers(t *testing.T) {
	empty := sparse[:len(sparse)-2] + ", resourceVersion: \"7\"}\nspec: {template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n"
	got := call(t, empty, "explain", "-f", "-", "-f", write(t, "cores.yaml", cores)).fine(t)
	says(t, single(got.out), "OUTDATED STORED REAPPLIED FROM", "spec.template.spec.domain.cpu.cores (none) 7 cores")
	if strings.Contains(single(got.out), "{} (none)") {
		t.Errorf("it lists a removed field:\n%s", got.out)
	}
}

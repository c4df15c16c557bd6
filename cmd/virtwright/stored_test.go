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

// stored is a VM as kubectl get prints it, that the preset in a file has completed. Its
// author gave it the model of its CPU.
func stored(t *testing.T, preset string) string {
	t.Helper()
	written := sparse + "spec: {template: {spec: {domain: {cpu: {model: Haswell}}}}}\n"
	out := call(t, written, "expand", "-f", "-", "-f", preset).fine(t).out
	return strings.Replace(out, "  name: vm\n", "  name: vm\n  resourceVersion: \"7\"\n  uid: 3a\n", 1)
}

// changed is the preset cores in a file, after its author has changed it.
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
	requested := strings.Replace(vm, "  annotations:\n", "  annotations:\n    virtwright.dev/template-requester: someone\n", 1)
	says(t, call(t, requested, "expand", "-f", "-", "-f", same).fine(t).out, "template-requester: someone")
	outdated := call(t, vm, "expand", "-f", "-", "-f", changed(t)).fine(t)
	if outdated.out != vm {
		t.Errorf("a stored VM was printed otherwise:\n%s", outdated.out)
	}
	says(t, outdated.err, "Note: VirtualMachine default/vm is stored in a cluster and is shown as it is; a reapply would change spec.template.spec.domain.cpu.cores (cores): see --reapply\n")

	again := call(t, vm, "expand", "-f", "-", "-f", changed(t), reapply).fine(t)
	says(t, again.out, fourCores, "model: Haswell", "uid: 3a", `resourceVersion: "7"`)
	if strings.Contains(again.out, "virtwright.dev/reapply") {
		t.Errorf("it has the annotation of a reapply:\n%s", again.out)
	}
	diff := call(t, vm, "expand", "-f", "-", "-f", changed(t), reapply, "-o", "diff").fine(t).out
	says(t, diff, "\n-          cores: 7\n+          cores: 4\n")
}

// A manifest may keep the uid of what it was copied from. API servers ignore it, and refuse
// to create an object with a resourceVersion.
func TestUIDAloneIsNotStored(t *testing.T) {
	vm := strings.Replace(stored(t, write(t, "cores.yaml", cores)), "  resourceVersion: \"7\"\n", "", 1)
	got := call(t, vm, "expand", "-f", "-", "-f", changed(t)).fine(t)
	if strings.Contains(got.err, "is stored in a cluster") {
		t.Errorf("it is taken for a stored VM: %s", got.err)
	}
	copied := strings.Replace(small, "{name: vm}", "{name: vm, uid: 3a}", 1)
	says(t, call(t, copied, "expand", "-f", "-").fine(t).out, "model: host-model")
}

// Presets that act on a stored VM for the first time, and presets that are not in -f.
func TestExpandStoredUnderOtherPresets(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	other := write(t, "other.yaml", strings.NewReplacer("{name: cores}", "{name: other}", "cores: 7", "threads: 2").Replace(cores))
	says(t, call(t, vm, "expand", "-f", "-", "-f", other).fine(t).err,
		"spec.template.spec.domain.cpu.cores (cores, not in -f)", "spec.template.spec.domain.cpu.threads (other)")
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

// A reapply that a cluster refuses is refused, and the VM is shown without it.
func TestReapplyRefused(t *testing.T) {
	vm := stored(t, write(t, "cores.yaml", cores))
	forbids := write(t, "forbids.yaml", strings.Replace(cores, "spec: {", "spec: {forbid: [{path: spec.template.spec.domain.cpu.model, message: no models}], ", 1))
	says(t, call(t, vm, "expand", "-f", "-", "-f", forbids).fine(t).err, "a reapply would be refused: ", "no models (preset cores)")
	says(t, call(t, vm, "explain", "-f", "-", "-f", forbids).fine(t).err, "a reapply would be refused: ")
	for _, command := range []string{"expand", "explain", "render", "validate"} {
		got := call(t, vm, command, "-f", "-", "-f", forbids, reapply)
		if got.code != exitRefused {
			t.Errorf("%s: exit code %d, want %d", command, got.code, exitRefused)
		}
		says(t, got.out+got.err, "no models (preset cores)")
	}
	says(t, call(t, vm, "render", "-f", "-", "-f", forbids).fine(t).out, "<domain")
}

// single is text with single spaces.
func single(text string) string { return strings.Join(strings.Fields(text), " ") }

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

const (
	planOld = "testdata/plan/old"
	planNew = "testdata/plan/new"
	planVMs = "testdata/plan/vms.yaml"
)

func TestPlan(t *testing.T) {
	for _, output := range []string{"table", "diff", "markdown", "json"} {
		got := call(t, "", "plan", "-f", planNew, "-f", planVMs, "--base-dir", planOld, "-o", output)
		golden.Equal(t, "testdata/plan/plan.out."+output, got.out)
		if got.code != exitPlan || got.err != "" {
			t.Errorf("exit code %d: %s", got.code, got.err)
		}
	}
	golden.Stale(t, "testdata/plan/*.out.*")
}

// TestPlanRollouts counts VMs by the waves of the rollouts of presets that change.
func TestPlanRollouts(t *testing.T) {
	const vm = "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: NAME, namespace: shop, labels: {app: NAME}, annotations: {NOTE}}\n" +
		"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n"
	preset := func(memory string) string {
		return "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: size}\n" +
			"spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: " + memory + "}}}}}}}\n"
	}
	text := preset("2Gi")
	for name, note := range map[string]string{"canary": "", "web": "", "db": "", "held": "virtwright.dev/rollout: Hold"} {
		text += strings.NewReplacer("NAME", name, "NOTE", note).Replace(vm)
	}
	rollout := func(name, preset string) string {
		return "---\napiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: " + name + "}\nspec:\n  presets: [cluster/" + preset + "]\n" +
			"  waves: [{name: first, vms: {matchLabels: {app: canary}}}, {name: rest, approval: Required}]\n"
	}
	old := write(t, "old.yaml", preset("1Gi"))
	got := call(t, "", "plan", "-f", write(t, "new.yaml", text+rollout("size", "size")+rollout("other", "other")), "--base-dir", old)
	if got.code != exitRejected {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, got.out, "\nVMs: 4 of 4 VMs change\nWaves of PresetRollout size: first 1 VM, rest 2 VMs after an approval, 1 left out\n")
	if strings.Contains(got.out, "other") {
		t.Errorf("a rollout of an unchanged preset is shown:\n%s", got.out)
	}
}

// TestPlanProposesRollout prints a rollout whose steps are sized by the VMs that change. A plan
// takes it, and then has nothing to propose.
func TestPlanProposesRollout(t *testing.T) {
	preset := func(memory string) string {
		return "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: size}\n" +
			"spec: {match: {labels: {matchLabels: {size: s}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: " + memory + "}}}}}}}\n"
	}
	vms := func(n int, note string) (out string) {
		for i := range n {
			out += fmt.Sprintf("---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm-%d, namespace: shop, labels: {size: s}, annotations: {%s}}\n"+
				"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n", i, note)
		}
		return out
	}
	old := write(t, "old.yaml", preset("1Gi"))
	plan := func(text string) outcome {
		t.Helper()
		return call(t, text, "plan", "-f", "-", "--base-dir", old, "-o", "rollout")
	}
	for name, c := range map[string]struct{ text, steps, note string }{
		"many VMs":    {preset("2Gi") + vms(40, ""), "    - 3%\n    - 13%\n    - 100%\n", "VMs that change: 3% reaches 1, 13% reaches 4, 100% reaches 40\n"},
		"a few VMs":   {preset("2Gi") + vms(3, ""), "    - 30%\n    - 100%\n", "VMs that change: 30% reaches 1, 100% reaches 3\n"},
		"one VM":      {preset("2Gi") + vms(1, ""), "  waves:\n  - name: all\n", "VMs that change: 100% reaches 1\n"},
		"no VM":       {preset("2Gi"), "  waves:\n  - name: all\n", "VMs that change: 100% reaches 0\n"},
		"held VMs":    {preset("2Gi") + vms(3, "virtwright.dev/rollout: Hold"), "  waves:\n  - name: all\n", "VMs that change: 100% reaches 0\n"},
		"no change":   {preset("1Gi") + vms(3, ""), "", "there is nothing to roll out"},
		"a name used": {preset("2Gi") + "---\napiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: size}\nspec: {presets: [cluster/other], waves: [{name: all}]}\n", "  name: size-2\n", ""},
	} {
		got := plan(c.text)
		if !strings.Contains(got.out, c.steps) || !strings.Contains(got.err, c.note) || c.steps == "" && got.out != "" {
			t.Errorf("%s:\n%s%s", name, got.out, got.err)
		}
		if got.out != "" {
			says(t, plan(c.text+"---\n"+got.out).err, "there is nothing to roll out")
		}
	}
}

// TestPlanExitCodes distinguishes no difference from differences.
func TestPlanExitCodes(t *testing.T) {
	same := call(t, "", "plan", "-f", planOld, "-f", planVMs, "--base-dir", planOld).fine(t)
	if want := "Presets: no changes\nVMs: 0 of 6 VMs change, 3 rejected before and after, so not compared\n"; same.out != want {
		t.Errorf("want %q, got %q", want, same.out)
	}
	bigger := write(t, "presets.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: small}\nspec:\n"+
		"  match: {labels: {matchLabels: {size: small}}}\n  defaults: {spec: {template: {spec: {domain: {memory: {guest: 8Gi}}}}}}\n")
	if got := call(t, "", "plan", "-f", bigger, "-f", planVMs, "--base-dir", planOld); got.code != exitRejected {
		t.Errorf("differences: exit code %d: %s%s", got.code, got.out, got.err)
	}
	for args, want := range map[string][]string{
		"-f is required":                         {"plan", "--base-dir", planOld},
		"mutually exclusive":                     {"plan", "-f", planNew, "--base-dir", planOld, "--base-ref", "main"},
		"--prune cannot be used with --base-dir": {"plan", "-f", planNew, "--base-dir", planOld, "--prune"},
		"unknown field":                          {"plan", "-f", exampleRejected, "-f", planVMs, "--base-dir", planOld},
		"--dry-run: Unsupported value":           {"plan", "-f", planNew, "--dry-run=all"},
	} {
		got := call(t, "", want...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.out)
		}
		says(t, got.err, args)
	}
}

// TestPlanRevision compares files with a revision.
func TestPlanRevision(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	put := func(from, to string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), []byte(read(t, from)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	put(planOld+"/presets.yaml", "presets/presets.yaml")
	put(planVMs, "vms.yaml")
	git("add", "-A")
	git("commit", "-qm", "old")
	put(planNew+"/presets.yaml", "presets/presets.yaml")
	for _, files := range [][]string{{"-f", filepath.Join(dir, "presets")}, {"-f", filepath.Join(dir, "presets/presets.yaml")}, {"-f", filepath.Join(dir, "presets"), "-f", filepath.Join(dir, "presets/presets.yaml")}} {
		args := append([]string{"plan", "-f", filepath.Join(dir, "vms.yaml"), "--base-ref", "HEAD"}, files...)
		got := call(t, "", args...)
		if want := read(t, "testdata/plan/plan.out.table"); got.out != want || got.code != exitPlan {
			t.Errorf("%q: exit code %d: %s\n%s", files, got.code, got.err, got.out)
		}
	}
	// A folder that the revision does not have is new.
	put(planNew+"/presets.yaml", "more/presets.yaml")
	got := call(t, "", "plan", "-f", filepath.Join(dir, "more"), "-f", filepath.Join(dir, "vms.yaml"), "--base-ref", "HEAD")
	says(t, got.out, "Presets: 5 added\n")
	got = call(t, "", "plan", "-f", dir, "--base-ref", "absent")
	if got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.err, "cannot read "+dir+" of revision absent: ", ": fetch the revision, or name another one")
}

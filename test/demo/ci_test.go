package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// repository are the files of a repository with presets, tests and VMs.
var repository = map[string]string{
	"presets/web.yaml": `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: web}
spec: {match: {labels: {matchLabels: {role: web}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}
`,
	"tests/web.yaml": `apiVersion: virtwright.dev/v1alpha1
kind: VirtwrightTest
metadata: {name: web}
files: [../presets]
cases:
- name: gives memory
  vm: {metadata: {labels: {role: web}}}
  expect: {vm: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}
`,
	"vms/web.yaml": `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, labels: {role: web}}
spec: {template: {spec: {nodeSelector: {a: b}}}}
`,
}

// TestCI runs the script that jobs of CI run, for a good change of presets and for bad ones.
func TestCI(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	shell := func(script string) (string, error) {
		c := exec.CommandContext(t.Context(), "bash", "-ec", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "ROOT="+root, "BIN="+bin, "BASE=main",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for name, text := range repository {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // it is a repository
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := shell("go build -C $ROOT -o $BIN ./cmd/virtwright && git init -q -b main . && git add . && git commit -qm one && cp $ROOT/examples/ci/check-presets.sh ."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	good, err := shell("sed -i 's/1Gi/2Gi/' presets/web.yaml tests/web.yaml && ./check-presets.sh && cat junit.xml")
	if err != nil {
		t.Errorf("a good change fails: %v", err)
	}
	for _, want := range []string{"1 preset: no findings", "all passed", "1 of 1 VM", "`1Gi` | `2Gi`", "<testsuites"} {
		if !strings.Contains(good, want) {
			t.Errorf("a good change does not show %q:\n%s", want, good)
		}
	}
	for name, change := range map[string]string{
		"a change loosens":         "sed -i 's/match:/mode: Audit, match:/' presets/web.yaml",
		"the case fails":           "sed -i 's/2Gi/3Gi/' presets/web.yaml",
		"lint has a finding":       "sed -i 's/guest/gest/' presets/web.yaml",
		"a VM would be rejected":   "sed -i 's/match:/forbid: [{path: spec.template.spec.nodeSelector}], match:/' presets/web.yaml",
		"a new VM is rejected":     "sed 's/role: web/role: other/; s/name: web/name: new/' vms/web.yaml > vms/new.yaml",
		"a test cannot be read":    "echo '- {}' >> tests/web.yaml",
		"the revision is not here": "export BASE=no-such-revision",
	} {
		out, err := shell("git checkout -q . && git clean -fdq vms && sed -i 's/1Gi/2Gi/' presets/web.yaml tests/web.yaml && " + change + " && ./check-presets.sh")
		if err == nil {
			t.Errorf("it passes although %s:\n%s", name, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "plan.md")); (err != nil) != (name == "the revision is not here" || name == "lint has a finding") {
			t.Errorf("%s: plan.md: %v", name, err)
		}
		if name == "the case fails" {
			if report, err := os.ReadFile(filepath.Join(dir, "junit.xml")); err != nil || !strings.Contains(string(report), "<failure") {
				t.Errorf("the report has no failure: %v\n%s", err, report)
			}
		}
	}
	for _, job := range []string{".github/workflows/presets.yaml", ".gitlab-ci.yml"} {
		text, err := os.ReadFile(filepath.Join(root, "examples/ci", job))
		var parsed map[string]any
		if err != nil || yaml.Unmarshal(text, &parsed) != nil || !strings.Contains(string(text), "./check-presets.sh") {
			t.Errorf("%s does not run the script: %v", job, err)
		}
	}
}

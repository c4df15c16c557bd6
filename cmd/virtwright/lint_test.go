package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/test/golden"
)

// TestLintUnreadable prints the findings of the other files if a file cannot be read.
func TestLintUnreadable(t *testing.T) {
	dir := t.TempDir()
	const head = "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\n"
	for file, text := range map[string]string{
		"a.yaml": head + "metadata: {name: a\n", "b.yaml": head + "metadata: {name: b}\nspec: {defaults: {spec: {tmplate: {}}}}\n",
		"c.yaml": "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreste\nmetadata: {name: c}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := call(t, "", "lint", "-f", dir, "-f", filepath.Join(dir, "c.yaml"))
	if got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.out, "error VW101 cluster/b", "1 preset: 1 error")
	says(t, got.err, "a.yaml, document 1, line 3: cannot read the YAML", "ClusterVirtualMachinePreste")
	if got := call(t, "", "lint", "-f", filepath.Join(dir, "a.yaml")); got.code != exitUsage || got.out != "" || strings.Contains(got.err, "no preset") {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.err)
	}
}

// TestLintDefects finds exactly the expected defects of each file, at the expected line and column.
func TestLintDefects(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/defects/*.yaml")
	if err != nil || len(files) != 81 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	missing := map[string]bool{}
	for _, check := range fleet.Checks {
		missing[check.ID] = true
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			args := []string{"lint", "-f", file, "-o", "json"}
			if strings.Contains(file, "alongside-kubevirt") {
				args = append(args, "--mode", "addon")
			}
			got := call(t, "", args...)
			if got.code != exitRejected {
				t.Errorf("exit code %d: %s", got.code, got.err)
			}
			var report linted
			if err := json.Unmarshal([]byte(got.out), &report); err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, f := range report.Findings {
				found = append(found, fmt.Sprintf("%s %s %d:%d", f.ID, f.Preset, f.Line, f.Column))
				delete(missing, f.ID)
				if pair := f.ID == fleet.Conflicting.ID || f.ID == fleet.Forbidden.ID; pair && f.Witness == nil {
					t.Errorf("%s has no witness", f.ID)
				}
			}
			slices.Sort(found)
			if want := wantedFindings(t, file); !slices.Equal(found, want) {
				t.Errorf("want %q\ngot  %q\n%s", want, found, got.out)
			}
		})
	}
	if len(missing) > 0 {
		t.Errorf("no file has %v", missing)
	}
}

// TestLintRight finds nothing in valid presets.
func TestLintRight(t *testing.T) {
	files, err := filepath.Glob("testdata/lint/right/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		if got := call(t, "", "lint", "-f", file); got.code != exitFine {
			t.Errorf("%s: exit code %d: %s%s", file, got.code, got.out, got.err)
		}
	}
}

// wantedFindings reads the expectations in the comments at the top of a file.
func wantedFindings(t *testing.T, file string) []string {
	t.Helper()
	var out []string
	lines := bufio.NewScanner(strings.NewReader(read(t, file)))
	for lines.Scan() {
		want, ok := strings.CutPrefix(lines.Text(), "# want: ")
		if !ok {
			break
		}
		out = append(out, want)
	}
	slices.Sort(out)
	return out
}

// TestLintExamples finds nothing in the examples, except in the example of a finding.
func TestLintExamples(t *testing.T) {
	if got := call(t, "", "lint", "-f", examplePresets, "-f", exampleVMs).fine(t); !strings.HasSuffix(got.out, " presets: 0 errors, 0 warnings, 2 notes\n") {
		t.Error(got.out)
	}
	says(t, call(t, "", "lint", "-f", examplePresets, "-f", exampleRejected).out, "1 error, 0 warnings", "misspelt.yaml:16:13: error VW101")
}

func TestLintOutput(t *testing.T) {
	args := []string{"lint"}
	for _, name := range []string{"01-memory-typo", "33-default-under-override", "40-bios-against-efi", "53"} {
		files, err := filepath.Glob("testdata/lint/defects/" + name + "*.yaml")
		if err != nil || len(files) != 1 {
			t.Fatal(name, files, err)
		}
		args = append(args, "-f", files[0])
	}
	for _, output := range []string{"text", "json", "sarif"} {
		got := call(t, "", append(args, "-o", output)...)
		golden.Equal(t, "testdata/lint/report.out."+output, got.out)
		if got.code != exitRejected || got.err != "" {
			t.Errorf("exit code %d: %s", got.code, got.err)
		}
	}
	golden.Stale(t, "testdata/lint/*.out.*")
	report, err := sarif.FromBytes([]byte(read(t, "testdata/lint/report.out.sarif")))
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(); err != nil {
		t.Error(err)
	}
}

// TestLintInput reads standard input, and rejects input without presets.
func TestLintInput(t *testing.T) {
	says(t, call(t, exampleOf(t, fleet.NoOp), "lint", "-f", "-").out, "standard input:5:3: warning VW202 cluster/empty: spec: ")
	// A misspelt kind is an error.
	misspelt := call(t, strings.Replace(exampleOf(t, fleet.NoOp), "kind: ClusterVirtualMachinePreset", "kind: ClusterVirtualMachinePresets", 1), "lint", "-f", "-")
	says(t, misspelt.err, "unsupported kind ClusterVirtualMachinePresets of virtwright.dev/v1alpha1; did you mean \"ClusterVirtualMachinePreset\"?")
	in := func(group string) string {
		return call(t, exampleOf(t, fleet.NoOp)+"---\n"+strings.Replace(exampleOf(t, fleet.NoOp), "virtwright.dev", group, 1), "lint", "-f", "-").err
	}
	for _, misspelt := range []string{"virtwright.io", "virtwrigt.dev", "presets.virtwright.dev"} {
		says(t, in(misspelt), "unsupported kind ClusterVirtualMachinePreset of "+misspelt+"/v1alpha1: use virtwright.dev/v1alpha1")
	}
	says(t, in("example.com"), "ignored 1 of kind ClusterVirtualMachinePreset (example.com/v1alpha1)")
	got := call(t, "", "lint", "-f", exampleVMs)
	if got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.err, "no preset in -f")
}

// TestLintDocs compares the page of the checks with the code.
func TestLintDocs(t *testing.T) {
	golden.Equal(t, "../../docs/lint.md", lintPage(t))
}

func lintPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	fmt.Fprint(&page, `# What lint reports

<!-- This page is made from fleet/checks.go: make golden. -->

`+"`virtwright lint -f presets/`"+` checks presets, and exceptions from them, before they reach a cluster.
Each check has an ID that never changes. An error is a preset that a cluster rejects, that rejects
VMs, or whose outcome only names decide. A warning is a preset that has no effect, or probably not
the intended one. A note may be intended. The exit code is 1 if there are errors or warnings.

| ID | name | severity | finding |
|---|---|---|---|
`)
	for _, c := range fleet.Checks {
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s | %s |\n", c.ID, strings.ToLower(c.ID), c.Name, c.Severity, c.Summary)
	}
	fmt.Fprint(&page, `
A finding about two presets has a witness: a VM that shows it when it is created. The text names its
labels, and `+"`-o json`"+` has the whole object. `+"`-o sarif`"+` is for code scanning.

Conditions are tried, not solved: a conflict that only VMs with an unusual mix of fields show may be
missed. Each reported conflict is one that the engine has decided for the witness.

## What silence does not mean

Lint reports what presets and the VMs of its files contradict, and nothing that it would have to
guess. It does not know:

| question | answered by |
|---|---|
| Is the right value set on the right VMs? | a [test case](testing-presets.md) for `+"`virtwright test`"+` |
| Does a changed preset reject or change fewer VMs than before? | `+"`virtwright plan`"+`, which marks changes that [loosen](cli.md#changes-that-loosen) |
| Is a selector right that matches no VM yet, or an exception that matches many? | `+"`virtwright plan`"+`, which lists the affected VMs |
| Do VMs of the cluster differ from what presets would make of them now? | `+"`virtwright drift`"+` and `+"`virtwright violations`"+` |
`)
	for _, c := range fleet.Checks {
		about := fmt.Sprintf("**%s** (%s). %s", c.Name, c.Severity, c.Summary)
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n%s\n\n%s\n\n```yaml\n%s```\n", c.ID, wrapped(about), wrapped(c.Reason), wrapped(c.Fix), exampleOf(t, c))
	}
	return page.String()
}

func wrapped(text string) string {
	var out strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		if column > 0 && column+1+len(word) > 100 {
			out.WriteString("\n")
			column = 0
		} else if column > 0 {
			out.WriteString(" ")
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

// exampleOf returns a manifest with the finding of a check.
func exampleOf(t *testing.T, check *fleet.Check) string {
	t.Helper()
	text, err := os.ReadFile("../../fleet/testdata/checks/" + check.ID + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLintWitness names all that a witness needs, and expressions of computed values.
func TestLintWitness(t *testing.T) {
	const preset = "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\n"
	got := call(t, preset+"metadata: {name: ha}\nspec: {match: {labels: {matchLabels: {ha: \"true\"}}}, defaults: {spec: {template: {spec: {subdomain: bb}}}}}\n---\n"+
		preset+"metadata: {name: dev}\nspec: {match: {namespaces: {matchLabels: {env: dev}}}, defaults: {spec: {template: {spec: {subdomain: {$cel: \"object.metadata.namespace\"}}}}}}\n", "lint", "-f", "-")
	says(t, got.out, "VW301", `"bb" here, object.metadata.namespace there`, "in namespace any (labels env=dev) with labels ha=true")
}

// TestLintForbidsOwnValue checks the message for a preset that forbids what it sets itself.
func TestLintForbidsOwnValue(t *testing.T) {
	got := call(t, `apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: own}
spec:
  defaults: {metadata: {annotations: {note: "<a> & b"}}}
  forbid: [{path: metadata.annotations.note, message: no notes}]
`, "lint", "-f", "-")
	if got.code != exitRejected {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	says(t, got.out, `VW303 cluster/own: spec.defaults.metadata.annotations.note: sets metadata.annotations.note to "<a> & b", but also forbids metadata.annotations.note: VMs that the preset matches are rejected`)
}

// TestLintRequiresRemoved: no VM can have what one preset requires and another removes.
func TestLintRequiresRemoved(t *testing.T) {
	const preset = "---\n{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: %s}, spec: {%s}}\n"
	got := call(t, fmt.Sprintf(preset, "a", "require: [{path: spec.template.spec.domain.devices.rng, message: x}]")+
		fmt.Sprintf(preset, "b", "remove: [spec.template.spec.domain.devices.rng]"), "lint", "-f", "-")
	says(t, got.out, "error VW303 cluster/a", "but preset cluster/b removes spec.template.spec.domain.devices.rng")
}

// TestLintRejectedAndIncomplete: a value that a VM lacks does not excuse a wrong one.
func TestLintRejectedAndIncomplete(t *testing.T) {
	got := call(t, `
{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: cores}, spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 1}}}}}}}}
---
{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: shop}, spec: {runStrategy: Alwas, template: {spec: {domain: {devices: {}}}}}}
`, "lint", "-f", "-")
	says(t, got.out, "error VW305 vm/web: spec.runStrategy", "note VW306 vm/web: spec.template.spec.domain.memory.guest")
	if got.code == exitFine {
		t.Error("exit code 0")
	}
}

// TestLintThresholds: two thresholds of one number have VMs in common.
func TestLintThresholds(t *testing.T) {
	var given strings.Builder
	for name, threshold := range map[string]string{"a": "4", "b": "8"} {
		fmt.Fprintf(&given, "---\n{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: %s}, spec: {"+
			"match: {conditions: [{name: big, expression: 'object.spec.template.spec.domain.?cpu.cores.orValue(1) > %s'}]}, "+
			"defaults: {spec: {template: {spec: {subdomain: %[1]s}}}}}}\n", name, threshold)
	}
	says(t, call(t, given.String(), "lint", "-f", "-").out, "error VW301", "set spec.template.spec.subdomain at the same priority")
}

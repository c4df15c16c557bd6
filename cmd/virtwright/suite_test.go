package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/test/golden"
)

func TestSuite(t *testing.T) {
	got := call(t, "", "test", "-f", "testdata/suite/tests").fine(t)
	if got.out != "2 tests, 10 cases: all passed\n" || got.err != "" {
		t.Errorf("%s%s", got.out, got.err)
	}
}

// TestSuiteUpdates runs cases that update a VM, request a reapply, or set the time of an exception.
func TestSuiteUpdates(t *testing.T) {
	got := call(t, "", "test", "-f", "testdata/suite/updates", "--coverage").fine(t)
	says(t, got.out, "1 test, 12 cases: all passed", "covered: 3 of 3 presets, 3 of 3 leaves, 0 of 0 condition results, 1 of 1 rules")
}

// TestSuiteUpdateOrigin names the preset that set a value before an update.
func TestSuiteUpdateOrigin(t *testing.T) {
	const size = "{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: size}, spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: SIZE}}}}}}}}"
	got := call(t, "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: a}\nfiles: []\nobjects: ["+strings.Replace(size, "SIZE", "2Gi", 1)+"]\n"+
		"cases: [{name: a, before: {objects: ["+strings.Replace(size, "SIZE", "1Gi", 1)+"]}, vm: {spec: {template: {spec: {domain: {devices: {}}}}}}, "+
		"expect: {vm: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}}]\n", "test", "-f", "-")
	says(t, got.out, `- "2Gi"`, `+ "1Gi"   cluster/size (default)`)
}

// TestSuiteBefore reports VMs that cannot be created before the update of a case.
func TestSuiteBefore(t *testing.T) {
	const vm = "{spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}"
	for name, c := range map[string]struct{ given, want string }{
		"Rejected":  {"before: {vm: {spec: {template: {spec: {domain: {memory: {guest: 0Gi}}}}}}}, vm: " + vm, "before: the VM is not created: "},
		"OtherName": {"before: {vm: {metadata: {name: a}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}, vm: " + vm, "before: the VM is VirtualMachine default/a, but the case updates VirtualMachine default/vm"},
		"Objects":   {"before: {objects: [{kind: Namespace}]}, vm: " + vm, "before: objects[0]: "},
	} {
		got := call(t, "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: a}\nfiles: []\ncases: [{name: a, "+c.given+"}]\n", "test", "-f", "-")
		if got.code != exitRejected {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.err)
		}
		says(t, got.out, c.want)
	}
}

// TestSuiteReport compares the report of failing cases in each format.
func TestSuiteReport(t *testing.T) {
	for _, output := range []string{"text", "json", "junit"} {
		got := call(t, "", "test", "-f", "testdata/suite/failing", "-o", output)
		golden.Equal(t, "testdata/suite/report.out."+output, got.out)
		if got.code != exitRejected || got.err != "" {
			t.Errorf("exit code %d: %s", got.code, got.err)
		}
	}
	golden.Stale(t, "testdata/suite/*.out.*")
	var report junit.Testsuites
	if err := xml.Unmarshal([]byte(read(t, "testdata/suite/report.out.junit")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Tests != 9 || report.Failures != 6 || report.Errors != 2 {
		t.Errorf("%d tests, %d failures, %d errors", report.Tests, report.Failures, report.Errors)
	}
}

// TestCoverage compares the coverage with a manual count.
func TestCoverage(t *testing.T) {
	got := call(t, "", "test", "-f", "testdata/suite/tests", "--coverage", "-o", "json").fine(t)
	var report testReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err)
	}
	want := &fleet.CoverageReport{
		Presets: fleet.Ratio{Covered: 3, Total: 4}, // with the preset of one case
		Leaves:  fleet.Ratio{Covered: 8, Total: 9},
		Results: fleet.Ratio{Covered: 3, Total: 4},
		Forbids: fleet.Ratio{Covered: 2, Total: 3},
		Percent: 80,
		Missing: []fleet.Uncovered{
			{Preset: "cluster/unused", Reason: "no case has a VM that it matches"},
			{Preset: "cluster/windows", Field: "spec.forbid[1].path", Reason: "no case has a VM that violates this rule"},
			{Preset: "cluster/windows", Field: "spec.match.conditions[1]", Reason: "no case makes it false"},
		},
	}
	if diff := cmp.Diff(want, report.Coverage); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	text := call(t, "", "test", "-f", "testdata/suite/tests", "--coverage").fine(t).out
	says(t, text, "covered: 3 of 4 presets, 8 of 9 leaves, 3 of 4 condition results, 2 of 3 rules",
		"not covered cluster/windows: spec.forbid[1].path: no case has a VM that violates this rule")
}

// TestCoverageThreshold fails below the percentage: 16 of 20 parts are covered.
func TestCoverageThreshold(t *testing.T) {
	for threshold, code := range map[string]int{"80": exitFine, "80.1": exitRejected, "100": exitRejected, "0": exitFine, "101": exitUsage, "-1": exitUsage, "NaN": exitUsage} {
		got := call(t, "", "test", "-f", "testdata/suite/tests", "--coverage-threshold", threshold)
		if got.code != code {
			t.Errorf("%s: exit code %d: %s%s", threshold, got.code, got.out, got.err)
		}
		switch code {
		case exitRejected:
			says(t, got.out, "FAIL the coverage of 80.0% is below the threshold of "+threshold+"%\n", "10 cases: all passed")
		case exitUsage:
			says(t, got.err, "invalid --coverage-threshold "+threshold+": must be a percentage from 0 to 100")
		}
	}
	got := call(t, "", "test", "-f", "testdata/suite/tests", "--coverage-threshold", "81", "-o", "junit")
	says(t, got.out, `name="coverage"`, "2 of 3 rules: 80.0%", `<failure message="the coverage of 80.0% is below the threshold of 81%"`)
}

// TestSuiteInvalid runs the other tests if a file cannot be read or a test is invalid.
func TestSuiteInvalid(t *testing.T) {
	dir := t.TempDir()
	const head = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\n"
	const good = head + "metadata: {name: good}\nfiles: []\ncases: [{name: a, vm: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}]\n"
	for file, text := range map[string]string{"a.yaml": head + "metadata: {name: a}\ncases: [{name: a, wm: {}}]\n", "b.yaml": head + "metadata: {name: b\n", "c.yaml": good, "d.yaml": good + "---\n" + good} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wants := map[string][]string{
		"text":  {"2 tests, 2 cases: 2 passed, 0 failed; 3 invalid\n"},
		"json":  {`"passed": true`, `/b.yaml",` + "\n      " + `"line": 3`, `"invalid": 3`, `unknown field \"wm\"`},
		"junit": {`name="good"`, `<error message="invalid input">`, "b.yaml:3\"", "unknown field"},
	}
	for output, want := range wants {
		got := call(t, "", "test", "-f", dir, "-o", output)
		if got.code != exitUsage {
			t.Errorf("exit code %d", got.code)
		}
		says(t, got.out, want...)
		says(t, got.err, "a.yaml, document 1: VirtwrightTest a is invalid:", "b.yaml, document 1, line 3: cannot read the YAML", `d.yaml, document 2: VirtwrightTest: metadata.name: Duplicate value: "good"`)
		if output == "junit" {
			var report junit.Testsuites
			if err := xml.Unmarshal([]byte(got.out), &report); err != nil || report.Tests != 5 || report.Errors != 3 {
				t.Errorf("%v: %d tests, %d errors", err, report.Tests, report.Errors)
			}
		}
	}
}

// TestCoverageOfOneName counts different presets of the same name separately.
func TestCoverageOfOneName(t *testing.T) {
	suite := func(name, label, spec string) string {
		return "---\napiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: " + name + "}\nfiles: []\nobjects:\n" +
			"- {apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: base}, spec: {match: {labels: {matchLabels: {a: b}}}, " + spec + "}}\n" +
			"cases: [{name: a, vm: {metadata: {labels: {a: " + label + "}}, spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}]\n"
	}
	one := suite("one", "c", "defaults: {spec: {template: {spec: {hostname: a}}}}, forbid: [{path: spec.template.spec.subdomain}]")
	two := suite("two", "b", "defaults: {spec: {template: {spec: {hostname: a, subdomain: b, schedulerName: c}}}}")
	same := suite("three", "c", "defaults: {spec: {template: {spec: {hostname: a, subdomain: b, schedulerName: c}}}}")
	for _, input := range []string{one + two + same, same + two + one} {
		says(t, call(t, input, "test", "-f", "-", "--coverage").fine(t).out,
			"covered: 1 of 2 presets, 3 of 4 leaves, 0 of 0 condition results, 0 of 1 rules", "not covered cluster/base: no case")
	}
}

// TestSuiteUpdate writes golden files, which then pass, and leaves equal ones unchanged.
func TestSuiteUpdate(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/suite")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tests/windows.golden")
	want := read(t, file)
	if err := os.WriteFile(file, []byte(strings.Replace(want, "4Gi", "5Gi", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call(t, "", "test", "-f", filepath.Join(dir, "tests"))
	says(t, got.out, `- "5Gi"`, `+ "4Gi"   cluster/windows (default)`)
	says(t, call(t, "", "test", "-f", filepath.Join(dir, "tests"), "--update").fine(t).err, "wrote "+file)
	if diff := cmp.Diff(want, read(t, file)); diff != "" {
		t.Error(diff)
	}
	if got := call(t, "", "test", "-f", filepath.Join(dir, "tests"), "--update").fine(t); got.err != "" {
		t.Errorf("an equal file was written: %s", got.err)
	}
	missing := filepath.Join(dir, "failing/missing.golden")
	says(t, call(t, "", "test", "-f", filepath.Join(dir, "failing"), "--update").err, "wrote "+missing)
	says(t, read(t, missing), "guest: 1Gi")
}

// TestSuiteUpdateTwice fails the second case with the same golden file, and creates folders.
func TestSuiteUpdateTwice(t *testing.T) {
	file := write(t, "test.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: a}\nfiles: []\ncases:\n"+
		"- {name: one, vm: &vm {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}, expect: {golden: new/same.golden}}\n"+
		"- {name: equal, vm: *vm, expect: {golden: new/same.golden}}\n"+
		"- {name: other, vm: {metadata: {generateName: x-}, spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}, expect: {golden: new/same.golden}}\n")
	got := call(t, "", "test", "-f", file, "--update")
	says(t, got.out, "a: other\n", "another case with a different VM uses the same golden file", "2 passed, 1 failed")
	got = call(t, "", "test", "-f", file)
	says(t, got.out, "metadata.generateName", `- "1Gi"`, `+ "2Gi"`, "2 passed, 1 failed")
}

// TestJUnitText escapes characters that XML forbids.
func TestJUnitText(t *testing.T) {
	got := call(t, "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: a}\nfiles: []\ncases:\n"+
		"- {name: \"a\\uFFFF ]]> <b>\", vm: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}, expect: {vm: {metadata: {annotations: {\"x\\uFFFE\": \"]]>\\uFFFF\\e\"}}}}}\n", "test", "-f", "-", "-o", "junit")
	var report junit.Testsuites
	if err := xml.Unmarshal([]byte(got.out), &report); err != nil || report.Failures != 1 {
		t.Errorf("%v:\n%s", err, got.out)
	}
}

// TestSuiteInput reports the position of errors in manifests.
func TestSuiteInput(t *testing.T) {
	const head = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"NoTest":          {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", []string{"no VirtwrightTest in -f -"}},
		"UnknownField":    {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expct: {}}]\n", []string{`cases[0].expct: Invalid value: "expct": unknown field "expct"; did you mean "expect"?`}},
		"Version":         {"apiVersion: virtwright.dev/v1\nkind: VirtwrightTest\nmetadata: {name: a}\ncases: [{name: a, vm: {}}]\n", []string{`apiVersion: Unsupported value: "virtwright.dev/v1"`}},
		"Empty":           {head, []string{"metadata.name: Required value", "cases: Required value"}},
		"Mode":            {head + "metadata: {name: a}\nmode: both\ncases: [{name: a, vm: {}}]\n", []string{`mode: Unsupported value: "both": supported values: "standalone", "addon"`}},
		"Nameless":        {head + "metadata: {name: a}\ncases: [{vm: {}}]\n", []string{"cases[0].name: Required value"}},
		"TwoNames":        {head + "metadata: {name: a}\ncases: [{name: a, vm: {}}, {name: a, vm: {}}]\n", []string{`cases[1].name: Duplicate value: "a"`}},
		"NoVM":            {head + "metadata: {name: a}\ncases: [{name: a}]\n", []string{"cases[0].vm: Required value"}},
		"TwoVMs":          {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, vmFile: a.yaml}]\n", []string{"cases[0].vmFile: Forbidden"}},
		"NoFile":          {head + "metadata: {name: a}\ncases: [{name: a, vmFile: no-such-file.yaml}]\n", []string{"cases[0].vmFile: Invalid value", "no-such-file.yaml"}},
		"SeveralInFile":   {head + "metadata: {name: a}\ncases: [{name: a, vmFile: ../../examples/namespaces.yaml}]\n", []string{"must contain exactly one object, but has"}},
		"Kind":            {head + "metadata: {name: a}\ncases: [{name: a, vm: {kind: Pod}}]\n", []string{`cases[0].vm.kind: Unsupported value: "Pod"`}},
		"EmptyList":       {head + "metadata: {name: a}\ncases: [{name: a, vm: {kind: VirtualMachineList, items: []}}]\n", []string{`cases[0].vm: Invalid value: "VirtualMachineList": must contain exactly one object, but has 0`}},
		"NoSuchField":     {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {vm: {spec: {template: {spec: {domain: {devices: {tmp: null}}}}}}}}]\n", []string{"cases[0].expect.vm.spec.template.spec.domain.devices.tmp", `did you mean "tpm"?`}},
		"WrongType":       {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {vm: {spec: {template: {spec: {domain: {cpu: {cores: two}}}}}}}}]\n", []string{"cases[0].expect.vm.spec.template.spec.domain.cpu.cores", "whole number"}},
		"NoKey":           {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {vm: {spec: {template: {spec: {domain: {devices: {disks: [{serial: a}]}}}}}}}}]\n", []string{"disks: Required value: each element needs the field that identifies it"}},
		"AbsentPath":      {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {absent: [spec.tmplate]}}]\n", []string{"cases[0].expect.absent[0]: Invalid value: \"spec.tmplate\""}},
		"AbsentPattern":   {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {absent: ['spec.template.spec.networks[*]']}}]\n", []string{"* is not supported: name the element"}},
		"GoldenManifest":  {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {golden: vm.yaml}}]\n", []string{`cases[0].expect.golden: Invalid value: "vm.yaml": must end with .golden`}},
		"OtherKind":       {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {vm: {kind: VirtualMachineFoo}}}]\n", []string{`cases[0].expect.vm.kind: Unsupported value: "VirtualMachineFoo"`}},
		"Record":          {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {vm: {metadata: {annotations: {virtwright.dev/provenance: x}}}}}]\n", []string{"cases[0].expect.vm.metadata.annotations[virtwright.dev/provenance]: Forbidden"}},
		"AbsentRecord":    {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {absent: ['metadata.annotations[\"virtwright.dev/provenance\"]']}}]\n", []string{"the record of origins is not compared"}},
		"OneName":         {head + "metadata: {name: a}\ncases: [{name: a, vm: {}}]\n---\n" + head + "metadata: {name: a}\ncases: [{name: a, vm: {}}]\n", []string{`document 2: VirtwrightTest: metadata.name: Duplicate value: "a"`}},
		"OtherCase":       {head + "metadata: {name: a}\ncases: [{name: a, vm: {}}]\n---\n" + strings.Replace(head, "VirtwrightTest", "virtwrightTest", 1), []string{"document 2: unsupported kind virtwrightTest", "use VirtwrightTest"}},
		"Plural":          {head + "metadata: {name: a}\ncases: [{name: a, vm: {}}]\n---\n" + strings.Replace(head, "VirtwrightTest", "VirtwrightTests", 1), []string{"document 2: unsupported kind VirtwrightTests"}},
		"OtherGroup":      {head + "metadata: {name: a}\ncases: [{name: a, vm: {}}]\n---\napiVersion: v1\nkind: VirtwrightTest\n", []string{"document 2: unsupported kind VirtwrightTest of v1"}},
		"FieldOfVM":       {head + "metadata: {name: a}\ncases: [{name: a, vm: {spec: {tmplate: {}}}, expect: {rejected: [template]}}]\n", []string{`cases[0].vm.spec.tmplate: Invalid value`, `did you mean "template"?`}},
		"TextForList":     {head + "metadata: {name: a}\ncases: [{name: a, vm: {}}, {name: b, vm: {}, expect: {rejected: text}}]\n", []string{"cases[1].expect.rejected: Invalid value: \"string\": must be a list"}},
		"FilesAsText":     {head + "metadata: {name: a}\nfiles: presets\ncases: [{name: a, vm: {}}]\n", []string{"files: Invalid value: \"string\": must be a list"}},
		"NoSuchFolder":    {head + "metadata: {name: a}\nfiles: [no-such-folder]\ncases: [{name: a, vm: {}}]\n", []string{`files[0]: Invalid value: "no-such-folder": cannot be read: no such file or directory`}},
		"SeveralLines":    {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, x: 1, z: 2}]\n", []string{"\n  cases[0].x: ", "\n  cases[0].z: "}},
		"RejectedAndVM":   {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {rejected: [a], vm: {}, golden: a.yaml}}]\n", []string{"cases[0].expect.vm: Forbidden", "cases[0].expect.golden: Forbidden"}},
		"RejectedNothing": {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {rejected: []}}]\n", []string{"cases[0].expect.rejected: Required value"}},
		"EmptyWarning":    {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, expect: {warnings: ['']}}]\n", []string{"cases[0].expect.warnings: Required value"}},
		"Now":             {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, now: tomorrow}]\n", []string{`cases[0].now: Invalid value: "tomorrow": must be a time such as 2026-01-31T12:00:00Z`}},
		"BeforeNow":       {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, before: {now: '2026'}}]\n", []string{`cases[0].before.now: Invalid value: "2026"`}},
		"BeforeField":     {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, before: {vn: {}}}]\n", []string{`cases[0].before.vn: Invalid value: "vn": unknown field "vn"; did you mean "vm"?`}},
		"BeforeTwoVMs":    {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, before: {vm: {}, vmFile: a.yaml}}]\n", []string{"cases[0].before.vmFile: Forbidden"}},
		"BeforeKind":      {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, before: {vm: {kind: Pod}}}]\n", []string{`cases[0].before.vm.kind: Unsupported value: "Pod"`}},
		"ReapplyAVMI":     {head + "metadata: {name: a}\ncases: [{name: a, vm: {kind: VirtualMachineInstance}, reapply: true}]\n", []string{`cases[0].vm.kind: Unsupported value: "VirtualMachineInstance": supported values: "VirtualMachine"`}},
		"CurrentModes":    {head + "metadata: {name: a}\ncases: [{name: a, vm: {}, currentModes: today}]\n", []string{"cases[0].currentModes: Invalid value: \"string\": must be true or false"}},
		"VMOfAVMI":        {head + "metadata: {name: a}\ncases: [{name: a, vm: {kind: VirtualMachineInstance}, expect: {vm: {}}}]\n", []string{"cases[0].expect.vm: Forbidden: the case creates a VirtualMachineInstance: use vmi"}},
	} {
		got := call(t, c.text, "test", "-f", "-")
		if got.code != exitUsage || strings.Contains(got.out, "all passed") {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.out)
		}
		says(t, got.err, c.want...)
	}
	says(t, call(t, "", "test").err, "-f is required")
	says(t, call(t, "", "test", "-k", ".").err, "-f is required")
}

// BenchmarkSuite runs a case for each VM of BenchmarkExpand.
func BenchmarkSuite(b *testing.B) {
	const count = 2000
	dir := manyVMs(b, count)
	var text strings.Builder
	for i, document := range documents(b, dir) {
		if i%100 == 0 {
			presets, err := filepath.Abs(examplePresets)
			if err != nil {
				b.Fatal(err)
			}
			namespaces := filepath.Join(filepath.Dir(presets), "namespaces.yaml")
			text.WriteString("---\napiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: many-" + strconv.Itoa(i) + "}\nfiles: [" + presets + ", " + namespaces + "]\ncases:\n")
		}
		text.WriteString("- name: vm-" + string(rune('a'+i%26)) + strings.Repeat("x", i%100) + "\n  vm:" + strings.ReplaceAll("\n"+document, "\n", "\n    ") + "\n  expect: {vm: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}\n")
	}
	file := filepath.Join(b.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var out, errs strings.Builder
		if code := run(b.Context(), []string{program, "test", "-f", file}, streams{strings.NewReader(""), &out, &errs}); code != exitFine {
			b.Fatal(code, out.String(), errs.String())
		}
	}
	b.ReportMetric(float64(b.N*count)/b.Elapsed().Seconds(), "VMs/s")
}

func documents(tb testing.TB, dir string) []string {
	tb.Helper()
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			tb.Fatal(err)
		}
		content, err := io.ReadAll(f)
		if err != nil {
			tb.Fatal(err)
		}
		f.Close()
		out = append(out, strings.Split(string(content), "---\n")[1:]...)
	}
	return out
}

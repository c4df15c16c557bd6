package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/annotated"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

const testHelp = `Run the test cases of presets: create the VM of each case, and compare it with the expectation.

The cases are in VirtwrightTest manifests among the files of -f. A manifest names the files with the
presets, relative to itself. By default, these are all files in its folder. docs/testing-presets.md
describes all fields.

With --live, the presets, policies and namespaces of a cluster are used, too. A file replaces the
object of the same kind, namespace and name in the cluster.

Failed cases and a summary are printed to standard output. The exit code is 1 if a case fails.`

const testExamples = `  # All tests beneath a folder
  {{program}} test -f examples/catalogue

  # The parts of presets that no case covers
  {{program}} test -f examples/catalogue --coverage

  # Update golden files, and review the changes
  {{program}} test -f tests/ --update && git diff tests/

  # A report for CI
  {{program}} test -f tests/ -o junit > junit.xml`

type testCommand struct {
	settings
	update, coverage bool
	// golden has the content for each golden file of a case.
	golden map[string]string
}

func newTest(shown string, s streams) *cobra.Command {
	o := &testCommand{golden: map[string]string{}}
	o.filesOnly, o.withoutVMs = true, true
	c := &cobra.Command{
		Use: "test -f FILE...", Short: "Run the test cases of presets", Long: testHelp, Example: testExamples,
		Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"text", "json", "junit"}, func(ctx context.Context, _ []string) error { return o.run(ctx, s) }, o.checkFiles)
	o.declareValidation(c)
	c.Flags().BoolVar(&o.update, "update", false, "write the golden files that differ")
	c.Flags().BoolVar(&o.coverage, "coverage", false, "report which presets, leaves, conditions and rules no case covers")
	return c
}

func (o *testCommand) checkFiles(*cobra.Command) error {
	switch {
	case len(o.files) == 0:
		return errors.New("-f is required: name files or folders with VirtwrightTest manifests")
	case o.kustomize != "":
		return errors.New("-k cannot be used: tests are read from -f")
	}
	return nil
}

func (o *testCommand) run(ctx context.Context, s streams) error {
	var stdin bytes.Buffer
	s.in = io.TeeReader(s.in, &stdin)
	files, stored, err := o.sources(ctx, s, nil)
	if err != nil {
		return err
	}
	suites, err := offline.Suites(files)
	if err != nil {
		return err
	}
	if len(suites) == 0 {
		return fmt.Errorf("no VirtwrightTest in %s", o.described(nil))
	}
	cases := 0
	for _, suite := range suites {
		cases += len(suite.Cases)
	}
	untune := tuneGC(64 * cases) // all VMs stay in memory
	defer untune()
	runner := &offline.SuiteRun{Settings: o.ofMode, Stored: stored, Update: o.update}
	if o.coverage {
		runner.Coverage = &fleet.Coverage{}
	}
	noted := map[string]bool{}
	report := &testReport{stdin: stdin.Bytes(), lines: map[manifest.Position][]int{}, Cases: []testCase{}}
	shown := newProgress(s, "tested", cases)
	for result := range runner.Run(ctx, suites) {
		for _, text := range result.Notes {
			if !noted[text] {
				note(s, []string{text})
			}
			noted[text] = true
		}
		o.write(s, result)
		report.add(result)
		shown.at(len(report.Cases))
	}
	shown.clear()
	if o.coverage {
		report.Coverage = runner.Coverage.Report()
	}
	if err := report.print(o.output, s); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	if report.Summary.Failed > 0 {
		return errPrinted
	}
	return nil
}

// ofMode returns the settings for a mode; the empty mode means that of the flag.
func (o *testCommand) ofMode(mode string) (offline.Settings, error) {
	one := o.settings
	rules := o.rules
	if mode != "" {
		one.mode = mode
	}
	settings, err := one.clusterSettings(streams{in: strings.NewReader("")}, nil)
	one.rules, settings.Rules = rules, &one.rules
	settings.Rules.Addon, settings.Rules.Architecture = one.mode == modeAddon, one.platform.Architecture
	return settings, err
}

// write updates the golden file of a case. An error fails the case.
func (o *testCommand) write(s streams, r *offline.CaseResult) {
	if !o.update || r.Stored == nil || r.Case.Expect.Golden == "" {
		return
	}
	file := r.GoldenFile()
	text, err := rendered("yaml", r.Stored)
	if other, again := o.golden[file]; err == nil && again && other != text {
		r.Texts = append(r.Texts, fmt.Sprintf("another case with a different VM uses the same golden file %s", file))
		return
	}
	if o.golden[file] = text; !r.Outdated {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // manifests are for everyone
	}
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // manifests are for everyone
	}
	if err != nil {
		r.Texts = append(r.Texts, "cannot write the golden file: "+err.Error())
		return
	}
	fmt.Fprintln(s.err, "wrote", file)
}

func (t *testReport) line(r *offline.CaseResult) int {
	lines, known := t.lines[r.Suite.Where]
	if !known {
		content := t.stdin
		if r.Suite.Where.File != "standard input" {
			content, _ = os.ReadFile(r.Suite.Where.File)
		}
		lines = manifest.Lines(content, r.Suite.Where, "cases")
		t.lines[r.Suite.Where] = lines
	}
	if r.Index >= len(lines) {
		return 0
	}
	return lines[r.Index]
}

type testReport struct {
	Cases    []testCase            `json:"cases"`
	Coverage *fleet.CoverageReport `json:"coverage,omitempty"`
	Summary  testSummary           `json:"summary"`

	// stdin is the content of standard input; lines has the lines of the cases of each test.
	stdin []byte
	lines map[manifest.Position][]int
}

type testCase struct {
	File string `json:"file"`
	// Line of a failed case.
	Line   int    `json:"line,omitempty"`
	Test   string `json:"test"`
	Case   string `json:"case"`
	Passed bool   `json:"passed"`
	// Error is set if the case could not run.
	Error    string      `json:"error,omitempty"`
	Problems []string    `json:"problems,omitempty"`
	Messages []string    `json:"messages,omitempty"`
	Fields   []testField `json:"fields,omitempty"`
}

type testField struct {
	Path string `json:"path"`
	// Expected and Actual are missing if there is no value.
	Expected any `json:"expected,omitempty"`
	Actual   any `json:"actual,omitempty"`
	// Origin of the actual value.
	Origin *annotated.Source `json:"origin,omitempty"`
	// Reasons explain why presets with the expected value were not applied.
	Reasons []string `json:"reasons,omitempty"`
}

type testSummary struct {
	Tests  int `json:"tests"`
	Cases  int `json:"cases"`
	Failed int `json:"failed"`
}

func (t *testReport) add(r *offline.CaseResult) {
	c := testCase{File: r.Suite.Where.File, Test: r.Suite.Metadata.Name, Case: r.Case.Name, Passed: r.Passed(), Problems: r.Problems, Messages: r.Texts}
	if last := len(t.Cases) - 1; last < 0 || t.Cases[last].File != c.File || t.Cases[last].Test != c.Test {
		t.Summary.Tests++
	}
	t.Summary.Cases++
	if !c.Passed {
		t.Summary.Failed++
		c.Line = t.line(r)
	}
	if r.Err != nil {
		c.Error = r.Err.Error()
	}
	for _, f := range r.Fields {
		field := testField{Path: pathOf(f), Expected: f.Expected, Actual: f.Actual, Reasons: f.Reasons}
		if f.Origin != nil {
			by := annotated.SourceOf(*f.Origin, false)
			field.Origin = &by
		}
		c.Fields = append(c.Fields, field)
	}
	t.Cases = append(t.Cases, c)
}

func pathOf(f offline.FieldResult) string {
	if !f.VMI {
		return f.Path.String()
	}
	return "vmi: " + strings.TrimPrefix(f.Path.String(), "spec.template.")
}

func (t *testReport) print(output string, s streams) error {
	switch output {
	case "json":
		return printJSON(s.out, t)
	case "junit":
		return t.junit(s)
	}
	colours := styleOf(s.out)
	for i := range t.Cases {
		switch c := &t.Cases[i]; {
		case c.Passed:
		case c.Error != "" && i > 0 && t.Cases[i-1].Error == c.Error && t.Cases[i-1].Test == c.Test:
			fmt.Fprintf(s.out, "%s %s: %s: %s: could not run, for the same reason\n", colours.paint(red, "FAIL"), c.place(), c.Test, presets.EscapeLine(c.Case))
		default:
			fmt.Fprintf(s.out, "%s %s: %s: %s\n%s", colours.paint(red, "FAIL"), c.place(), c.Test, presets.EscapeLine(c.Case), c.text(colours))
		}
	}
	if t.Coverage != nil {
		t.printCoverage(s)
	}
	_, err := fmt.Fprintln(s.out, t.Summary)
	return err
}

func (c *testCase) place() string {
	if c.Line == 0 {
		return c.File
	}
	return fmt.Sprintf("%s:%d", c.File, c.Line)
}

// text formats the differences, with - for expected and + for actual values.
func (c *testCase) text(colours style) string {
	var out strings.Builder
	for _, text := range append([]string{c.Error}, c.Messages...) {
		if text != "" {
			fmt.Fprintf(&out, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&out, "  rejected: %s\n", oneLine(p))
	}
	for _, f := range c.Fields {
		fmt.Fprintf(&out, "  %s\n    %s\n    %s\n", f.Path, colours.paint(red, "- "+asJSON(f.Expected)), colours.paint(green, "+ "+asJSON(f.Actual)+f.from()))
		for _, reason := range f.Reasons {
			fmt.Fprintf(&out, "      %s\n", oneLine(reason))
		}
	}
	return out.String()
}

func (f *testField) from() string {
	if f.Origin == nil {
		return ""
	}
	return "   " + f.Origin.String()
}

func asJSON(value any) string {
	if value == nil {
		return "(absent)"
	}
	return oneLine(presets.FormatValue(value))
}

func (t *testReport) printCoverage(s streams) {
	for _, m := range t.Coverage.Missing {
		name := m.Preset
		if m.Namespace != "" {
			name = m.Namespace + "/" + name
		}
		if m.Field != "" {
			name += ": " + m.Field
		}
		fmt.Fprintf(s.out, "%s %s: %s\n", styleOf(s.out).paint(yellow, "not covered"), name, m.Reason)
	}
	c := t.Coverage
	fmt.Fprintf(s.out, "covered: %s presets, %s leaves, %s condition results, %s rules\n", coveredOf(c.Presets), coveredOf(c.Leaves), coveredOf(c.Results), coveredOf(c.Forbids))
}

func coveredOf(r fleet.Ratio) string { return fmt.Sprintf("%d of %d", r.Covered, r.Total) }

// String formats the last line of the output.
func (s testSummary) String() string {
	text := fmt.Sprintf("%s, %s: ", counted(s.Tests, "test"), counted(s.Cases, "case"))
	if s.Failed == 0 {
		return text + "all passed"
	}
	return text + fmt.Sprintf("%d passed, %d failed", s.Cases-s.Failed, s.Failed)
}

func (t *testReport) junit(s streams) error {
	var out junit.Testsuites
	var suite *junit.Testsuite
	flush := func() {
		if suite != nil {
			out.AddSuite(*suite)
		}
	}
	for i := range t.Cases {
		c := &t.Cases[i]
		if suite == nil || suite.Name != c.Test || suite.File != c.File {
			flush()
			suite = &junit.Testsuite{Name: c.Test, File: c.File, Time: "0", ID: len(out.Suites)}
		}
		one := junit.Testcase{Name: presets.EscapeLine(c.Case), Classname: c.Test}
		switch text := presets.Escape(c.text(false)); {
		case c.Error != "":
			one.Error = &junit.Result{Message: "the case could not run", Data: text}
		case !c.Passed:
			one.Failure = &junit.Result{Message: fmt.Sprintf("%s: not as expected", c.place()), Data: text}
		}
		suite.AddTestcase(one)
	}
	flush()
	if err := out.WriteXML(s.out); err != nil {
		return errors.Join(errors.New("cannot write JUnit XML"), err)
	}
	return nil
}

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

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

const testHelp = `Run the test cases of presets: create the VM of each case, and compare it with the expectation.

The cases are in VirtwrightTest manifests among the files of -f. A manifest names the files with the
presets, relative to itself. By default, these are all files in its folder. docs/testing-presets.md
describes all fields.

With --live, the presets, policies and namespaces of a cluster are used, too. A file replaces the
object of the same kind, namespace and name in the cluster.

Failed cases and a summary are printed to standard output. The exit code is 1 if a case fails, or if
the coverage is below --coverage-threshold. If a file or a test is invalid, the others run all the
same, and the exit code is 2.`

const testExamples = `  # All tests beneath a folder
  {{program}} test -f examples/catalogue

  # The parts of presets that no case covers
  {{program}} test -f examples/catalogue --coverage

  # Fail if the cases cover less than 90 percent
  {{program}} test -f tests/ --coverage-threshold 90

  # Update golden files, and review the changes
  {{program}} test -f tests/ --update && git diff tests/

  # A report for CI
  {{program}} test -f tests/ -o junit > junit.xml`

type testCommand struct {
	settings
	update, coverage bool
	// threshold is a percentage; 0 accepts any coverage.
	threshold float64
	// golden has the content for each golden file of a case.
	golden map[string]string
}

func newTest(shown string, s streams) *cobra.Command {
	o := &testCommand{golden: map[string]string{}}
	o.filesOnly, o.withoutVMs, o.partial = true, true, true
	o.without = flagsForReapply[:2]
	c := &cobra.Command{
		Use: "test -f FILE...", Short: "Run the test cases of presets", Long: testHelp, Example: testExamples,
		Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"text", "json", "junit"}, func(ctx context.Context, _ []string) error { return o.run(ctx, s) }, o.checkFiles)
	o.declareValidation(c)
	c.Flags().BoolVar(&o.update, "update", false, "write the golden files that differ")
	c.Flags().BoolVar(&o.coverage, "coverage", false, "report which presets, leaves, conditions and rules no case covers")
	c.Flags().Float64Var(&o.threshold, "coverage-threshold", 0, "fail if the coverage is below this percentage; implies --coverage")
	return c
}

func (o *testCommand) checkFiles(*cobra.Command) error {
	switch {
	case len(o.files) == 0:
		return errors.New("-f is required: name files or folders with VirtwrightTest manifests")
	case o.kustomize != "":
		return errors.New("-k cannot be used: tests are read from -f")
	case !(o.threshold >= 0 && o.threshold <= 100):
		return fmt.Errorf("invalid --coverage-threshold %v: must be a percentage from 0 to 100", o.threshold)
	}
	o.coverage = o.coverage || o.threshold > 0
	return nil
}

func (o *testCommand) run(ctx context.Context, s streams) error {
	var stdin bytes.Buffer
	s.in = io.TeeReader(s.in, &stdin)
	files, stored, err := o.sources(ctx, s, nil)
	if err != nil {
		return err
	}
	suites, invalid := simulate.Suites(files, nil)
	invalid = errors.Join(o.unread, invalid)
	if len(suites) == 0 && invalid == nil {
		return fmt.Errorf("no VirtwrightTest in %s", o.described(nil))
	}
	cases := 0
	for _, suite := range suites {
		cases += len(suite.Cases)
	}
	untune := tuneGC(64 * cases) // all VMs stay in memory
	defer untune()
	runner := &simulate.SuiteRun{Settings: o.ofMode, Stored: stored, Update: o.update}
	if o.coverage {
		runner.Coverage = &fleet.Coverage{}
	}
	noted := map[string]bool{}
	report := &testReport{stdin: stdin.Bytes(), lines: map[manifest.Position][]int{}, Cases: []simulate.CaseReport{}}
	report.addInvalid(invalid)
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
		report.cover(runner.Coverage.Report(), o.threshold)
	}
	if err := report.print(o.output, s); err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	if invalid == nil && (report.Summary.Failed > 0 || report.belowThreshold != "") {
		return errPrinted
	}
	return invalid
}

// ofMode returns the settings for a mode; the empty mode means that of the flag.
func (o *testCommand) ofMode(mode string) (simulate.Settings, error) {
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
func (o *testCommand) write(s streams, r *simulate.CaseResult) {
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

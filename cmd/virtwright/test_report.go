package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

func (t *testReport) line(r *simulate.CaseResult) int {
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
	Cases []simulate.CaseReport `json:"cases"`
	// Invalid are files and tests that could not be read.
	Invalid  []testInvalid         `json:"invalid,omitempty"`
	Coverage *fleet.CoverageReport `json:"coverage,omitempty"`
	Summary  testSummary           `json:"summary"`

	// stdin is the content of standard input; lines has the lines of the cases of each test.
	stdin []byte
	lines map[manifest.Position][]int
	// belowThreshold is the message if the coverage is too low.
	belowThreshold string
}

type testInvalid struct {
	// File is empty if the file is unknown.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

type testSummary struct {
	Tests  int `json:"tests"`
	Cases  int `json:"cases"`
	Failed int `json:"failed"`
	// Invalid files and tests did not run.
	Invalid int `json:"invalid,omitempty"`
}

func (t *testReport) addInvalid(err error) {
	for _, issue := range simulate.Issues(err) {
		t.Invalid = append(t.Invalid, testInvalid{issue.Where.File, issue.Line, issue.Message})
	}
	t.Summary.Invalid = len(t.Invalid)
}

func (t *testReport) cover(c *fleet.CoverageReport, threshold float64) {
	if t.Coverage = c; c.Percent < threshold {
		t.belowThreshold = fmt.Sprintf("the coverage of %s is below the threshold of %v%%", percent(c.Percent), threshold)
	}
}

// percent rounds down, so that an incomplete coverage is never 100%.
func percent(p float64) string { return fmt.Sprintf("%.1f%%", math.Floor(p*10)/10) }

func (t *testReport) add(r *simulate.CaseResult) {
	c := r.Report()
	if last := len(t.Cases) - 1; last < 0 || t.Cases[last].File != c.File || t.Cases[last].Test != c.Test {
		t.Summary.Tests++
	}
	t.Summary.Cases++
	if !c.Passed {
		t.Summary.Failed++
		c.Line = t.line(r)
	}
	t.Cases = append(t.Cases, c)
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
			fmt.Fprintf(s.out, "%s %s: %s: %s: could not run, for the same reason\n", colours.paint(red, "FAIL"), placeOf(c.File, c.Line), c.Test, presets.EscapeLine(c.Case))
		default:
			fmt.Fprintf(s.out, "%s %s: %s: %s\n%s", colours.paint(red, "FAIL"), placeOf(c.File, c.Line), c.Test, presets.EscapeLine(c.Case), caseText(c, colours))
		}
	}
	if t.Coverage != nil {
		t.printCoverage(s)
	}
	if t.belowThreshold != "" {
		fmt.Fprintf(s.out, "%s %s\n", colours.paint(red, "FAIL"), t.belowThreshold)
	}
	_, err := fmt.Fprintln(s.out, t.Summary)
	return err
}

// caseText marks expected and actual values with colours.
func caseText(c *simulate.CaseReport, colours style) string {
	in := func(colour string) func(string) string {
		return func(text string) string { return colours.paint(colour, text) }
	}
	return c.Text(in(red), in(green))
}

func placeOf(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
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
	fmt.Fprintln(s.out, coverageOf(t.Coverage))
}

func coverageOf(c *fleet.CoverageReport) string {
	return fmt.Sprintf("covered: %s presets, %s leaves, %s condition results, %s rules: %s",
		coveredOf(c.Presets), coveredOf(c.Leaves), coveredOf(c.Results), coveredOf(c.Forbids), percent(c.Percent))
}

func coveredOf(r fleet.Ratio) string { return fmt.Sprintf("%d of %d", r.Covered, r.Total) }

// String formats the last line of the output.
func (s testSummary) String() string {
	text := fmt.Sprintf("%s, %s: ", counted(s.Tests, "test"), counted(s.Cases, "case"))
	switch {
	case s.Invalid > 0:
		return text + fmt.Sprintf("%d passed, %d failed; %d invalid", s.Cases-s.Failed, s.Failed, s.Invalid)
	case s.Failed > 0:
		return text + fmt.Sprintf("%d passed, %d failed", s.Cases-s.Failed, s.Failed)
	}
	return text + "all passed"
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
		switch text := presets.Escape(caseText(c, false)); {
		case c.Error != "":
			one.Error = &junit.Result{Message: "the case could not run", Data: text}
		case !c.Passed:
			one.Failure = &junit.Result{Message: fmt.Sprintf("%s: not as expected", placeOf(c.File, c.Line)), Data: text}
		}
		suite.AddTestcase(one)
	}
	flush()
	t.addJUnit(&out)
	if err := out.WriteXML(s.out); err != nil {
		return errors.Join(errors.New("cannot write JUnit XML"), err)
	}
	return nil
}

// addJUnit adds suites for what could not be read, and for the coverage.
func (t *testReport) addJUnit(out *junit.Testsuites) {
	add := func(suite, file string, one junit.Testcase) {
		one.Classname = suite
		s := junit.Testsuite{Name: suite, File: file, Time: "0", ID: len(out.Suites)}
		s.AddTestcase(one)
		out.AddSuite(s)
	}
	for _, v := range t.Invalid {
		failed := &junit.Result{Message: "invalid input", Data: presets.Escape(v.Message)}
		add("invalid", v.File, junit.Testcase{Name: presets.EscapeLine(cmp.Or(placeOf(v.File, v.Line), "input")), Error: failed})
	}
	if t.Coverage == nil {
		return
	}
	covered := junit.Testcase{Name: coverageOf(t.Coverage)}
	if t.belowThreshold != "" {
		covered.Failure = &junit.Result{Message: t.belowThreshold}
	}
	add("coverage", "", covered)
}

package playground

import (
	"context"
	"fmt"

	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// Test is the result of a case of a VirtwrightTest.
type Test struct {
	// In, Line and Column are the place of the case, as in Problem.
	In     string `json:"in"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Name is the name of the test and of its case.
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Message says how the result differs from the expectation, as virtwright test does.
	Message string `json:"message,omitempty"`
}

// test runs the tests among the objects, whose presets are all objects, and not the files that the
// tests name.
func (e *evaluation) test(ctx context.Context, objects []manifest.Object, mode string) {
	suites, err := simulate.Suites(objects, objects)
	e.report(simulate.Issues(err))
	run := simulate.SuiteRun{Settings: func(own string) (simulate.Settings, error) {
		if own == "" {
			own = mode
		}
		settings := e.settings(own)
		settings.Memory = nil // cases run at the same time
		return settings, nil
	}}
	same := func(text string) string { return text }
	for result := range run.Run(ctx, suites) {
		if len(e.Tests) == maxShown {
			e.Notes = append(e.Notes, fmt.Sprintf("only the first %d cases of tests are shown", maxShown))
			break
		}
		c := result.Report()
		t := Test{In: c.File, Name: c.Test + ": " + c.Case, Passed: c.Passed, Message: c.Text(same, same)}
		t.Line, t.Column = e.texts[t.In].Locate(result.Suite.Where, fmt.Sprintf("cases[%d]", result.Index), false)
		e.Tests = append(e.Tests, t)
	}
}

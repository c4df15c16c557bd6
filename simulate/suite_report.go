package simulate

import (
	"fmt"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/simulate/originreport"
)

// A CaseReport is the result of a case as reports show it.
type CaseReport struct {
	File string `json:"file"`
	// Line of a failed case.
	Line   int    `json:"line,omitempty"`
	Test   string `json:"test"`
	Case   string `json:"case"`
	Passed bool   `json:"passed"`
	// Error is set if the case could not run.
	Error    string        `json:"error,omitempty"`
	Problems []string      `json:"problems,omitempty"`
	Messages []string      `json:"messages,omitempty"`
	Fields   []FieldReport `json:"fields,omitempty"`
}

// A FieldReport is a field that differs from the expectation.
type FieldReport struct {
	Path string `json:"path"`
	// Expected and Actual are missing if there is no value.
	Expected any `json:"expected,omitempty"`
	Actual   any `json:"actual,omitempty"`
	// Origin of the actual value.
	Origin *originreport.Source `json:"origin,omitempty"`
	// Reasons explain why presets with the expected value were not applied.
	Reasons []string `json:"reasons,omitempty"`
}

// Report returns the result without a line.
func (r *CaseResult) Report() CaseReport {
	c := CaseReport{File: r.Suite.Where.File, Test: r.Suite.Metadata.Name, Case: r.Case.Name, Passed: r.Passed(), Problems: r.Problems, Messages: r.Texts}
	if r.Err != nil {
		c.Error = r.Err.Error()
	}
	for _, f := range r.Fields {
		field := FieldReport{Path: f.path(), Expected: f.Expected, Actual: f.Actual, Reasons: f.Reasons}
		if f.Origin != nil {
			by := originreport.SourceOf(*f.Origin, false)
			field.Origin = &by
		}
		c.Fields = append(c.Fields, field)
	}
	return c
}

func (f FieldResult) path() string {
	if !f.VMI {
		return f.Path.String()
	}
	return "vmi: " + strings.TrimPrefix(f.Path.String(), "spec.template.")
}

// Text formats the differences. The functions mark the lines of expected and actual values.
func (c *CaseReport) Text(expected, actual func(string) string) string {
	var out strings.Builder
	for _, text := range append([]string{c.Error}, c.Messages...) {
		if text != "" {
			fmt.Fprintf(&out, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&out, "  rejected: %s\n", OneLine(p))
	}
	for _, f := range c.Fields {
		fmt.Fprintf(&out, "  %s\n    %s\n    %s\n", f.Path, expected("- "+asJSON(f.Expected)), actual("+ "+asJSON(f.Actual)+f.from()))
		for _, reason := range f.Reasons {
			fmt.Fprintf(&out, "      %s\n", OneLine(reason))
		}
	}
	return out.String()
}

func (f *FieldReport) from() string {
	if f.Origin == nil {
		return ""
	}
	return "   " + f.Origin.String()
}

func asJSON(value any) string {
	if value == nil {
		return "(absent)"
	}
	return OneLine(tree.Format(value))
}

// OneLine joins the lines of a text, and escapes control characters.
func OneLine(text string) string { return presets.EscapeLine(strings.Join(strings.Fields(text), " ")) }

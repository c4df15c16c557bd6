package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/fleet"
)

// lintDocs describes the checks, with an anchor for each.
const lintDocs = "https://github.com/virtwright/virtwright/blob/main/docs/lint.md"

// linted is what lint prints with -o json.
type linted struct {
	Findings []lintedFinding `json:"findings"`
	Summary  lintedSummary   `json:"summary"`
}

type lintedFinding struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Severity  fleet.Severity `json:"severity"`
	File      string         `json:"file"`
	Line      int            `json:"line,omitempty"`
	Column    int            `json:"column,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Preset    string         `json:"preset"`
	Field     string         `json:"field"`
	Message   string         `json:"message"`
	// Other is the other preset of the finding.
	Other string `json:"other,omitempty"`
	// Witness shows the finding when it is created in its namespace.
	Witness *lintedWitness `json:"witness,omitempty"`
}

type lintedWitness struct {
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`
	// NamespaceAnnotations are those that a condition asks for.
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
	Object               map[string]any    `json:"object"`
}

type lintedSummary struct {
	Presets  int `json:"presets"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
}

func newLinted(found []locatedFinding, presets int) *linted {
	out := &linted{Findings: make([]lintedFinding, 0, len(found)), Summary: lintedSummary{Presets: presets}}
	for _, f := range found {
		l := lintedFinding{
			ID: f.ID, Name: f.Name, Severity: f.Severity, File: f.Where.File, Line: f.line, Column: f.column,
			Namespace: f.Preset.Namespace, Preset: f.Preset.Ref, Field: f.Field, Message: f.Message, Other: f.Other.Ref,
		}
		if f.Witness != nil {
			l.Witness = &lintedWitness{f.Witness.Namespace.Labels, f.Witness.Namespace.Annotations, f.Witness.Object}
		}
		out.Findings = append(out.Findings, l)
		if f.Severity == fleet.Error {
			out.Summary.Errors++
		} else {
			out.Summary.Warnings++
		}
	}
	return out
}

func (l *linted) print(output string, s streams) error {
	switch output {
	case "json":
		text, err := indented(l)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(s.out, text)
		return err
	case "sarif":
		return l.sarif().PrettyWrite(s.out)
	}
	for i := range l.Findings {
		f := &l.Findings[i]
		fmt.Fprintf(s.out, "%s: %s %s %s: %s: %s\n", f.place(), styleOf(s.out).paint(f.colour(), string(f.Severity)), f.ID, f.Preset, f.Field, oneLine(f.Message))
		if text := f.Witness.String(); text != "" {
			fmt.Fprintf(s.out, "    such as %s\n", text)
		}
	}
	_, err := fmt.Fprintln(s.out, l.Summary)
	return err
}

func (f *lintedFinding) colour() string {
	if f.Severity == fleet.Error {
		return red
	}
	return yellow
}

func (f *lintedFinding) place() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// String says in one line which VMs show the finding.
func (w *lintedWitness) String() string {
	if w == nil {
		return ""
	}
	metadata, _ := w.Object["metadata"].(map[string]any)
	var parts []string
	if values, ok := metadata["labels"].(map[string]any); ok {
		parts = append(parts, "labels "+pairsOf(values))
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		parts = append(parts, "annotations "+pairsOf(annotations))
	}
	text := fmt.Sprintf("a %s in namespace %s", w.Object["kind"], metadata["namespace"])
	if len(parts) > 0 {
		text += " with " + strings.Join(parts, ", ")
	}
	return text
}

func pairsOf(values map[string]any) string {
	set := labels.Set{}
	for key, v := range values {
		set[key] = fmt.Sprint(v)
	}
	return set.String()
}

// String is the last line of the text.
func (s lintedSummary) String() string {
	if s.Errors+s.Warnings == 0 {
		return counted(s.Presets, "preset") + ": no findings"
	}
	return fmt.Sprintf("%s: %s, %s", counted(s.Presets, "preset"), counted(s.Errors, "error"), counted(s.Warnings, "warning"))
}

// sarif is the report in the Static Analysis Results Interchange Format, version 2.1.0.
func (l *linted) sarif() *sarif.Report {
	run := sarif.NewRunWithInformationURI(program, lintDocs)
	for _, check := range fleet.Checks {
		rule := run.AddRule(check.ID).WithName(check.Name).WithDescription(check.Summary).
			WithHelpURI(lintDocs + "#" + strings.ToLower(check.ID)).
			WithMarkdownHelp(check.Reason + "\n\n" + check.Fix)
		rule.WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(string(check.Severity)))
	}
	for i := range l.Findings {
		f := &l.Findings[i]
		result := run.CreateResultForRule(f.ID).WithLevel(string(f.Severity)).WithMessage(sarif.NewTextMessage(f.Preset + ": " + f.Message))
		if f.Line == 0 { // standard input, a kustomization or a cluster
			continue
		}
		file := &url.URL{Path: filepath.ToSlash(f.File)}
		place := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewArtifactLocation().WithURI(file.String())).
			WithRegion(sarif.NewRegion().WithStartLine(f.Line).WithStartColumn(f.Column))
		result.AddLocation(sarif.NewLocationWithPhysicalLocation(place))
	}
	return sarif.NewReport().AddRun(run)
}

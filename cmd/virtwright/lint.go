package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // for lint on hosts without time zones

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
)

const lintHelp = `Report problems of presets: presets that a cluster would reject, presets without effect, and presets
that conflict. Each finding has an ID; docs/lint.md explains each ID and how to fix the finding.

A finding about two presets has a witness: an example VM for which the engine confirms the finding.
VMs in the files are created with the presets in memory, and each rejected one is a finding, unless
a preset has an error itself.

Presets are read from files, from a cluster (-A, --live), or from both. A file replaces the
preset of the same name in the cluster.

Findings are printed to standard output as FILE:LINE:COLUMN: SEVERITY ID PRESET: MESSAGE. The exit
code is 1 if there are errors or warnings. If a file cannot be read, the findings of the others are
printed all the same, and the exit code is 2.`

const lintExamples = `  # Before a commit
  {{program}} lint -f presets/

  # With the presets of the cluster, of all namespaces
  {{program}} lint -f presets/ -A

  # For code scanning
  {{program}} lint -f presets/ -o sarif > lint.sarif`

func newLint(shown string, s streams) *cobra.Command {
	o := &settings{source: source{needs: needs{filesOnly: true, presetsOnly: true, partial: true}}, without: flagsForVMs}
	c := &cobra.Command{
		Use: "lint [-f FILE...] [-A]", Short: "Report presets that are invalid, have no effect, or conflict", Long: lintHelp,
		Example: lintExamples, Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"text", "json", "sarif"}, func(ctx context.Context, _ []string) error { return lint(ctx, o, s) })
	o.declareRuleFlags(c)
	return c
}

func lint(ctx context.Context, o *settings, s streams) error {
	var stdin bytes.Buffer
	s.in = io.TeeReader(s.in, &stdin)
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	found, err := simulate.Lint(ctx, objects, known)
	err = errors.Join(o.unread, err)
	if found == nil || found.Presets == 0 && err != nil {
		return err
	}
	if found.Presets == 0 {
		return fmt.Errorf("no preset in %s", o.described(nil))
	}
	note(s, found.Notes)
	if found.Incomplete {
		note(s, []string{"too many pairs of presets, or too many findings, to report all"})
	}
	report := newLinted(located(found.Findings, stdin.Bytes()), found.Presets)
	if err := report.print(o.output, s); err != nil {
		return fmt.Errorf("cannot print the findings: %w", err)
	}
	if err != nil {
		return err
	}
	if report.Summary.Errors+report.Summary.Warnings > 0 {
		return errPrinted
	}
	return nil
}

type locatedFinding struct {
	simulate.LintFinding
	line, column int
}

func located(found []simulate.LintFinding, stdin []byte) []locatedFinding {
	texts := map[string]*manifest.Text{"standard input": manifest.NewText("standard input", stdin)}
	out := make([]locatedFinding, 0, len(found))
	for _, f := range found {
		text := texts[f.Where.File]
		if text == nil {
			content, _ := os.ReadFile(f.Where.File) // objects of a cluster have no lines
			text = manifest.NewText(f.Where.File, content)
			texts[f.Where.File] = text
		}
		l := locatedFinding{LintFinding: f}
		l.line, l.column = text.Locate(f.Where, f.Field, f.OnKey)
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b locatedFinding) int {
		if c := strings.Compare(a.Where.File, b.Where.File); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return out
}

const lintDocs = "https://github.com/virtwright/virtwright/blob/main/docs/lint.md"

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
	// NamespaceAnnotations are those that a condition requires.
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
	Object               map[string]any    `json:"object"`
}

type lintedSummary struct {
	Presets  int `json:"presets"`
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
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
		switch f.Severity {
		case fleet.Error:
			out.Summary.Errors++
		case fleet.Warning:
			out.Summary.Warnings++
		case fleet.Note:
			out.Summary.Notes++
		}
	}
	return out
}

func (l *linted) print(output string, s streams) error {
	switch output {
	case "json":
		return printJSON(s.out, l)
	case "sarif":
		return l.sarif().PrettyWrite(s.out)
	}
	for i := range l.Findings {
		f := &l.Findings[i]
		fmt.Fprintf(s.out, "%s: %s %s %s\n", f.place(), styleOf(s.out).paint(f.colour(), string(f.Severity)), f.ID, oneLine(f.Preset+": "+f.Field+": "+f.Message))
		if text := f.Witness.String(); text != "" && f.Severity != fleet.Note {
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

// String describes the VMs that show the finding.
func (w *lintedWitness) String() string {
	if w == nil {
		return ""
	}
	metadata, _ := w.Object["metadata"].(map[string]any)
	around := maps.Clone(w.NamespaceLabels)
	delete(around, corev1.LabelMetadataName)
	notes := maps.Clone(w.NamespaceAnnotations)
	delete(notes, corev1.LastAppliedConfigAnnotation)
	text := fmt.Sprintf("a %s in namespace %s", w.Object["kind"], metadata["namespace"])
	if shown := described(around, notes); shown != "" {
		text += " (" + shown + ")"
	}
	if shown := described(textsOf(metadata["labels"]), textsOf(metadata["annotations"])); shown != "" {
		text += " with " + shown
	}
	return text
}

func described(withLabels, annotations labels.Set) string {
	var parts []string
	if len(withLabels) > 0 {
		parts = append(parts, "labels "+withLabels.String())
	}
	if len(annotations) > 0 {
		parts = append(parts, "annotations "+annotations.String())
	}
	return strings.Join(parts, ", ")
}

func textsOf(values any) labels.Set {
	set := labels.Set{}
	fields, _ := values.(map[string]any)
	for key, v := range fields {
		set[key] = fmt.Sprint(v)
	}
	return set
}

// String formats the last line of the output.
func (s lintedSummary) String() string {
	if s.Errors+s.Warnings+s.Notes == 0 {
		return counted(s.Presets, "preset") + ": no findings"
	}
	text := fmt.Sprintf("%s: %s, %s", counted(s.Presets, "preset"), counted(s.Errors, "error"), counted(s.Warnings, "warning"))
	if s.Notes > 0 {
		text += ", " + counted(s.Notes, "note")
	}
	return text
}

// sarif returns the report in the Static Analysis Results Interchange Format, version 2.1.0.
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

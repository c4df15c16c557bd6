package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const lintHelp = `Report what is wrong with presets, each by itself and all together: presets that a cluster would
reject, presets without effect, and presets that disagree. Each finding has an ID; docs/lint.md
says for each ID why it matters and what to do.

A finding about two presets comes with a witness: a VM that shows it, as the engine decides.

Presets come from files, from a cluster (-A, -n, --live), or both; a file replaces the preset of the
same name in the cluster.

Findings go to standard output as FILE:LINE:COLUMN: SEVERITY ID PRESET: MESSAGE. The exit code is 1
if there are any.`

const lintExamples = `  # Before a commit
  {{program}} lint -f presets/

  # With the presets of the cluster, of all namespaces
  {{program}} lint -f presets/ -A

  # For code scanning on a forge
  {{program}} lint -f presets/ -o sarif > lint.sarif`

func newLint(shown string, s streams) *cobra.Command {
	outputs := []string{"text", "json", "sarif"}
	o := &settings{source: source{filesOnly: true, presetsOnly: true}}
	c := &cobra.Command{
		Use:     "lint [-f FILE...] [-A]",
		Short:   "Report presets that are wrong, have no effect, or disagree",
		Long:    lintHelp,
		Example: strings.ReplaceAll(lintExamples, "{{program}}", shown),
		Args:    flagsForFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c, nil, outputs...); err != nil {
				return err
			}
			return lint(c.Context(), o, s)
		},
	}
	o.declare(c, outputs...)
	o.declareRules(c)
	return c
}

func lint(ctx context.Context, o *settings, s streams) error {
	var stdin bytes.Buffer
	s.in = io.TeeReader(s.in, &stdin)
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	found, err := offline.Lint(ctx, objects, known)
	if err != nil {
		return err
	}
	if found.Presets == 0 {
		return fmt.Errorf("there is no preset in %s", o.described(nil))
	}
	if found.Incomplete {
		note(s, []string{"there are too many pairs of presets, or too many findings, to report all"})
	}
	report := newLinted(located(found.Findings, stdin.Bytes()), found.Presets)
	if err := report.print(o.output, s); err != nil {
		return fmt.Errorf("cannot print the findings: %w", err)
	}
	if len(found.Findings) > 0 {
		return errTold
	}
	return nil
}

// A locatedFinding is a finding with its place in a file; line 0 is unknown.
type locatedFinding struct {
	offline.LintFinding
	line, column int
}

// located finds the places of findings, in the order in which people read files.
func located(found []offline.LintFinding, stdin []byte) []locatedFinding {
	contents := map[string][]byte{"standard input": stdin}
	out := make([]locatedFinding, 0, len(found))
	for _, f := range found {
		content, read := contents[f.Where.File]
		if !read {
			content, _ = os.ReadFile(f.Where.File) // objects of a cluster have no lines
			contents[f.Where.File] = content
		}
		l := locatedFinding{LintFinding: f}
		if len(content) > 0 {
			l.line, l.column = manifest.Locate(content, f.Where, f.Field, f.OnKey)
		}
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

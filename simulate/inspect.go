package simulate

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// An Issue is a problem or a warning with the position of its object.
type Issue struct {
	Where manifest.Position
	// Line of an unreadable document, from 1; 0 if unknown.
	Line int
	// Warning is true if the object is accepted all the same.
	Warning bool
	Problem
}

// Open is like NewCluster, but applies the valid objects although others are rejected.
func Open(ctx context.Context, objects []manifest.Object, settings Settings) (*Cluster, []Issue) {
	entries, left, err := sorted(objects, rejectLone)
	issues := issuesOf(manifest.Position{}, err)
	c := newCluster(settings)
	c.Left = left
	for i, err := range c.fill(ctx, entries) {
		issues = append(issues, issuesOf(entries[i].Where, err)...)
	}
	for _, e := range entries {
		issues = append(issues, warnings(e.Where, e.warnings)...)
	}
	return c, issues
}

// Issues lists the problems of an error about the input.
func Issues(err error) []Issue { return issuesOf(manifest.Position{}, err) }

// issuesOf lists the problems of an error. The position is that of errors without their own.
func issuesOf(where manifest.Position, err error) []Issue {
	var several interface{ Unwrap() []error }
	var rejection *Rejection
	var document *manifest.DocumentError
	var out []Issue
	switch {
	case err == nil:
	case errors.As(err, &several):
		for _, one := range several.Unwrap() {
			out = append(out, issuesOf(where, one)...)
		}
	case errors.As(err, &rejection):
		for _, p := range rejection.Problems {
			out = append(out, Issue{Where: rejection.Where, Problem: p})
		}
	case errors.As(err, &document):
		out = []Issue{{Where: document.Where, Line: document.Line, Problem: Problem{Field: document.Field, Message: document.Message}}}
	default:
		out = []Issue{{Where: where, Problem: Problem{Message: strings.TrimPrefix(err.Error(), where.String()+": ")}}}
	}
	return out
}

var (
	fieldPath = regexp.MustCompile(`(?:spec|metadata)\.[^\s:,;()=]*[^\s:,;().=]`)
	mapKey    = regexp.MustCompile(`^(label|annotation) ([^=: ]+)[=: ]`)
)

// warnings finds the field in each text. A field before the message is not repeated in it.
func warnings(where manifest.Position, texts []string) []Issue {
	var out []Issue
	for _, text := range texts {
		field := fieldPath.FindString(text)
		if key := mapKey.FindStringSubmatch(text); key != nil {
			field = provenance.Of("metadata", key[1]+"s", key[2]).String()
		}
		out = append(out, Issue{Where: where, Warning: true, Problem: Problem{Field: field, Message: strings.TrimPrefix(text, field+": ")}})
	}
	return out
}

// An Inspection is the result of expanding, explaining, validating and rendering one VM.
type Inspection struct {
	// Object is the VM as a cluster would store it, also if another stage rejects it; nil if
	// presets cannot be applied.
	Object map[string]any
	// Explanation is nil if presets cannot be applied.
	Explanation *presets.Explanation
	// Plan is nil if the VM is rejected.
	Plan *domain.Plan
	// Issues list problems and warnings. Warnings are those of creating the VM, as texts. Notes are
	// about a stored VM.
	Issues          []Issue
	Warnings, Notes []string
}

// Inspect does the work of Expand, Explain, Validate and Plan at once. A VM can be inspected once.
func (c *Cluster) Inspect(ctx context.Context, m VM) *Inspection {
	out := &Inspection{}
	report := func(err error) {
		out.Issues = append(out.Issues, issuesOf(m.Where, err)...)
	}
	v := m.entry.verdict()
	err := c.validate(ctx, m, &v)
	if len(v.Problems) > 0 {
		err = cmp.Or(err, m.rejected(v.Problems))
	}
	report(err)
	out.Warnings = v.Warnings
	out.Issues = append(out.Issues, warnings(m.Where, v.Warnings)...)
	if out.Object = v.object; m.isStored() && !c.settings.Reapply {
		out.Object, _ = m.decode(m.JSON) // validate has reported an error
	}
	var explained error
	if out.Explanation, explained = c.Explain(ctx, m); err == nil {
		report(explained)
	}
	var outdated error
	if _, out.Notes, outdated = c.Outdated(ctx, m); err == nil {
		report(outdated)
	}
	if err == nil {
		report(out.render(ctx, c, m, v.stored))
	}
	if out.Object == nil && out.Explanation != nil && out.Explanation.Result != nil {
		out.Object = out.Explanation.Result.Object()
	}
	if out.Object != nil {
		out.Object = c.asSent(m, out.Object)
	}
	return out
}

// render adds the domain of a valid VM as a cluster would store it. In mode addon, KubeVirt renders
// it in another way, so what virtwright cannot render is a note.
func (x *Inspection) render(ctx context.Context, c *Cluster, m VM, stored []byte) error {
	vmi, err := c.launched(ctx, m, stored)
	if err != nil {
		return m.rejection(err)
	}
	if x.Plan, err = c.domainOf(m, vmi, nil); c.standalone() {
		return err
	}
	for _, i := range issuesOf(m.Where, err) {
		x.Notes = append(x.Notes, "no domain: "+i.String())
	}
	return nil
}

package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// A Report is the result of validating objects.
type Report struct {
	// Verdicts in the order of the input.
	Verdicts []Verdict
	// Left are the kinds that were ignored.
	Left []Leftover
	// Notes list what else was ignored or is unknown.
	Notes []string
}

// A Verdict is the result of validating one object.
type Verdict struct {
	Where      manifest.Position
	APIVersion string
	Kind       string
	Namespace  string
	// Name ends with * if the API server generates it.
	Name string
	// Problems make a cluster reject the object.
	Problems []Problem
	Warnings []string

	// unstarted are the policy denials for the VMI of an admitted VM.
	unstarted []Problem
	// stored is the JSON of a VM as a cluster would store it; nil if unknown.
	stored []byte
	// object is stored, decoded; may be nil.
	object map[string]any
}

// String returns kind, namespace and name.
func (v *Verdict) String() string { return nameIn(v.Kind, v.Namespace, v.Name, "") }

func (v *Verdict) reject(problems ...Problem) {
	for _, p := range problems {
		if !slices.Contains(v.Problems, p) {
			v.Problems = append(v.Problems, p)
		}
	}
}

func (v *Verdict) warn(texts ...string) {
	for _, text := range texts {
		if !slices.Contains(v.Warnings, text) {
			v.Warnings = append(v.Warnings, text)
		}
	}
}

// Review validates presets and VMs like the API server and the webhooks, as if they were created in
// order. Rejected presets are not applied. The error is about unreadable input.
func Review(ctx context.Context, objects []manifest.Object, settings Settings) (*Report, error) {
	entries, left, err := sorted(objects, rejectMisspelt)
	if err != nil {
		return nil, err
	}
	c := newCluster(settings)
	out := &Report{Left: left}
	at := map[*entry]int{}
	for i, err := range c.fill(ctx, entries) {
		e := entries[i]
		if rejected, ok := errors.AsType[*Rejection](err); ok && e.Context {
			c.Notes = append(c.Notes, rejected.inactive())
		}
		if e.role == namespace && err == nil || e.ignored || e.Context {
			continue
		}
		v := e.verdict()
		v.warn(e.warnings...)
		var rejected *Rejection
		switch {
		case errors.As(err, &rejected):
			v.reject(rejected.Problems...)
		case err != nil:
			return nil, err
		}
		at[e] = len(out.Verdicts)
		out.Verdicts = append(out.Verdicts, v)
	}
	for _, m := range c.VMs {
		if err := c.validate(ctx, m, &out.Verdicts[at[m.entry]]); err != nil {
			return nil, err
		}
	}
	out.Notes = slices.Concat(c.Notes, c.Missing(), c.Unlabelled(nil), c.unchanged())
	return out, nil
}

// unchanged returns a note about stored VMs, to which presets are not applied without Reapply.
func (c *Cluster) unchanged() []string {
	n := 0
	for _, m := range c.VMs {
		if m.isStored() && m.Kind == presets.VirtualMachine {
			n++
		}
	}
	if n == 0 || c.settings.Reapply || c.Presets == 0 {
		return nil
	}
	return []string{fmt.Sprintf("stored VMs (%d) are validated as they are, without presets and their forbid rules: "+
		"see the commands violations and drift, or use --reapply", n)}
}

// lacksValue reports whether a preset could supply the value of a problem, or is itself missing.
func (v *Verdict) lacksValue(p Problem) bool {
	return strings.HasPrefix(p.Field, "spec") && p.Type == field.ErrorTypeRequired || p.Field == presetsPath && v.stored == nil
}

var presetsPath = field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPresets).String()

// Missing returns a note if VMs lack values and the input has no preset that could supply them.
func (c *Cluster) Missing() []string {
	if c.preset || len(c.incomplete) == 0 {
		return nil
	}
	which := tree.List(c.incomplete, 1)
	if c.settings.Live {
		return []string{"no preset that could set the missing values of " + which}
	}
	return []string{"no preset in -f; presets of a cluster may set the missing values of " + which}
}

// verdict returns the verdict of an entry before its spec is validated.
func (e *entry) verdict() Verdict {
	v := Verdict{Where: e.Where, APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.meta.Namespace, Name: e.meta.Name}
	if v.Name == "" && e.meta.GenerateName != "" {
		v.Name = e.meta.GenerateName + "*"
	}
	if e.role == vmOrVMI {
		v.reject(slices.DeleteFunc(e.metadataProblems(), func(p Problem) bool {
			isLabel := p.Field == "metadata.labels" || p.Field == "metadata.annotations" && p.Type == field.ErrorTypeInvalid
			return isLabel && e.Kind == string(presets.VirtualMachine) // a rule reports it, also if presets set it
		})...)
	}
	return v
}

// A Rejection is the error for an object that a cluster would reject.
type Rejection struct {
	Where manifest.Position
	// Object is kind and name.
	Object   string
	Problems []Problem
	// Stored is true for a preset or profile that is stored in a cluster but not applied.
	Stored bool
}

func (r *Rejection) inactive() string {
	return r.brief("is stored in a cluster, but is invalid and has no effect")
}

func (r *Rejection) leftOut() string { return r.brief("is invalid, and is ignored in the old presets") }

func (r *Rejection) brief(what string) string {
	text := fmt.Sprintf("%s: %s %s: %s", r.Where, r.Object, what, r.Problems[0])
	if more := len(r.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more problems", more)
	}
	return text
}

// Error names the object and lists the problems.
func (r *Rejection) Error() string {
	lines := []string{fmt.Sprintf("%s: %s is rejected:", r.Where, r.Object)}
	for _, p := range r.Problems {
		lines = append(lines, strings.ReplaceAll(p.String(), "\n", "\n  "))
	}
	return strings.Join(lines, "\n  ")
}

// A Problem is one reason why an object is rejected, with its field in the version of the input.
type Problem = presets.Problem

func problemsOf(problems field.ErrorList) []Problem {
	var out []Problem
	for _, p := range problems {
		shortened(p)
		out = append(out, presets.NewProblem(p))
	}
	return out
}

// maxShown is the maximum number of bytes of a wrong value in a message.
const maxShown = 256

// shortened shortens a long wrong value, such as a list with one wrong element.
func shortened(p *field.Error) {
	switch v := p.BadValue.(type) {
	case string:
		p.BadValue = tree.Truncate(v, maxShown)
	case map[string]any, []any:
		if text, err := json.Marshal(v); err == nil && len(text) > maxShown {
			p.BadValue = tree.Truncate(string(text), maxShown)
		}
	}
}

func (m VM) rejected(problems []Problem) error {
	return &Rejection{Where: m.Where, Object: m.String(), Problems: problems}
}

// rejection adds the position of the VM to an error of the engine.
func (m VM) rejection(err error) error {
	var rejected *presets.Rejection
	var malformed *presets.Malformed
	switch {
	case errors.As(err, &rejected):
		return m.rejected(problemsOf(rejected.Problems))
	case errors.As(err, &malformed):
		return m.rejected([]Problem{{Message: malformed.Error()}})
	}
	return fmt.Errorf("%s: cannot expand %s: %w", m.Where, m, err)
}

package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
)

// A Report is what a cluster would say to objects.
type Report struct {
	// Verdicts are in the order of the files.
	Verdicts []Verdict
	// Left are the kinds that mean nothing here.
	Left []Leftover
	// Notes tell what else was left out, or is not known.
	Notes []string
}

// A Verdict is what a cluster would say to one object.
type Verdict struct {
	Where      manifest.Position
	APIVersion string
	Kind       string
	Namespace  string
	// Name ends with a star where the API server is asked to make one up.
	Name string
	// Problems refuse the object.
	Problems []Problem
	// Warnings do not.
	Warnings []string

	// stored is the JSON of a machine as a cluster would store it; nil where that cannot be said.
	stored []byte
	// object is stored as decoded JSON; nil if it was not decoded.
	object map[string]any
}

// String is kind, namespace and name.
func (v *Verdict) String() string { return nameIn(v.Kind, v.Namespace, v.Name, "") }

// refuse adds problems, those that say the same once.
func (v *Verdict) refuse(problems ...Problem) {
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

// Review judges presets and machines as the API server and the webhooks would,
// each as if it were created after those before it. Presets that are refused do
// not act. The error is about input that cannot be read.
func Review(ctx context.Context, objects []manifest.Object, settings Settings) (*Report, error) {
	entries, left, err := sorted(objects, false)
	if err != nil {
		return nil, err
	}
	c := newCluster(settings)
	out := &Report{Left: left}
	at := map[*entry]int{}
	for i, err := range c.fill(ctx, entries) {
		e := entries[i]
		if refused, ok := errors.AsType[*Refusal](err); ok && e.Context {
			c.Notes = append(c.Notes, refused.inactive())
		}
		if e.role == namespace || e.ignored || e.Context {
			continue
		}
		v := e.verdict()
		v.warn(e.warnings...)
		var refused *Refusal
		switch {
		case errors.As(err, &refused):
			v.refuse(refused.Problems...)
		case err != nil:
			return nil, err
		}
		at[e] = len(out.Verdicts)
		out.Verdicts = append(out.Verdicts, v)
	}
	for _, m := range c.Machines {
		if err := c.judge(ctx, m, &out.Verdicts[at[m.entry]]); err != nil {
			return nil, err
		}
	}
	var of []string
	for _, m := range c.lacking {
		of = append(of, m.namespace)
	}
	out.Notes = slices.Concat(c.Notes, c.Missing(), c.unlabelled(of))
	return out, nil
}

// lacks reports whether a preset could give what is missing: a value, or the preset itself.
func (v *Verdict) lacks() bool {
	return slices.ContainsFunc(v.Problems, func(p Problem) bool {
		return strings.HasPrefix(p.Field, "spec") && strings.HasPrefix(p.Message, field.ErrorTypeRequired.String()) ||
			p.Field == presetsPath && v.stored == nil
	})
}

var presetsPath = field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationPresets).String()

// lackingMachine is kind, namespace and name of a machine, and its namespace.
type lackingMachine struct{ name, namespace string }

// Missing notes that the files have no preset, which could give machines that were
// judged what they lack.
func (c *Cluster) Missing() []string {
	if c.preset || len(c.lacking) == 0 {
		return nil
	}
	which := c.lacking[0].name
	if more := len(c.lacking) - 1; more > 0 {
		which += fmt.Sprintf(" and %d more", more)
	}
	if c.settings.Live {
		return []string{"there is no preset, which could give the missing values of " + which}
	}
	return []string{"-f has no preset; presets of a cluster may give the missing values of " + which}
}

// verdict is what there is to say of e by its metadata.
func (e *entry) verdict() Verdict {
	v := Verdict{Where: e.Where, APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.meta.Namespace, Name: e.meta.Name}
	meta := e.meta.ObjectMeta
	if v.Name == "" && e.meta.GenerateName != "" {
		v.Name = e.meta.GenerateName + "*"
		meta.Name = e.meta.GenerateName + "00000" // as many characters as the API server adds
	}
	if e.read {
		v.refuse(problemsOf(apivalidation.ValidateObjectMeta(&meta, e.namespaced(),
			apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")))...)
	}
	return v
}

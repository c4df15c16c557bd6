package offline

import (
	"context"
	"errors"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	at := map[manifest.Position]int{}
	for i, err := range c.fill(ctx, entries) {
		e := entries[i]
		if e.role == namespace || e.ignored {
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
		at[e.Where] = len(out.Verdicts)
		out.Verdicts = append(out.Verdicts, v)
	}
	out.Notes = slices.Concat(c.Notes, c.Unlabelled())
	for _, m := range c.Machines {
		if err := c.judge(ctx, m, &out.Verdicts[at[m.Where]]); err != nil {
			return nil, err
		}
	}
	out.Notes = append(out.Notes, out.alone()...)
	return out, nil
}

// alone says that presets are missing, which would have given refused machines
// what they lack. Who has none of them does not mind that one line.
func (r *Report) alone() []string {
	refused := false
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if kinds[schema.FromAPIVersionAndKind(v.APIVersion, v.Kind).GroupKind()].role != machine {
			return nil
		}
		refused = refused || len(v.Problems) > 0
	}
	if !refused {
		return nil
	}
	return []string{"there is no preset in -f; machines are judged as in a cluster without any"}
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

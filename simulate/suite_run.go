package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// A SuiteRun runs the cases of suites.
type SuiteRun struct {
	// Settings returns the settings for a mode; the empty mode means that of the command.
	Settings func(mode string) (Settings, error)
	// Stored are objects of a cluster. Objects of suites replace them.
	Stored []manifest.Object
	// Coverage records what cases cover; may be nil.
	Coverage *fleet.Coverage
	// Update accepts differences from golden files, because they are rewritten.
	Update bool
}

// A CaseResult is the result of a case.
type CaseResult struct {
	Suite *Suite
	Case  *Case
	// Index of the case in its suite.
	Index int
	// Err is set if the case could not run, because its presets or files are invalid.
	Err error
	// Problems with which the VM is unexpectedly rejected.
	Problems []string
	// Fields that differ from the expectation.
	Fields []FieldResult
	// Notes list objects that are ignored.
	Notes []string
	// Texts list missing and unexpected messages.
	Texts []string
	// Stored is the stored VM without its record; nil if it is rejected. Outdated is true if it
	// differs from the golden file, or if that file does not exist.
	Stored   map[string]any
	Outdated bool

	traces []presets.Trace
	update bool
}

// Passed reports whether the result equals the expectation.
func (r *CaseResult) Passed() bool {
	return r.Err == nil && len(r.Problems)+len(r.Fields)+len(r.Texts) == 0
}

// A FieldResult is a field that differs from the expectation.
type FieldResult struct {
	fleet.Mismatch
	// VMI is true for a field of the VMI.
	VMI bool
	// Origin is the origin of the field, or of the first field beneath it; nil if there is none.
	Origin *presets.Origin
	// Reasons explain why presets with the expected value were not applied.
	Reasons []string
}

// Run runs all cases and yields their results in order.
func (r *SuiteRun) Run(ctx context.Context, suites []*Suite) iter.Seq[*CaseResult] {
	inputs := func(yield func(suiteInput) bool) {
		known := map[sharedKey]func() sharedCluster{}
		shared := func(s *Suite, currentModes bool) func() sharedCluster {
			key := sharedKey{s.sourceKey(), currentModes}
			if known[key] == nil {
				known[key] = sync.OnceValue(func() sharedCluster { return r.shared(ctx, s, currentModes) })
			}
			return known[key]
		}
		for _, s := range suites {
			for i := range s.Cases {
				in := suiteInput{shared(s, s.Cases[i].CurrentModes), shared(s, false), &CaseResult{Suite: s, Case: &s.Cases[i], Index: i, update: r.Update}}
				if !yield(in) {
					return
				}
			}
		}
	}
	return func(yield func(*CaseResult) bool) {
		// Cases do not see each other's VMs, so they take no turns.
		for result := range InOrder(ctx, inputs, func(_ context.Context, in suiteInput) *CaseResult {
			in.result.Err = r.runCase(ctx, in)
			return in.result
		}) {
			if r.Coverage != nil {
				r.Coverage.Add(result.traces)
			}
			if !yield(result) {
				return
			}
		}
	}
}

type sharedKey struct {
	sources      string
	currentModes bool
}

type suiteInput struct {
	// shared has the presets in the modes of the case, and enforced all in mode Enforce.
	shared, enforced func() sharedCluster
	result           *CaseResult
}

type sharedCluster struct {
	*Cluster
	objects []manifest.Object
	err     error
}

func (r *SuiteRun) shared(ctx context.Context, s *Suite, currentModes bool) sharedCluster {
	objects, err := s.sources(currentModes)
	if err != nil {
		return sharedCluster{err: err}
	}
	c, err := r.cluster(ctx, s, objects)
	return sharedCluster{c, objects, err}
}

func (r *SuiteRun) runCase(ctx context.Context, in suiteInput) error {
	c, err := r.forCase(ctx, in.shared(), in.result, in.result.Case.CurrentModes)
	if err != nil {
		return err
	}
	in.result.Notes = c.Notes
	if err := r.trace(ctx, in); err != nil {
		return err
	}
	created, err := r.created(ctx, in)
	if err != nil {
		return err
	}
	return c.run(ctx, in.result, created)
}

// trace records the coverage of a case. All presets are enforced, so that each counts once.
func (r *SuiteRun) trace(ctx context.Context, in suiteInput) error {
	if r.Coverage == nil {
		return nil
	}
	c, err := r.forCase(ctx, in.enforced(), in.result, false)
	if err != nil {
		return err
	}
	m, err := c.caseVM(&in.result.Case.Step)
	if err != nil {
		return err
	}
	traces, err := c.traces(ctx, m, in.result.Case.Expect.VMI != nil || in.result.Case.Expect.Rejected != nil)
	in.result.traces = append(c.untraced(), traces...)
	return err
}

func (r *SuiteRun) cluster(ctx context.Context, s *Suite, objects []manifest.Object) (*Cluster, error) {
	settings, err := r.Settings(s.Mode)
	if err != nil {
		return nil, err
	}
	settings.Live = settings.Live || len(r.Stored) > 0
	return NewCluster(ctx, Replace(r.Stored, objects, settings.Namespace), settings)
}

// untraced returns empty traces of the presets that may be applied.
func (c *Cluster) untraced() []presets.Trace {
	var out []presets.Trace
	for p := range c.snapshot.All() {
		if p.Mode != v1alpha1.ModeOff {
			out = append(out, presets.Trace{Preset: p})
		}
	}
	return out
}

// forCase shares the compiled presets, unless the case adds objects that must be compiled.
func (r *SuiteRun) forCase(ctx context.Context, shared sharedCluster, result *CaseResult, currentModes bool) (*Cluster, error) {
	if shared.err != nil {
		return nil, shared.err
	}
	own, err := result.Suite.inline(result.Case.Objects, currentModes)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(own, isNoNamespace) {
		c, err := r.cluster(ctx, result.Suite, withObjects(shared.objects, own))
		return c.at(result.Case.Now), err
	}
	c := *shared.Cluster
	c.seen, c.validatedIn, c.existing, c.incomplete = map[string]manifest.Position{}, map[string]bool{}, newExistingVMs(), nil
	c.namespaces = maps.Clone(shared.namespaces)
	entries, _, err := sorted(own, rejectNamed)
	reader, rules := c.readers(ctx)
	for _, e := range entries {
		err = errors.Join(err, c.take(e, reader, rules))
	}
	c.webhooks, c.policies = c.server(), shared.policies.With(c.namespaceObject)
	return c.at(result.Case.Now), err
}

func isNoNamespace(o manifest.Object) bool { return roleOf(o) != namespace }

// withObjects adds the objects of a case. They replace namespaces.
func withObjects(objects, own []manifest.Object) []manifest.Object {
	replaced := slices.DeleteFunc(slices.Clone(own), isNoNamespace)
	return slices.Concat(Without(objects, replaced, ""), own)
}

// run creates or updates the VM of a case and compares the result. It returns an error if the case
// cannot run.
func (c *Cluster) run(ctx context.Context, r *CaseResult, created *createdVM) error {
	m, err := c.caseVM(&r.Case.Step)
	if err != nil {
		return err
	}
	if created != nil {
		if m, err = created.updated(m, r.Case); err != nil {
			return err
		}
	}
	v := m.entry.verdict()
	if err := c.validate(ctx, m, &v); err != nil {
		return err
	}
	r.compareWarnings(v.Warnings)
	switch {
	case len(v.Problems) > 0:
		r.compareRejection(v.Problems)
		return nil
	case r.Case.Expect.Rejected != nil:
		return c.compareUnstarted(ctx, m, &v, r)
	}
	return c.compare(ctx, m, &v, r)
}

func (c *Cluster) traces(ctx context.Context, m VM, launched bool) ([]presets.Trace, error) {
	traces, err := c.settings.Engine.Trace(ctx, c.snapshot, c.request(ctx, m))
	if err != nil || !launched || m.Kind != presets.VirtualMachine {
		return traces, ignoreRejection(err)
	}
	request := c.request(ctx, m)
	result, err := c.settings.Engine.Resolve(ctx, c.snapshot, request)
	if err != nil {
		return traces, ignoreRejection(err)
	}
	if request.Object, err = json.Marshal(result.Object()); err != nil {
		return traces, err
	}
	more, err := c.settings.Engine.TraceLaunch(ctx, c.snapshot, request)
	return append(traces, more...), ignoreRejection(err)
}

// ignoreRejection ignores rejections, which are compared later.
func ignoreRejection(err error) error {
	if _, rejected := errors.AsType[*presets.Rejection](err); rejected {
		return nil
	}
	return err
}

// decode decodes cases separately, so that problems name the case; then there are no cases.
func (s *Suite) decode(raw []byte) field.ErrorList {
	var shell struct {
		Suite
		Cases []json.RawMessage `json:"cases"`
	}
	problems := decodeStrict(raw, &shell, nil)
	where, given := s.Where, s.given
	*s = shell.Suite
	s.Where, s.given, s.Cases = where, given, make([]Case, len(shell.Cases))
	for i, one := range shell.Cases {
		problems = append(problems, decodeStrict(one, &s.Cases[i], field.NewPath("cases").Index(i))...)
	}
	if len(problems) > 0 {
		s.Cases = nil
	}
	return problems
}

var suiteFields = []string{"apiVersion", "kind", "metadata", "files", "objects", "mode", "cases", "name", "vm", "vmFile", "before", "reapply", "currentModes", "now", "expect", "vmi", "absent", "golden", "rejected", "warnings"}

func decodeStrict(raw []byte, into any, at *field.Path) field.ErrorList {
	strict, err := kjson.UnmarshalStrict(raw, into)
	under := func(name string) *field.Path {
		if at == nil {
			return field.NewPath(name)
		}
		return at.Child(name)
	}
	var out field.ErrorList
	for _, problem := range strict {
		path, ok := presets.UnknownFieldIn(problem)
		if !ok {
			out = append(out, field.Invalid(at, "", problem.Error()))
			continue
		}
		name := path[strings.LastIndexByte(path, '.')+1:]
		detail := fmt.Sprintf("unknown field %q%s", name, spelling.DidYouMean(name, slices.Values(suiteFields)))
		out = append(out, field.Invalid(under(path), name, detail).WithOrigin(presets.OriginUnknownField))
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		out = append(out, field.TypeInvalid(under(wrong.Field), wrong.Value, "must be "+typeInWords(wrong.Type)))
	case err != nil:
		out = append(out, field.TypeInvalid(at, "", manifest.Plain(err).Error()))
	}
	return out
}

func typeInWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	return "an object"
}

package simulate

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/webhooks"
)

type presetReader struct {
	ctx        context.Context
	rules      *validation.Config
	seen       map[string]manifest.Position
	legacy     bool
	memory     *Memory
	compiled   []*presets.Compiled
	exceptions []exceptionEntry
	// broken are stored presets that are invalid.
	broken   []presets.PresetName
	frontend []v1alpha1.FrontendProfile
	backend  []v1alpha1.BackendProfile
	// selecting are presets that select namespaces by label.
	selecting []*presets.Compiled
	rollouts  []*v1alpha1.PresetRollout
	notes     []string
}

func (p *presetReader) read(e *entry) error {
	rejected := &Rejection{Where: e.Where, Object: e.ref()}
	switch e.role {
	case legacyPreset:
		rejected.Problems = p.compileLegacy(e)
	case profile:
		rejected.Problems = p.profile(e)
	case exception:
		rejected.Problems = p.exception(e)
	default:
		rejected.Problems = p.compile(e)
	}
	if len(rejected.Problems) == 0 {
		return nil
	}
	if rejected.Stored = e.isStored(); rejected.Stored && e.role == preset {
		p.broken = append(p.broken, e.presetName())
	}
	return rejected
}

func (e *entry) presetName() presets.PresetName {
	return identity{kind: e.Kind, namespace: e.meta.Namespace, name: e.meta.Name}.presetName()
}

func duplicateName(name string, first manifest.Position) Problem {
	return Problem{Field: "metadata.name", Message: fmt.Sprintf("%s, also in %s", field.Duplicate(nil, name).ErrorBody(), first)}
}

func creation(e *entry) webhooks.Request {
	return webhooks.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Name: e.meta.Name, Namespace: e.meta.Namespace, Object: runtime.RawExtension{Raw: e.JSON},
	}}
}

func (p *presetReader) compile(e *entry) []Problem {
	c := p.memory.compile(e, p.legacy, p.newCompilation)
	e.warnings = c.warnings
	if len(c.problems) > 0 {
		return c.problems
	}
	p.compiled = append(p.compiled, c.preset)
	if c.selects {
		p.selecting = append(p.selecting, c.preset)
	}
	return nil
}

// newCompilation asks the webhook first, so that the messages equal those of a cluster.
func (p *presetReader) newCompilation(e *entry) compilation {
	answer := webhooks.Preset{Kind: e.Kind, Rules: p.rulesFor(e)}.Handle(p.ctx, creation(e))
	if !answer.Allowed {
		return compilation{problems: answer.Problems}
	}
	out := compilation{warnings: answer.Warnings}
	var object v1alpha1.Preset
	if object, out.preset, out.problems = compilePreset(e); len(out.problems) == 0 {
		out.selects = object.GetSpec().Match.Namespaces != nil
	}
	return out
}

// rulesFor returns the rules for a new preset; nil for a stored one.
func (p *presetReader) rulesFor(e *entry) *validation.Config {
	switch {
	case e.isStored():
		return nil
	case p.rules == nil:
		return &validation.Config{Addon: !p.legacy}
	}
	return p.rules
}

// compileLegacy reports unknown fields like an API server, then asks the validating webhook.
func (p *presetReader) compileLegacy(e *entry) []Problem {
	if !p.legacy {
		e.ignored = true
		p.notes = append(p.notes, fmt.Sprintf("%s: ignored %s, which KubeVirt itself applies in mode addon", e.Where, e.ref()))
		return nil
	}
	var fields map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &fields); err != nil {
		return []Problem{{Message: err.Error()}}
	}
	shape := presets.CheckSchema(presets.VirtualMachineInstancePreset, fields)
	out := problemsOf(append(shape.Unknown, shape.Mistyped...))
	if len(shape.Mistyped) > 0 {
		return out
	}
	if answer := (webhooks.LegacyPreset{}).Handle(p.ctx, creation(e)); !answer.Allowed {
		return append(out, answer.Problems...)
	}
	object := &kubevirtv1.VirtualMachineInstancePreset{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, object); err != nil {
		return append(out, Problem{Message: err.Error()})
	}
	c, problems := presets.CompileLegacy(object)
	if out = append(out, problemsOf(problems)...); len(out) == 0 {
		p.compiled = append(p.compiled, c)
	}
	return out
}

type exceptionEntry struct {
	*presets.Exception
	entry *entry
}

// exception accepts expired exceptions, because a cluster may have them.
func (p *presetReader) exception(e *entry) []Problem {
	compiled, problems := compileException(p.ctx, e)
	if len(problems) == 0 {
		p.exceptions = append(p.exceptions, exceptionEntry{compiled, e})
	}
	return problems
}

func compileException(ctx context.Context, e *entry) (*presets.Exception, []Problem) {
	handler := webhooks.PresetException{Snapshots: loaded[presets.Snapshot]{}, Now: func() time.Time { return time.Time{} }}
	if answer := handler.Handle(ctx, creation(e)); !answer.Allowed {
		return nil, answer.Problems
	}
	var object v1alpha1.PresetException
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &object); err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	compiled, problems := presets.CompileException(&object)
	return compiled, problemsOf(problems)
}

// withExceptions warns about expired exceptions and, if known, about missing presets.
func (p *presetReader) withExceptions(s *presets.Snapshot, known bool) *presets.Snapshot {
	all := make([]*presets.Exception, 0, len(p.exceptions))
	for _, e := range p.exceptions {
		all = append(all, e.Exception)
		if e.Expired(time.Now()) && !e.entry.isStored() {
			e.entry.warnings = append(e.entry.warnings, "spec.until: the exception has expired; a cluster rejects its creation")
		}
		if known {
			e.entry.warnings = append(e.entry.warnings, s.MissingPresets(e.Namespace, e.Presets)...)
		}
	}
	return s.WithExceptions(all, time.Now)
}

// profile adds a profile or a rollout that the validating webhook accepts.
func (p *presetReader) profile(e *entry) []Problem {
	if e.Kind == v1alpha1.KindPresetRollout {
		return p.rollout(e)
	}
	if answer := (webhooks.Profile{Kind: e.Kind}).Handle(p.ctx, creation(e)); !answer.Allowed {
		return answer.Problems
	}
	var err error
	if e.Kind == v1alpha1.KindFrontendProfile {
		p.frontend = append(p.frontend, v1alpha1.FrontendProfile{})
		err = kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &p.frontend[len(p.frontend)-1])
	} else {
		p.backend = append(p.backend, v1alpha1.BackendProfile{})
		err = kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &p.backend[len(p.backend)-1])
	}
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	return nil
}

type instancetypes map[string]map[types.NamespacedName]map[string]any

// add adds an instancetype or a preference. Only its shape is validated.
func (in instancetypes) add(e *entry) error {
	object, err := e.decode()
	if err != nil {
		return err
	}
	shape := presets.CheckSchema(presets.Kind(e.Kind), object)
	problems := problemsOf(shape.Mistyped)
	if !e.isStored() {
		problems = append(problemsOf(shape.Unknown), problems...)
	}
	if len(problems) > 0 {
		return e.rejected(problems)
	}
	spec, _ := object["spec"].(map[string]any)
	if in[e.Kind] == nil {
		in[e.Kind] = map[types.NamespacedName]map[string]any{}
	}
	in[e.Kind][types.NamespacedName{Namespace: e.meta.Namespace, Name: e.meta.Name}] = spec
	e.ignored = true
	return nil
}

// Spec returns the instancetype or preference that a VM references. Revisions are ignored.
func (in instancetypes) Spec(_ context.Context, namespace string, m presets.Matcher) (map[string]any, error) {
	if spec, found := in[m.Kind][types.NamespacedName{Name: m.Name}]; found {
		return spec, nil
	}
	return in[m.Kind][types.NamespacedName{Namespace: namespace, Name: m.Name}], nil
}

func compilePreset(e *entry) (v1alpha1.Preset, *presets.Compiled, []Problem) {
	var object v1alpha1.Preset = &v1alpha1.VirtualMachinePreset{}
	if e.Kind == v1alpha1.KindClusterVirtualMachinePreset {
		object = &v1alpha1.ClusterVirtualMachinePreset{}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, object); err != nil {
		return nil, nil, []Problem{{Message: err.Error()}}
	}
	compiled, problems := presets.Compile(object)
	return object, compiled, problemsOf(problems)
}

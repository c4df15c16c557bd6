package offline

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/webhooks"
)

// nameless is what an API server says to an object without a name.
var nameless = field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")}

// presetReader compiles presets one after the other.
type presetReader struct {
	ctx      context.Context
	rules    *validation.Config
	seen     map[string]manifest.Position
	legacy   bool
	compiled []*presets.Compiled
	// exceptions are compiled, and of each there is the entry.
	exceptions []exceptionEntry
	// broken are presets that a cluster has stored, and that are invalid.
	broken   []presets.PresetName
	frontend []v1alpha1.FrontendProfile
	backend  []v1alpha1.BackendProfile
	// selecting are the presets that choose namespaces by label.
	selecting []string
	notes     []string
}

func (p *presetReader) read(e *entry, namespace string) error {
	if err := e.place(namespace); err != nil {
		return err
	}
	refused := &Refusal{Where: e.Where, Object: e.ref()}
	if e.meta.Name == "" {
		refused.Problems = problemsOf(nameless)
		return refused
	}
	if first, ok := p.seen[e.ref()]; ok {
		refused.Problems = []Problem{existsAlready(first)}
		return refused
	}
	p.seen[e.ref()] = e.Where
	switch e.role {
	case legacyPreset:
		refused.Problems = p.compileLegacy(e)
	case profile:
		refused.Problems = p.profile(e)
	case exception:
		refused.Problems = p.exception(e)
	default:
		refused.Problems = p.compile(e)
	}
	if len(refused.Problems) == 0 {
		return nil
	}
	if refused.Stored = e.isStored(); refused.Stored && e.role == preset {
		p.broken = append(p.broken, e.presetName())
	}
	return refused
}

// presetName is the name of a preset among those of all namespaces.
func (e *entry) presetName() presets.PresetName {
	if e.namespaced() {
		return presets.PresetName{Namespace: e.meta.Namespace, Ref: e.meta.Name}
	}
	return presets.PresetName{Ref: "cluster/" + e.meta.Name}
}

// existsAlready is the problem of a name that another object has.
func existsAlready(first manifest.Position) Problem {
	return Problem{"metadata.name", fmt.Sprintf("it exists already, in %s", first)}
}

// creation is the request to create e.
func creation(e *entry) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Name: e.meta.Name, Namespace: e.meta.Namespace, Object: runtime.RawExtension{Raw: e.JSON},
	}}
}

// compile lets the validating webhook judge the preset first, so that an author
// reads here what the cluster would say.
func (p *presetReader) compile(e *entry) []Problem {
	answer := webhooks.Preset{Kind: e.Kind, Rules: p.rulesFor(e)}.Handle(p.ctx, creation(e))
	if !answer.Allowed {
		return answered(answer.Result)
	}
	e.warnings = answer.Warnings
	object, c, problems := compilePreset(e)
	if len(problems) > 0 {
		return problems
	}
	p.compiled = append(p.compiled, c)
	if object.GetSpec().Match.Namespaces != nil {
		p.selecting = append(p.selecting, c.Ref)
	}
	return nil
}

// rulesFor returns the rules for a new preset. They do not concern a stored preset.
func (p *presetReader) rulesFor(e *entry) *validation.Config {
	switch {
	case e.isStored():
		return nil
	case p.rules == nil:
		return &validation.Config{Addon: !p.legacy}
	}
	return p.rules
}

// compileLegacy looks for unknown fields, which the API server would refuse,
// and then asks the validating webhook.
func (p *presetReader) compileLegacy(e *entry) []Problem {
	if !p.legacy {
		e.ignored = true
		p.notes = append(p.notes, fmt.Sprintf("%s: ignored %s, which KubeVirt itself applies in addon mode", e.Where, e.ref()))
		return nil
	}
	var fields map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &fields); err != nil {
		return []Problem{{Message: err.Error()}}
	}
	shape := presets.CheckShape(presets.VirtualMachineInstancePreset, fields)
	out := problemsOf(append(shape.Unknown, shape.Mistyped...))
	if len(shape.Mistyped) > 0 {
		return out
	}
	if answer := (webhooks.LegacyPreset{}).Handle(p.ctx, creation(e)); !answer.Allowed {
		return append(out, answered(answer.Result)...)
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

// An exceptionEntry is an exception and where it stands.
type exceptionEntry struct {
	*presets.Exception
	entry *entry
}

// exception takes in an exception that the validating webhook lets pass. One that has ended may
// stand in a cluster, and is no problem.
func (p *presetReader) exception(e *entry) []Problem {
	handler := webhooks.PresetException{Snapshots: loaded[presets.Snapshot]{}, Now: func() time.Time { return time.Time{} }}
	if answer := handler.Handle(p.ctx, creation(e)); !answer.Allowed {
		return answered(answer.Result)
	}
	var object v1alpha1.PresetException
	if err := kjson.UnmarshalCaseSensitivePreserveInts(e.JSON, &object); err != nil {
		return []Problem{{Message: err.Error()}}
	}
	compiled, problems := presets.CompileException(&object)
	if len(problems) == 0 {
		p.exceptions = append(p.exceptions, exceptionEntry{compiled, e})
	}
	return problemsOf(problems)
}

// withExceptions is a snapshot with the exceptions that were read, which end by the clock. It
// warns of those that do nothing; without presets that is not known.
func (p *presetReader) withExceptions(s *presets.Snapshot, known bool) *presets.Snapshot {
	all := make([]*presets.Exception, 0, len(p.exceptions))
	for _, e := range p.exceptions {
		all = append(all, e.Exception)
		if e.Expired(time.Now()) && !e.entry.isStored() {
			e.entry.warnings = append(e.entry.warnings, "spec.until: the exception has ended; a cluster that does not have it refuses to create it")
		}
		if known {
			e.entry.warnings = append(e.entry.warnings, s.Missing(e.Exception)...)
		}
	}
	return s.WithExceptions(all, time.Now)
}

// profile takes a profile in that the validating webhook lets pass.
func (p *presetReader) profile(e *entry) []Problem {
	if answer := (webhooks.Profile{Kind: e.Kind}).Handle(p.ctx, creation(e)); !answer.Allowed {
		return answered(answer.Result)
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

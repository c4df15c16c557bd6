package webhooks

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
)

// A Server has the handlers of all webhooks.
type Server struct {
	Engine     *presets.Engine
	Snapshots  Snapshots
	Namespaces Namespaces
	Owners     Owners
	// Guard knows the users whose updates of machines are left alone.
	Guard protection.Guard
	// Rules says how the cluster is set up; nil has the defaults of standalone mode.
	Rules *validation.Config
	Names Names
	// Stored counts stored VMs for presets; nil counts none.
	Stored StoredVMs
	// Instancetypes are those of KubeVirt; nil where it is not in the cluster.
	Instancetypes Instancetypes
	// Profiles are those by which machines are rendered; nil renders none, as
	// beside KubeVirt, which does so itself.
	Profiles Profiles
	// Authority says what users may do.
	Authority Authority
	// TemplateFormats are the names of those in which templates may be made.
	TemplateFormats []string
	// TemplateFormat chooses one of them where none is named; nil chooses the first.
	TemplateFormat TemplateFormat
	Metrics        *Metrics
	Events         *Events
	// MaxExceptionDuration is how far ahead the end of an exception may be; 0 means without limit.
	MaxExceptionDuration time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Machine is the handler that mutates objects of a kind.
func (s *Server) Machine(kind presets.Kind) *Machine {
	return &Machine{
		Kind: kind, Engine: s.Engine, Snapshots: s.Snapshots, Namespaces: s.Namespaces, Owners: s.Owners,
		Instancetypes: s.Instancetypes, Trusted: sets.New(s.Guard.Trusted...), Metrics: s.Metrics, Events: s.Events,
	}
}

// Validator is the handler that validates objects of a kind.
func (s *Server) Validator(kind presets.Kind) *Validator {
	rules := s.Rules
	if rules == nil {
		rules = &validation.Config{}
	}
	return &Validator{
		Kind: kind, Guard: s.Guard, Rules: rules, Engine: s.Engine, Snapshots: s.Snapshots, Namespaces: s.Namespaces,
		Names: s.Names, Profiles: s.Profiles, Authority: s.Authority, Instancetypes: s.Instancetypes, Formats: s.TemplateFormats,
		TemplateFormat: s.TemplateFormat,
	}
}

// Handlers are the handlers by path.
func (s *Server) Handlers() map[string]http.Handler {
	serve := func(kind string, handler admission.Handler) http.Handler {
		return reviews{s.Metrics.measured(kind, handler)}
	}
	bounded := func(kind string, handler admission.Handler) http.Handler { return serve(kind, sized{"", handler}) }
	machine := func(kind presets.Kind) http.Handler { return serve(string(kind), s.Machine(kind)) }
	validator := func(kind presets.Kind) http.Handler {
		return serve("validate "+string(kind), sized{kind, s.Validator(kind)})
	}
	preset := func(kind string) http.Handler {
		return bounded(kind, Preset{Kind: kind, Authority: s.Authority, Rules: s.Rules, Stored: s.Stored})
	}
	profile := func(kind string) http.Handler { return bounded(kind, Profile{Kind: kind}) }
	exception := PresetException{Authority: s.Authority, Snapshots: s.Snapshots, MaxDuration: s.MaxExceptionDuration, Now: s.Now}
	if s.Now == nil {
		exception.Now = time.Now
	}
	const request = sspv1alpha1.KindVirtualMachineTemplateRequest
	return map[string]http.Handler{
		PathMutateTemplateRequest:               bounded(request, &TemplateRequest{Formats: s.TemplateFormats, TemplateFormat: s.TemplateFormat, Manager: s.Guard.Manager}),
		PathValidateTemplateRequest:             bounded("validate "+request, &TemplateRequestValidator{Formats: s.TemplateFormats, Manager: s.Guard.Manager, Authority: s.Authority}),
		PathMutateVirtualMachine:                machine(presets.VirtualMachine),
		PathMutateVirtualMachineInstance:        machine(presets.VirtualMachineInstance),
		PathValidateVirtualMachine:              validator(presets.VirtualMachine),
		PathValidateVirtualMachineInstance:      validator(presets.VirtualMachineInstance),
		PathValidateLegacyPreset:                bounded("VirtualMachineInstancePreset", LegacyPreset{Authority: s.Authority}),
		PathConvertVirtualMachine:               conversions{},
		PathValidateVirtualMachinePreset:        preset(v1alpha1.KindVirtualMachinePreset),
		PathValidateClusterVirtualMachinePreset: preset(v1alpha1.KindClusterVirtualMachinePreset),
		PathValidateFrontendProfile:             profile(v1alpha1.KindFrontendProfile),
		PathValidateBackendProfile:              profile(v1alpha1.KindBackendProfile),
		PathValidatePresetException:             bounded(v1alpha1.KindPresetException, exception),
	}
}

// sized refuses an object with too many parts before its handler decodes it. A
// Machine needs no such wrapper: the engine does the same.
type sized struct {
	kind    presets.Kind // empty for objects without lists that presets merge
	handler admission.Handler
}

// Handle answers one request.
func (s sized) Handle(ctx context.Context, req admission.Request) admission.Response {
	request := presets.Request{Kind: s.kind, Object: req.Object.Raw, OldObject: req.OldObject.Raw}
	if err := request.CheckSize(); err != nil {
		return unresolved(ctx, req, err)
	}
	return s.handler.Handle(ctx, req)
}

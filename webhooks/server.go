package webhooks

import (
	"context"
	"net/http"
	"time"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
)

// A Server creates the handlers of all webhooks.
type Server struct {
	Engine     *presets.Engine
	Snapshots  presetSource
	Namespaces namespaceGetter
	Owners     ownerGetter
	// Guard has the users whose updates of VMs and VMIs are not checked.
	Guard protection.Guard
	// Rules configure validation; nil has the defaults of standalone mode.
	Rules *validation.Config
	Names Names
	// Rollouts are the PresetRollouts; nil knows none.
	Rollouts rolloutIndex
	// Instancetypes are KubeVirt's; nil if it is not in the cluster.
	Instancetypes instancetypeGetter
	// Revisions finds earlier revisions of presets; nil finds none.
	Revisions revisionFinder
	// Profiles are used to render VMs; nil renders none, as alongside KubeVirt.
	Profiles profileSource
	// Authorizer reports what users may do.
	Authorizer authorizer
	// Evictions answers evictions of pods; nil serves none.
	Evictions handler
	// TemplateFormats are the names of the formats of templates.
	TemplateFormats []string
	// TemplateFormat chooses one of them if a request names none; nil chooses the first.
	TemplateFormat formatChooser
	Metrics        *Metrics
	// Events may be nil.
	Events eventWriter
	// MaxExceptionDuration is how far ahead the end of an exception may be; 0 means no limit.
	MaxExceptionDuration time.Duration
}

// Mutator returns the handler that mutates objects of a kind.
func (s *Server) Mutator(kind presets.Kind) *Mutator {
	return &Mutator{
		Kind: kind, Engine: s.Engine, Snapshots: s.Snapshots, Namespaces: s.Namespaces, Owners: s.Owners,
		Instancetypes: s.Instancetypes, Revisions: s.Revisions, Guard: s.Guard, Metrics: s.Metrics, Events: s.Events,
	}
}

// Validator returns the handler that validates objects of a kind.
func (s *Server) Validator(kind presets.Kind) *Validator {
	rules := s.Rules
	if rules == nil {
		rules = &validation.Config{}
	}
	return &Validator{
		Kind: kind, Guard: s.Guard, Rules: rules, Engine: s.Engine, Snapshots: s.Snapshots, Namespaces: s.Namespaces,
		Owners: s.Owners, Names: s.Names, Profiles: s.Profiles, Authorizer: s.Authorizer, Instancetypes: s.Instancetypes, Formats: s.TemplateFormats,
		TemplateFormat: s.TemplateFormat,
	}
}

// Handlers returns the handlers by path.
func (s *Server) Handlers() map[string]http.Handler {
	serve := func(kind string, handler handler) http.Handler {
		return reviews{s.Metrics.measured(kind, handler)}
	}
	bounded := func(kind string, handler handler) http.Handler { return serve(kind, sized{"", handler}) }
	mutator := func(kind presets.Kind) http.Handler { return serve(string(kind), s.Mutator(kind)) }
	validator := func(kind presets.Kind) http.Handler {
		return serve("validate "+string(kind), sized{kind, s.Validator(kind)})
	}
	preset := func(kind string) http.Handler {
		return bounded(kind, Preset{Kind: kind, Authorizer: s.Authorizer, Rules: s.Rules, Steps: analysisSteps})
	}
	profile := func(kind string) http.Handler { return bounded(kind, Profile{Kind: kind}) }
	exception := PresetException{Authorizer: s.Authorizer, Snapshots: s.Snapshots, MaxDuration: s.MaxExceptionDuration, Now: time.Now}
	const request = sspv1alpha1.KindVirtualMachineTemplateRequest
	handlers := map[string]http.Handler{
		pathMutateTemplateRequest:               bounded(request, &templateRequestMutator{Formats: s.TemplateFormats, TemplateFormat: s.TemplateFormat, Manager: s.Guard.Manager}),
		pathValidateTemplateRequest:             bounded("validate "+request, &templateRequestValidator{Formats: s.TemplateFormats, Manager: s.Guard.Manager, Authorizer: s.Authorizer}),
		PathMutateVirtualMachine:                mutator(presets.VirtualMachine),
		pathMutateVirtualMachineInstance:        mutator(presets.VirtualMachineInstance),
		PathValidateVirtualMachine:              validator(presets.VirtualMachine),
		pathValidateVirtualMachineInstance:      validator(presets.VirtualMachineInstance),
		pathValidateLegacyPreset:                bounded("VirtualMachineInstancePreset", LegacyPreset{Authorizer: s.Authorizer}),
		PathConvertVirtualMachine:               conversions{},
		pathValidateVirtualMachinePreset:        preset(v1alpha1.KindVirtualMachinePreset),
		PathValidateClusterVirtualMachinePreset: preset(v1alpha1.KindClusterVirtualMachinePreset),
		pathValidateFrontendProfile:             profile(v1alpha1.KindFrontendProfile),
		pathValidateBackendProfile:              profile(v1alpha1.KindBackendProfile),
		pathValidateCopies:                      bounded("copies of VMs", copies{Authorizer: s.Authorizer, Engine: s.Engine, Snapshots: s.Snapshots, Namespaces: s.Namespaces, Instancetypes: s.Instancetypes}),
		pathValidatePresetException:             bounded(v1alpha1.KindPresetException, exception),
		pathValidatePresetRollout:               bounded(v1alpha1.KindPresetRollout, PresetRollout{Authorizer: s.Authorizer, Snapshots: s.Snapshots, Rollouts: s.Rollouts}),
	}
	if s.Evictions != nil {
		handlers[pathValidateEviction] = serve("Eviction", s.Evictions)
	}
	return handlers
}

// sized rejects an object with too many parts before its handler decodes it. A Mutator does not
// need it, because the engine does the same.
type sized struct {
	kind    presets.Kind // "" for kinds other than VMs and VMIs
	handler handler
}

// Handle answers one request.
func (s sized) Handle(ctx context.Context, req Request) Response {
	request := presets.Request{Kind: s.kind, Object: req.Object.Raw, OldObject: req.OldObject.Raw}
	if err := request.CheckSize(); err != nil {
		return unresolved(ctx, req, err)
	}
	return s.handler.Handle(ctx, req)
}

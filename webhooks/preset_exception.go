package webhooks

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
)

// A PresetException validates exceptions. Its author must be allowed to update each preset that it
// names. It ratchets as a Preset does.
type PresetException struct {
	// Authorizer reports what the author may do; nil allows everything.
	Authorizer authorizer
	Snapshots  presetSource
	// MaxDuration is how far ahead spec.until may be; 0 means no limit.
	MaxDuration time.Duration
	Now         func() time.Time
}

var _ handler = PresetException{}

// Handle answers one request.
func (p PresetException) Handle(ctx context.Context, req Request) Response {
	if !changesSpec(req) {
		return allowed()
	}
	var exception, before v1alpha1.PresetException
	strict, err := kjson.UnmarshalStrict(req.Object.Raw, &exception)
	if err != nil {
		return undecodable(req, v1alpha1.KindPresetException, err)
	}
	var old *v1alpha1.PresetExceptionSpec
	if req.Operation == admissionv1.Update && kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before) == nil {
		old = &before.Spec
	}
	problems := unknownFields(strict, exceptionParts)
	compiled, more := presets.CompileException(&exception)
	problems = append(append(problems, more...), p.checkUntil(&exception.Spec, old)...)
	if len(problems) > 0 {
		return invalid(req, problems)
	}
	response := authorize(ctx, p.Authorizer, req, exceptionRequirements(req.Namespace, compiled.Presets))
	if snapshot := p.Snapshots.Snapshot(); response.Allowed && snapshot != nil {
		response.Warnings = snapshot.MissingPresets(compiled.Namespace, compiled.Presets)
	}
	return response
}

// checkUntil checks when an exception ends. An update may keep its end, unless it exempts more.
func (p PresetException) checkUntil(spec, old *v1alpha1.PresetExceptionSpec) field.ErrorList {
	at, latest := field.NewPath("spec", "until"), p.Now().Add(p.MaxDuration)
	limit := fmt.Sprintf("must be %s or earlier: exceptions may last for %s in this cluster", latest.UTC().Format(time.RFC3339), p.MaxDuration)
	same := old != nil && old.Until.Equal(spec.Until)
	switch {
	case spec.Until != nil && !same && !spec.Until.After(p.Now()):
		return field.ErrorList{field.Invalid(at, spec.Until.UTC().Format(time.RFC3339), "must be in the future")}
	case p.MaxDuration == 0 ||
		same && apiequality.Semantic.DeepEqual(old.Presets, spec.Presets) && apiequality.Semantic.DeepEqual(old.VMSelector, spec.VMSelector):
		return nil
	case spec.Until == nil:
		return field.ErrorList{field.Required(at, limit)}
	case spec.Until.After(latest):
		return field.ErrorList{field.Invalid(at, spec.Until.UTC().Format(time.RFC3339), limit)}
	}
	return nil
}

// exceptionRequirements returns the permissions to update presets, which an exception requires.
func exceptionRequirements(namespace string, refs []string) []requirement {
	var out []requirement
	for i, ref := range refs {
		action := presetAction("update", namespace, ref)
		out = append(out, requirement{
			sspv1alpha1.Permission{Path: field.NewPath("spec", "presets").Index(i), Attributes: action},
			"required because an exception disables the preset",
		})
	}
	return out
}

// presetAction describes an action on a preset, by its reference in a namespace.
func presetAction(verb, namespace, ref string) authorizationv1.ResourceAttributes {
	name, cluster := presets.SplitRef(ref)
	if cluster {
		return authorizationv1.ResourceAttributes{
			Verb: verb, Group: v1alpha1.GroupName, Resource: v1alpha1.ResourceClusterVirtualMachinePresets, Name: name,
		}
	}
	return authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: v1alpha1.GroupName, Resource: v1alpha1.ResourceVirtualMachinePresets, Name: name,
	}
}

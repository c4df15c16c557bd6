package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/validation"
)

// maxPresetBytes is the maximum size of a preset. etcd's own limit, 1.5 MiB, has an error message
// that does not help.
const maxPresetBytes = 1 << 20

// A Preset validates presets of one kind by compiling them.
//
// It ratchets: an update that does not change spec passes, even if spec is invalid. Of the problems
// that Rules find, only new ones are rejected on an update.
type Preset struct {
	// Kind is v1alpha1.KindVirtualMachinePreset or v1alpha1.KindClusterVirtualMachinePreset.
	Kind string
	// Authorizer reports whether the author may write the preset; nil allows everything.
	Authorizer authorizer
	// Rules find presets that compile but harm VMs; nil finds none.
	Rules *validation.Config
	// Steps limits the analysis of expressions; 0 means condition.AllSteps. Status reports the
	// rest.
	Steps int
}

var _ handler = Preset{}

// Handle answers one request.
func (p Preset) Handle(ctx context.Context, req Request) Response {
	if req.Operation == admissionv1.Delete {
		return p.deleted(req.OldObject.Raw)
	}
	checked := p.check(req)
	if checked.answer != nil {
		return *checked.answer
	}
	response := authorize(ctx, p.Authorizer, req, presetRequirements(req, checked.compiled))
	if !response.Allowed {
		return response
	}
	if len(checked.result.Errors) > 0 {
		return invalid(req, checked.result.Errors)
	}
	response.Warnings = presets.LimitWarnings(checked.result.Warnings, "virtwright validate shows all")
	return response
}

// analysisSteps limits the analysis of a preset's expressions in a request. They take a hundredth
// of a second, and no preset of our examples needs a tenth of them.
const analysisSteps = 50_000

// A checkedPreset is either answered already, or compiled.
type checkedPreset struct {
	answer   *Response
	compiled *presets.Compiled
	result   validation.Result
}

// check does all work that takes memory and processor time.
func (p Preset) check(req Request) checkedPreset {
	answered := func(r Response) checkedPreset { return checkedPreset{answer: &r} }
	if !changesSpec(req) {
		return answered(allowed())
	}
	raw := req.Object.Raw
	if len(raw) > maxPresetBytes {
		return answered(invalid(req, field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
			"a preset must be at most %d KiB, this one is %d KiB: split it", maxPresetBytes>>10, len(raw)>>10))}))
	}
	preset := p.empty()
	strict, err := kjson.UnmarshalStrict(raw, preset)
	if err != nil {
		return answered(undecodable(req, p.Kind, err))
	}
	problems := append(unknownFields(strict, presetParts), nulls(raw)...)
	compiled, more := presets.Compile(preset)
	if problems = append(problems, more...); len(problems) > 0 {
		return answered(invalid(req, problems))
	}
	return checkedPreset{compiled: compiled, result: p.validate(preset, compiled, req.OldObject.Raw)}
}

// changesSpec reports whether a request creates an object or changes its spec.
func changesSpec(req Request) bool {
	if req.Operation != admissionv1.Update {
		return req.Operation == admissionv1.Create
	}
	var now, before struct {
		Spec any `json:"spec"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &now) != nil ||
		kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &before) != nil {
		return true
	}
	return !apiequality.Semantic.DeepEqual(now.Spec, before.Spec)
}

// deleted warns if VMs have values of the preset. It never rejects.
func (p Preset) deleted(raw []byte) Response {
	response, preset := allowed(), p.empty()
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, preset) != nil {
		return response
	}
	matched := preset.GetStatus().Matched
	if matched != nil && *matched > 0 && preset.GetSpec().Mode.OrDefault() == v1alpha1.ModeEnforce {
		vms := fmt.Sprintf("%d VMs keep", *matched)
		if *matched == 1 {
			vms = "1 VM keeps"
		}
		response.Warnings = []string{fmt.Sprintf("preset %s is in use: %s its values, but new VMs do not get them", presets.RefOf(preset), vms)}
	}
	return response
}

// undecodable rejects an object with a value of a wrong type.
func undecodable(req Request, kind string, err error) Response {
	if when, ok := errors.AsType[*time.ParseError](err); ok && kind == v1alpha1.KindPresetException {
		return invalid(req, field.ErrorList{field.Invalid(field.NewPath("spec", "until"), when.Value, "must be a time such as 2026-12-31T00:00:00Z")})
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return malformed(fmt.Errorf("cannot read the %s: %w", kind, err))
	}
	detail := fmt.Sprintf("must be %s, not %s", typeNames[wrong.Type.Kind()], wrong.Value)
	if wrong.Field == "spec.mode" && wrong.Value == "bool" {
		detail = `must be a string; YAML reads Off without quotes as false, so write mode: "Off"`
	}
	path := embedded.ReplaceAllString(wrong.Field, "")
	return invalid(req, field.ErrorList{field.TypeInvalid(field.NewPath(path), field.OmitValueType{}, detail)})
}

// embedded matches the embedded structs of profiles, which encoding/json names.
var embedded = regexp.MustCompile(`(Frontend|Backend)Settings\.`)

var typeNames = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Bool: "true or false", reflect.Int32: "a whole number", reflect.Int64: "a whole number",
	reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object",
}

// validate applies the rules to a preset; on an update, to its changes.
func (p Preset) validate(preset v1alpha1.Preset, compiled *presets.Compiled, stored []byte) validation.Result {
	if p.Rules == nil {
		return validation.Result{}
	}
	old := p.empty()
	if len(stored) == 0 || kjson.UnmarshalCaseSensitivePreserveInts(stored, old) != nil {
		return p.Rules.ValidatePreset(preset, compiled, p.Steps)
	}
	return p.Rules.ValidatePresetUpdate(preset, compiled, old, p.Steps)
}

func (p Preset) empty() v1alpha1.Preset {
	if p.Kind == v1alpha1.KindClusterVirtualMachinePreset {
		return &v1alpha1.ClusterVirtualMachinePreset{}
	}
	return &v1alpha1.VirtualMachinePreset{}
}

// presetRequirements returns the permissions that the author of a preset needs. A preset writes VMs
// of other users, so its author must be allowed to do that. Fields that affect more than the VM
// require a verb of their own.
func presetRequirements(req Request, compiled *presets.Compiled) []requirement {
	spec := field.NewPath("spec")
	required := []requirement{{sspv1alpha1.Permission{Path: spec, Attributes: authorizationv1.ResourceAttributes{
		Namespace: req.Namespace, Verb: "update", Group: "kubevirt.io", Resource: "virtualmachines",
	}}, "required because a preset changes VirtualMachines of other users"}}
	if sensitive := compiled.Sensitive(); len(sensitive) > 0 {
		required = append(required, requirement{sspv1alpha1.Permission{Path: spec, Attributes: authorizationv1.ResourceAttributes{
			Namespace: req.Namespace, Verb: verbEscalate, Group: req.Resource.Group, Resource: req.Resource.Resource, Name: presetName(req),
		}}, "required because the preset sets " + tree.List(sensitive, maxListed) + ", which reach beyond the VM"})
	}
	return required
}

// presetName returns the name of a preset. A request without name has it in the object, unless it
// uses generateName.
func presetName(req Request) string {
	if req.Name != "" {
		return req.Name
	}
	var meta metav1.PartialObjectMetadata
	_ = kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &meta) // it was decoded before
	return meta.Name
}

// authorize rejects an object whose author lacks permissions.
func authorize(ctx context.Context, by authorizer, req Request, required []requirement) Response {
	problems, err := missing(ctx, by, req.UserInfo, required)
	switch {
	case err != nil:
		return unavailable(ctx, req, err)
	case len(problems) > 0:
		return invalid(req, problems)
	}
	return allowed()
}

// A LegacyPreset validates KubeVirt's VirtualMachineInstancePresets, for clusters without KubeVirt.
// Their authors need the same permissions as the authors of a Preset.
type LegacyPreset struct {
	Authorizer authorizer
}

var _ handler = LegacyPreset{}

// Handle answers one request.
func (p LegacyPreset) Handle(ctx context.Context, req Request) Response {
	if !changesSpec(req) {
		return allowed()
	}
	preset, err := decodeLegacyPreset(req.Object.Raw)
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return invalid(req, rejection.Problems)
	}
	if err != nil {
		return malformed(fmt.Errorf("cannot read the %s: %w", req.Kind.Kind, err))
	}
	compiled, problems := presets.CompileLegacy(preset)
	if len(problems) > 0 {
		return invalid(req, problems)
	}
	return authorize(ctx, p.Authorizer, req, presetRequirements(req, compiled))
}

// decodeLegacyPreset decodes a preset after checking that its quantities can be parsed in
// reasonable time. Its metadata and spec.domain have the form of a VMI's.
func decodeLegacyPreset(raw []byte) (*kubevirtv1.VirtualMachineInstancePreset, error) {
	safe, err := presets.SafeQuantities(presets.VirtualMachineInstance, raw)
	if err != nil {
		return nil, err
	}
	var preset kubevirtv1.VirtualMachineInstancePreset
	return &preset, kjson.UnmarshalCaseSensitivePreserveInts(safe, &preset)
}

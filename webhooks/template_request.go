package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/validation"
)

// A templateRequestMutator completes VirtualMachineTemplateRequests: it expands the short form,
// sets the namespace of the source, and records the requester.
type templateRequestMutator struct {
	// Formats are the names of the formats that a request may name.
	Formats []string
	// TemplateFormat chooses a format if a request names none; nil chooses the first.
	TemplateFormat formatChooser
	// Manager is the user who may create requests for others; "" if there is none.
	Manager string
}

// Handle answers one request.
func (t *templateRequestMutator) Handle(ctx context.Context, req Request) Response {
	if !isWrite(req) {
		return allowed()
	}
	var object, old struct {
		Metadata struct {
			Annotations map[string]any `json:"annotations"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return malformed(fmt.Errorf("cannot read the request for a template: %w", err))
	}
	if req.Operation == admissionv1.Update {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(req.OldObject.Raw, &old); err != nil {
			return malformed(fmt.Errorf("cannot read the stored request for a template: %w", err))
		}
	}
	if object.Spec == nil {
		return allowed() // the schema rejects it
	}
	formats, problems, err := t.formats(ctx, object.Spec, old.Spec)
	if err != nil {
		return unavailable(ctx, req, err)
	}
	expanded, more := validation.ExpandTemplateRequest(object.Spec, req.Namespace, formats)
	if problems = append(problems, more...); len(problems) > 0 {
		return invalid(req, problems)
	}
	response := allowed()
	response.Warnings = t.setRequester(req, expanded, old.Spec)
	if !apiequality.Semantic.DeepEqual(expanded, object.Spec) {
		response.Patches = []jsonpatch.Operation{jsonpatch.NewOperation("replace", "/spec", expanded)}
	}
	_, has := object.Metadata.Annotations[v1alpha1.AnnotationTriggerHash]
	if has && req.Operation == admissionv1.Create && !isManager(req, t.Manager) {
		response.Patches = append(response.Patches, jsonpatch.NewOperation("remove", annotationPointer(v1alpha1.AnnotationTriggerHash), nil))
		response.Warnings = append(response.Warnings, "removed metadata.annotations["+v1alpha1.AnnotationTriggerHash+"]: only virtwright may write it")
	}
	return response
}

// isManager reports whether the manager makes a request. It may create requests for others.
func isManager(req Request, manager string) bool {
	return manager != "" && req.UserInfo.Username == manager
}

// setRequester writes the requester into a spec, and warns if it replaces another one.
func (t *templateRequestMutator) setRequester(req Request, spec, old map[string]any) []string {
	given, has := spec["requester"]
	switch {
	case req.Operation == admissionv1.Update:
		if stored, ok := old["requester"]; ok && !has {
			spec["requester"] = stored
		}
		return nil
	case has && isManager(req, t.Manager):
		return nil
	}
	raw, err := json.Marshal(sspv1alpha1.RequesterOf(req.UserInfo))
	var requester map[string]any
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &requester)
	}
	if err != nil { // unreachable: strings can be encoded
		return []string{err.Error()}
	}
	spec["requester"] = requester
	if has && !apiequality.Semantic.DeepEqual(given, any(requester)) {
		return []string{"spec.requester: replaced by the user who makes the request; only virtwright may write it"}
	}
	return nil
}

// A templateRequestValidator rejects VirtualMachineTemplateRequests whose requester lacks
// permissions.
type templateRequestValidator struct {
	// Formats are the names of the formats that a request may name.
	Formats []string
	// Manager is the user who may create requests for others; "" if there is none.
	Manager string
	// Authorizer reports what the requester may do.
	Authorizer authorizer
}

// Handle answers one request. Updates need no check, because the schema makes spec immutable.
func (t *templateRequestValidator) Handle(ctx context.Context, req Request) Response {
	if req.Operation != admissionv1.Create {
		return allowed()
	}
	var object sspv1alpha1.VirtualMachineTemplateRequest
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return malformed(fmt.Errorf("cannot read the request for a template: %w", err))
	}
	problems := append(t.checkRequester(req, &object), validation.CheckTemplateRequest(&object, t.Formats)...)
	if len(problems) > 0 {
		return invalid(req, problems)
	}
	spec := &object.Spec
	format, _, _ := spec.Target.Format() // CheckTemplateRequest requires one
	permissions := sspv1alpha1.RequiredPermissions(req.Namespace, spec.Source.VMNamespace, spec.Source.VMName, format)
	req.UserInfo = spec.Requester.UserInfo()
	return authorize(ctx, t.Authorizer, req, forTemplate(permissions))
}

// checkRequester rejects requests in the name of another user.
func (t *templateRequestValidator) checkRequester(req Request, object *sspv1alpha1.VirtualMachineTemplateRequest) field.ErrorList {
	at, requester := field.NewPath("spec", "requester"), object.Spec.Requester
	switch {
	case requester == nil || requester.Username == "":
		return field.ErrorList{field.Required(at, "virtwright's mutating webhook did not see this request: create it again")}
	case isManager(req, t.Manager):
		return nil
	case !apiequality.Semantic.DeepEqual(*requester, sspv1alpha1.RequesterOf(req.UserInfo)):
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("user %s may not create a request for user %s", req.UserInfo.Username, requester.Username))}
	}
	return nil
}

// formatChooser chooses the format of a template if a request names none.
type formatChooser interface {
	// Choose returns the name of a served format, or the reason why there is none.
	Choose(ctx context.Context) (name, problem string, err error)
}

// chooseFormat chooses a format; a nil chooser chooses the first.
func chooseFormat(ctx context.Context, chooser formatChooser, formats []string) (name, problem string, err error) {
	if chooser == nil {
		return formats[0], "", nil
	}
	return chooser.Choose(ctx)
}

// formats returns the formats that a request may name, first the one that a spec without format
// means. An update means the format that is stored.
func (t *templateRequestMutator) formats(ctx context.Context, spec, old map[string]any) ([]string, field.ErrorList, error) {
	if namesFormat(spec) || t.TemplateFormat == nil {
		return t.Formats, nil, nil
	}
	stored, _ := old["target"].(map[string]any)
	for name := range stored {
		return append([]string{name}, t.Formats...), nil, nil
	}
	name, problem, err := t.TemplateFormat.Choose(ctx)
	if err != nil || problem == "" {
		return append([]string{name}, t.Formats...), nil, err
	}
	problem += remedy(t.Formats, "set format: configMap")
	return t.Formats, field.ErrorList{field.Required(field.NewPath("spec", "format"), problem)}, nil
}

// remedy says what to do if no format is served. A ConfigMap needs no other API.
func remedy(formats []string, useConfigMap string) string {
	if slices.Contains(formats, sspv1alpha1.FormatConfigMap) {
		return "; " + useConfigMap + ", which shows the VM to every reader of ConfigMaps"
	}
	return "; install one of them"
}

// namesFormat reports whether the spec of a request names the format, or has an invalid target.
func namesFormat(spec map[string]any) bool {
	if format, _ := spec["format"].(string); format != "" {
		return true
	}
	target, has := spec["target"]
	fields, isObject := target.(map[string]any)
	return has && (!isObject || len(fields) > 0)
}

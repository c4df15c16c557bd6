package webhooks

import (
	"context"
	"encoding/json"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/validation"
)

// A TemplateRequest writes requests for templates in full: the short form, the
// namespace of the source, and who asks.
type TemplateRequest struct {
	// Formats are the names of those that may be asked for.
	Formats []string
	// TemplateFormat chooses one of them where a request names none; nil chooses the first.
	TemplateFormat TemplateFormat
	// Manager is the user who may ask for others; empty where nobody may.
	Manager string
}

var _ admission.Handler = (*TemplateRequest)(nil)

// Handle answers one request.
func (t *TemplateRequest) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
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
		return allowed() // the schema wants one
	}
	formats, problems, err := t.formats(ctx, object.Spec, old.Spec)
	if err != nil {
		return unanswerable(ctx, req, err)
	}
	whole, more := validation.ExpandTemplateRequest(object.Spec, req.Namespace, formats)
	if problems = append(problems, more...); len(problems) > 0 {
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, problems)
	}
	response := allowed()
	response.Warnings = t.requester(req, whole, old.Spec)
	if !apiequality.Semantic.DeepEqual(whole, object.Spec) {
		response.Patches = []jsonpatch.Operation{jsonpatch.NewOperation("replace", "/spec", whole)}
	}
	if _, has := object.Metadata.Annotations[v1alpha1.AnnotationTrigger]; has && req.Operation == admissionv1.Create && !forwards(t.Manager, req) {
		response.Patches = append(response.Patches, jsonpatch.NewOperation("remove", annotationPointer(v1alpha1.AnnotationTrigger), nil))
		response.Warnings = append(response.Warnings, "virtwright writes metadata.annotations["+v1alpha1.AnnotationTrigger+"]: left out")
	}
	return response
}

// forwards says that who writes may ask for others, as the manager may.
func forwards(manager string, req admission.Request) bool {
	return manager != "" && req.UserInfo.Username == manager
}

// requester writes who asks into a spec, and warns of what was there.
func (t *TemplateRequest) requester(req admission.Request, spec, old map[string]any) []string {
	given, has := spec["requester"]
	switch {
	case req.Operation == admissionv1.Update:
		if was, stamped := old["requester"]; stamped && !has {
			spec["requester"] = was
		}
		return nil
	case has && forwards(t.Manager, req):
		return nil
	}
	raw, err := json.Marshal(sspv1alpha1.RequesterOf(req.UserInfo))
	var stamp map[string]any
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &stamp)
	}
	if err != nil { // unreachable: texts can be encoded
		return []string{err.Error()}
	}
	spec["requester"] = stamp
	if has && !apiequality.Semantic.DeepEqual(given, any(stamp)) {
		return []string{"spec.requester is who makes the request, and virtwright writes it: what was there is left out"}
	}
	return nil
}

// A TemplateRequestValidator admits requests for templates whose requester may
// have what they ask for.
type TemplateRequestValidator struct {
	// Formats are the names of those that may be asked for.
	Formats []string
	// Manager is the user who may ask for others; empty where nobody may.
	Manager string
	// Authority is asked what the requester may do.
	Authority Authority
}

var _ admission.Handler = (*TemplateRequestValidator)(nil)

// Handle answers one request. Spec cannot be changed, which the schema says.
func (t *TemplateRequestValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create {
		return allowed()
	}
	var object sspv1alpha1.VirtualMachineTemplateRequest
	if err := kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &object); err != nil {
		return malformed(fmt.Errorf("cannot read the request for a template: %w", err))
	}
	problems := append(t.requester(req, &object), validation.CheckTemplateRequest(&object, t.Formats)...)
	if len(problems) == 0 {
		spec := &object.Spec
		format, _, _ := spec.Target.Format() // there is one: it was checked
		user := spec.Requester.UserInfo()
		more, err := refusals(ctx, t.Authority, user, sspv1alpha1.Needs(req.Namespace, spec.Source.VMNamespace, spec.Source.VMName, format))
		if err != nil {
			return unanswerable(ctx, req, err)
		}
		problems = more
	}
	if len(problems) > 0 {
		return invalid(schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}, req.Name, problems)
	}
	return allowed()
}

// requester refuses to be asked in somebody else's name.
func (t *TemplateRequestValidator) requester(req admission.Request, object *sspv1alpha1.VirtualMachineTemplateRequest) field.ErrorList {
	at, stamp := field.NewPath("spec", "requester"), object.Spec.Requester
	switch {
	case stamp == nil || stamp.Username == "":
		return field.ErrorList{field.Required(at, "virtwright writes who makes the request, and has not: its mutating webhook was not asked")}
	case forwards(t.Manager, req):
		return nil
	case !apiequality.Semantic.DeepEqual(*stamp, sspv1alpha1.RequesterOf(req.UserInfo)):
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("user %s may not ask in the name of %s", req.UserInfo.Username, stamp.Username))}
	}
	return nil
}

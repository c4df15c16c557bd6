package webhooks

import (
	"context"
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtwright/virtwright/presets"
)

// allowed lets the object pass as it is.
func allowed() admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
}

// denied refuses with a status.
func denied(status metav1.Status) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// invalid refuses an object with every problem it has.
func invalid(kind schema.GroupKind, name string, problems field.ErrorList) admission.Response {
	return denied(apierrors.NewInvalid(kind, presets.Cut(name, maxMessage), presets.Shorten(problems)).Status())
}

// malformed refuses an object that cannot be read at all.
func malformed(err error) admission.Response {
	return denied(badRequest("%v", err).Status())
}

// unresolved answers for an error of the engine.
func unresolved(ctx context.Context, request admission.Request, err error) admission.Response {
	var refusal *presets.Refusal
	var unreadable *presets.Malformed
	switch {
	case errors.As(err, &refusal):
		kind := schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
		return invalid(kind, request.Name, inVersion(request, refusal.Problems))
	case errors.As(err, &unreadable):
		return malformed(err)
	}
	return unanswerable(ctx, request, err)
}

// unanswerable is for a request that could be fine, but not now.
func unanswerable(ctx context.Context, request admission.Request, err error) admission.Response {
	ctrl.LoggerFrom(ctx).Error(err, "Cannot answer an admission request", "uid", request.UID,
		"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
	return denied(problem(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		"virtwright cannot answer now, try again: %v", err).Status())
}

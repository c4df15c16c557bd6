package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// guarded turns a panic of the handler into an answer and a line in the log,
// which the request's UID connects.
func guarded(ctx context.Context, handler admission.Handler, request admission.Request) (response admission.Response) {
	defer func() {
		if reason := recover(); reason != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("panic: %v", reason), "Admission panicked",
				"uid", request.UID, "kind", request.Kind.Kind, "operation", request.Operation,
				"namespace", request.Namespace, "name", request.Name, "stack", string(debug.Stack()))
			response = internal(request)
		}
	}()
	return handler.Handle(ctx, request)
}

// internal is the answer to a request on which we failed.
func internal(request admission.Request) admission.Response {
	return denied(problem(http.StatusInternalServerError, metav1.StatusReasonInternalError,
		"virtwright has a defect and cannot answer; please report it with the log of virtwright-manager for request %s", request.UID).Status())
}

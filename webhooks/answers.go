package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"

	patches "github.com/evanphx/json-patch/v5"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// maxMessage bounds a message that may quote the request, in bytes.
const maxMessage = 1 << 10

// statusError is an error that clients receive as a metav1.Status.
type statusError = apierrors.StatusError

func newStatus(code int32, reason metav1.StatusReason, format string, args ...any) *statusError {
	return &statusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: tree.Truncate(fmt.Sprintf(format, args...), maxMessage),
	}}
}

func badRequest(format string, args ...any) *statusError {
	return newStatus(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

// isOfUser reports whether a user can do something about the error: wait, or send less. Others mean
// that no API server sent the request.
func isOfUser(err *statusError) bool {
	return err.ErrStatus.Code == http.StatusTooManyRequests || err.ErrStatus.Code == http.StatusRequestEntityTooLarge
}

// A Request is an admission request.
type Request struct{ admissionv1.AdmissionRequest }

// A Response is the answer to a Request, with the patch before it is encoded.
//
// Both have the shape of controller-runtime's types, which depend on its metrics and so on clients.
type Response struct {
	Patches []jsonpatch.Operation
	// Problems are the reasons of a rejection, which AdmissionResponse has as texts.
	Problems []presets.Problem
	admissionv1.AdmissionResponse
}

// Apply returns an object with the patch applied.
func (r *Response) Apply(object []byte) ([]byte, error) {
	if len(r.Patches) == 0 {
		return object, nil
	}
	operations, err := json.Marshal(r.Patches)
	if err != nil {
		return nil, err
	}
	patch, err := patches.DecodePatch(operations)
	if err != nil {
		return nil, err
	}
	return patch.Apply(object)
}

// encode sets the fields of the response that are sent.
func (r *Response) encode(uid types.UID) (err error) {
	r.UID = uid
	if r.Result == nil {
		r.Result = &metav1.Status{}
	}
	if r.Result.Code == 0 {
		r.Result.Code = http.StatusOK
	}
	if len(r.Patches) > 0 {
		r.PatchType = new(admissionv1.PatchTypeJSONPatch)
		r.Patch, err = json.Marshal(r.Patches)
	}
	return err
}

type handler interface {
	Handle(context.Context, Request) Response
}

type handlerFunc func(context.Context, Request) Response

// Handle calls the function.
func (f handlerFunc) Handle(ctx context.Context, r Request) Response { return f(ctx, r) }

func allowed() Response {
	return Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true}}
}

func denied(status metav1.Status) Response {
	return Response{
		Problems:          []presets.Problem{{Message: status.Message}},
		AdmissionResponse: admissionv1.AdmissionResponse{Result: &status},
	}
}

// invalid rejects an object with as many of its problems as a message holds.
func invalid(request Request, problems field.ErrorList) Response {
	return invalidNamed(request, tree.Truncate(request.Name, maxMessage), presets.LimitErrors(problems))
}

// invalidNamed rejects an object, under a name, with all its problems.
func invalidNamed(request Request, name string, problems field.ErrorList) Response {
	out := denied(apierrors.NewInvalid(kindOf(request), name, problems).Status())
	out.Problems = presets.ProblemsOf(problems)
	return out
}

func kindOf(request Request) schema.GroupKind {
	return schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
}

// malformed rejects an object that cannot be decoded.
func malformed(err error) Response {
	return denied(badRequest("%v", err).Status())
}

// unresolved converts an error of the engine.
func unresolved(ctx context.Context, request Request, err error) Response {
	if rejection, ok := errors.AsType[*presets.Rejection](err); ok {
		return invalid(request, inVersion(request, rejection.Problems))
	}
	if _, ok := errors.AsType[*presets.Malformed](err); ok {
		return malformed(err)
	}
	return unavailable(ctx, request, err)
}

// unavailable rejects a request that may succeed later.
func unavailable(ctx context.Context, request Request, err error) Response {
	log.FromContext(ctx).Error(err, "Cannot answer an admission request", "uid", request.UID,
		"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
	return denied(newStatus(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		"virtwright cannot answer now, try again: %v", err).Status())
}

// handleSafely turns a panic of the handler into an internal error. The UID of the request connects
// the answer with the log.
func handleSafely(ctx context.Context, handler handler, request Request) (response Response) {
	defer func() {
		if reason := recover(); reason != nil {
			log.FromContext(ctx).Error(fmt.Errorf("panic: %v", reason), "Admission panicked",
				"uid", request.UID, "kind", request.Kind.Kind, "operation", request.Operation,
				"namespace", request.Namespace, "name", request.Name, "stack", string(debug.Stack()))
			response = internalError(request)
		}
	}()
	return handler.Handle(ctx, request)
}

func internalError(request Request) Response {
	return denied(newStatus(http.StatusInternalServerError, metav1.StatusReasonInternalError,
		"virtwright has a bug and cannot answer; please report it with the log of virtwright-manager for request %s", request.UID).Status())
}

// mostLogged limits the problems of a rejection that are logged.
const mostLogged = 10

// logRejection logs a rejected request with the rules and presets that caused it. Values may be
// secrets, so neither they nor messages are logged.
func logRejection(ctx context.Context, request Request, response Response) {
	if outcome(response) != "rejected" {
		return
	}
	var fields, rules, named []string
	for _, p := range response.Problems[:min(len(response.Problems), mostLogged)] {
		fields, rules, named = append(fields, tree.Truncate(p.Field, maxMessage)), append(rules, p.Rule()), append(named, p.Presets()...)
	}
	log.FromContext(ctx).Info("Rejected a request", "uid", request.UID, "user", tree.Truncate(request.UserInfo.Username, maxMessage),
		"operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name", tree.Truncate(request.Name, maxMessage),
		"reason", response.Result.Reason, "fields", distinct(fields), "rules", distinct(rules), "presets", distinct(named))
}

// distinct sorts texts, and drops duplicates and empty ones.
func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(text string) bool { return text == "" })
}

package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// MaxBodyBytes is how large an AdmissionReview may be: two objects of at most
// 3 MiB, which is what an API server accepts, and the rest of the request.
const MaxBodyBytes = 7 << 20

// Timeout is how long an API server waits for an answer.
const Timeout = 5 * time.Second

// reviews serves AdmissionReviews over HTTP.
//
// controller-runtime has such a handler too. This one differs in what it does
// with a body that is no AdmissionReview, which that one takes for an empty
// request and answers under the kind of the body: here the answer has the HTTP
// status and the metav1.Status that an API server passes on to its client.
type reviews struct {
	handler admission.Handler
}

// ServeHTTP answers one AdmissionReview.
func (h reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// An answer is owed even when the server stops meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout(r))
	defer cancel()
	body, problem := readBody(w, r, MaxBodyBytes, "AdmissionReview")
	if problem == nil {
		var request *admission.Request
		if request, problem = parse(body); problem == nil {
			write(w, http.StatusOK, answer(ctx, h.handler, *request))
			return
		}
	}
	if uid := uidOf(body); problem.ErrStatus.Code == http.StatusTooManyRequests && uid != "" {
		write(w, http.StatusOK, reviewOf(uid, denied(problem.Status())))
		return
	}
	ctrl.LoggerFrom(ctx).Info("Refused a request that is not an AdmissionReview", "path", r.URL.Path, "remote", r.RemoteAddr, "reason", problem.Error())
	refuse(w, problem)
}

// sentUID finds the uid of a request at the beginning of an AdmissionReview,
// where API servers write it.
var sentUID = regexp.MustCompile(`"request"\s*:\s*\{\s*"uid"\s*:\s*"([^"\\]+)"`)

// uidOf returns the uid of a request whose body may be cut short; empty when it
// has not arrived.
func uidOf(beginning []byte) types.UID {
	if found := sentUID.FindSubmatch(beginning[:min(len(beginning), 4<<10)]); found != nil {
		return types.UID(found[1])
	}
	return ""
}

// refuse answers with the HTTP status of an error. A client that found no share
// of memory gets 503: without an AdmissionReview, 429 would blame the user.
func refuse(w http.ResponseWriter, err *statusError) {
	status := err.Status()
	if status.Code == http.StatusTooManyRequests {
		status.Code, status.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	}
	write(w, int(status.Code), &status)
}

// answer lets the handler answer. It always returns a review with a response
// to the request, whatever the handler does.
func answer(ctx context.Context, handler admission.Handler, request admission.Request) *admissionv1.AdmissionReview {
	response := guarded(ctx, admission.HandlerFunc(func(ctx context.Context, request admission.Request) admission.Response {
		response := handler.Handle(ctx, request)
		if err := response.Complete(request); err != nil {
			return unanswerable(ctx, request, fmt.Errorf("cannot encode the patch: %w", err))
		}
		return response
	}), request)
	logRefusal(ctx, request, response)
	return reviewOf(request.UID, response)
}

func reviewOf(uid types.UID, response admission.Response) *admissionv1.AdmissionReview {
	response.UID = uid
	review := &admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	return review
}

// timeout is how long the API server says it will wait.
func timeout(r *http.Request) time.Duration {
	asked, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || asked <= 0 {
		return Timeout
	}
	return min(asked, 30*time.Second)
}

// checkHeader refuses what is not JSON sent with POST.
func checkHeader(w http.ResponseWriter, r *http.Request, what string) *statusError {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return problem(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"%s is not allowed: API servers send %s with POST", r.Method, article(what))
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return problem(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"the body must have Content-Type application/json, not %.100q", r.Header.Get("Content-Type"))
	}
	return nil
}

func article(noun string) string {
	if strings.HasPrefix(noun, "A") {
		return "an " + noun
	}
	return "a " + noun
}

// parse decodes an AdmissionReview.
func parse(body []byte) (*admission.Request, *statusError) {
	bad := func(format string, args ...any) (*admission.Request, *statusError) {
		return nil, badRequest("the body is not an AdmissionReview: "+format, args...)
	}
	if err := presets.CheckReviewSize(body); err != nil {
		return bad("%v", err)
	}
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return bad("%v", err)
	}
	want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	if got := review.GroupVersionKind(); got != want {
		return bad("want apiVersion %s and kind %s, got %.100q and %.100q", want.GroupVersion(), want.Kind, review.APIVersion, review.Kind)
	}
	if review.Request == nil || review.Request.UID == "" {
		return bad("it has no request with a uid")
	}
	return &admission.Request{AdmissionRequest: *review.Request}, nil
}

// maxMessage bounds a message that may repeat what a client sent, in bytes.
const maxMessage = 1 << 10

// statusError is a refusal in the words of the API.
type statusError = apierrors.StatusError

func badRequest(format string, args ...any) *statusError {
	return problem(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

func problem(code int32, reason metav1.StatusReason, format string, args ...any) *statusError {
	return &statusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: presets.Cut(fmt.Sprintf(format, args...), maxMessage),
	}}
}

func write(w http.ResponseWriter, code int, body any) {
	content, err := json.Marshal(body)
	if err != nil { // unreachable: both kinds of body have plain fields only
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(content) // a client that has gone needs no answer
}

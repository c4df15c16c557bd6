package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	kjson "sigs.k8s.io/json"

	"github.com/virtwright/virtwright/presets"
)

// maxBodyBytes is the maximum size of an AdmissionReview: two objects of at most 3 MiB, which API
// servers accept, and the rest of the request.
const maxBodyBytes = 7 << 20

// defaultTimeout is how long an API server waits for an answer.
const defaultTimeout = 5 * time.Second

// reviews serves AdmissionReviews over HTTP.
//
// controller-runtime's handler takes a body that is no AdmissionReview for an empty request. This
// one answers it with the HTTP status and the metav1.Status that API servers pass on to clients.
type reviews struct {
	handler handler
}

// ServeHTTP answers one AdmissionReview.
func (h reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A request is answered even if the server stops.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout(r))
	defer cancel()
	body, err := readBody(w, r, maxBodyBytes, "AdmissionReview")
	if err == nil {
		var request *Request
		if request, err = parse(body); err == nil {
			writeJSON(w, http.StatusOK, answer(ctx, h.handler, *request))
			return
		}
	}
	if uid := uidOf(body); isOfUser(err) && uid != "" {
		writeJSON(w, http.StatusOK, reviewOf(uid, denied(err.Status())))
		return
	}
	log.FromContext(ctx).Info("Rejected a request that is not an AdmissionReview", "path", r.URL.Path, "remote", r.RemoteAddr, "reason", err.Error())
	writeError(w, err)
}

// sentUID matches the uid of a request at the beginning of an AdmissionReview, where API servers
// write it.
var sentUID = regexp.MustCompile(`"request"\s*:\s*\{\s*"uid"\s*:\s*"([^"\\]+)"`)

// uidOf returns the uid of a request whose body may be incomplete; "" if it has not arrived.
func uidOf(beginning []byte) types.UID {
	if found := sentUID.FindSubmatch(beginning[:min(len(beginning), 4<<10)]); found != nil {
		return types.UID(found[1])
	}
	return ""
}

// answer calls the handler. It always returns a review with a response to the request.
func answer(ctx context.Context, handler handler, request Request) *admissionv1.AdmissionReview {
	response := handleSafely(ctx, handlerFunc(func(ctx context.Context, request Request) Response {
		response := handler.Handle(ctx, request)
		if err := response.encode(request.UID); err != nil {
			return unavailable(ctx, request, fmt.Errorf("cannot encode the patch: %w", err))
		}
		return response
	}), request)
	logRejection(ctx, request, response)
	return reviewOf(request.UID, response)
}

// reviewOf returns the review with a response. All text in it is escaped: clients print it, and API
// servers drop warnings with control characters.
func reviewOf(uid types.UID, response Response) *admissionv1.AdmissionReview {
	response.UID = uid
	for i, warning := range response.Warnings {
		response.Warnings[i] = presets.EscapeLine(warning)
	}
	if response.Result != nil {
		presets.EscapeStatus(response.Result)
	}
	review := &admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	return review
}

// timeout returns how long the API server waits, as it says itself.
func timeout(r *http.Request) time.Duration {
	requested, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || requested <= 0 {
		return defaultTimeout
	}
	return min(requested, 30*time.Second)
}

// parse decodes an AdmissionReview.
func parse(body []byte) (*Request, *statusError) {
	bad := func(format string, args ...any) (*Request, *statusError) {
		return nil, badRequest("the body is not an AdmissionReview: "+format, args...)
	}
	if err := presets.CheckReviewSize(body); err != nil {
		return nil, newStatus(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "%v", err)
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
	return &Request{AdmissionRequest: *review.Request}, nil
}

// readBody reads a JSON body of at most limit bytes that was sent with POST. If it fails, it
// returns the bytes that have arrived. review is the kind of the body, for messages.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, review string) ([]byte, *statusError) {
	if err := checkHeader(w, r, review); err != nil {
		return nil, err
	}
	// A buffer that doubles leaves less garbage behind than io.ReadAll's.
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), 64<<10)+bytes.MinRead))
	_, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return buffer.Bytes(), nil
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return buffer.Bytes(), status
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, newStatus(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "the %s is larger than %d MiB", review, limit>>20)
	}
	return nil, badRequest("cannot read the body: %v", err)
}

func checkHeader(w http.ResponseWriter, r *http.Request, review string) *statusError {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return newStatus(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"%s is not allowed: API servers send each %s with POST", r.Method, review)
	}
	contentType := r.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
		return newStatus(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"the body must have Content-Type application/json, not %.100q", contentType)
	}
	return nil
}

// writeError answers with the HTTP status of an error. A client that found no share of memory gets
// 503: without an AdmissionReview, 429 would blame the user.
func writeError(w http.ResponseWriter, err *statusError) {
	status := err.Status()
	if status.Code == http.StatusTooManyRequests {
		status.Code, status.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	}
	presets.EscapeStatus(&status)
	writeJSON(w, int(status.Code), &status)
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	content, err := json.Marshal(body)
	if err != nil { // unreachable: all bodies have plain fields only
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(content) // the client may have disconnected
}

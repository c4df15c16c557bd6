package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/presets"
)

// send posts a body and returns the HTTP status and what came back.
func send(t testing.TB, handler http.Handler, contentType string, body []byte) (int, []byte) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x?timeout=5s", bytes.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.Bytes()
}

func review(t testing.TB, req Request) []byte {
	t.Helper()
	out, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &req.AdmissionRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answered decodes an answer, which must be to the request with that UID.
func answered(t testing.TB, body []byte, uid string) *admissionv1.AdmissionResponse {
	t.Helper()
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if out.APIVersion != "admission.k8s.io/v1" || out.Kind != "AdmissionReview" || out.Response == nil || string(out.Response.UID) != uid {
		t.Fatalf("want a review with a response to %s, got %s", uid, body)
	}
	if !out.Response.Allowed && (out.Response.Result == nil || out.Response.Result.Code < 400 || out.Response.Result.Message == "") {
		t.Fatalf("want a rejection to say why, got %s", body)
	}
	return out.Response
}

func TestReview(t *testing.T) {
	handler := reviews{machines(t, presets.VirtualMachine)}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		code, body := send(t, handler, contentType, review(t, creates("VirtualMachine", "lab", smallVM)))
		if code != http.StatusOK {
			t.Fatalf("want 200, got %d: %s", code, body)
		}
		if got := answered(t, body, "request-1"); !got.Allowed || len(got.Patch) == 0 || *got.PatchType != admissionv1.PatchTypeJSONPatch {
			t.Errorf("want a patch, got %s", body)
		}
	}
}

func TestNoReview(t *testing.T) {
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	cases := map[string]struct {
		contentType, body string
		code              int
		message           string
	}{
		"Empty":       {"application/json", ``, 400, "not an AdmissionReview"},
		"NoJSON":      {"application/json", `apiVersion: v1`, 400, "not an AdmissionReview"},
		"List":        {"application/json", `[]`, 400, "not an AdmissionReview"},
		"EmptyObject": {"application/json", `{}`, 400, `want apiVersion admission.k8s.io/v1 and kind AdmissionReview, got "" and ""`},
		"Pod":         {"application/json", `{"apiVersion":"v1","kind":"Pod"}`, 400, `got "v1" and "Pod"`},
		"Beta":        {"application/json", `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"a"}}`, 400, `got "admission.k8s.io/v1beta1"`},
		"NoRequest":   {"application/json", head + `}`, 400, "no request with a uid"},
		"NullRequest": {"application/json", head + `,"request":null}`, 400, "no request with a uid"},
		"NoUID":       {"application/json", head + `,"request":{}}`, 400, "no request with a uid"},
		"WrongType":   {"application/json", head + `,"request":[]}`, 400, "not an AdmissionReview"},
		"Trailing":    {"application/json", head + `,"request":{"uid":"a"}} x`, 400, "not an AdmissionReview"},
		"YAML":        {"application/yaml", head + `,"request":{"uid":"a"}}`, 415, `must have Content-Type application/json, not "application/yaml"`},
		"NoType":      {"", head + `,"request":{"uid":"a"}}`, 415, "must have Content-Type application/json"},
		"TooLarge":    {"application/json", strings.Repeat(" ", maxBodyBytes+1), 413, "larger than 7 MiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, body := send(t, reviews{machines(t, presets.VirtualMachine)}, tc.contentType, []byte(tc.body))
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil {
				t.Fatal(err)
			}
			if code != tc.code || int(status.Code) != tc.code || status.Kind != "Status" || !strings.Contains(status.Message, tc.message) {
				t.Errorf("want %d with %q, got %d: %s", tc.code, tc.message, code, body)
			}
		})
	}
}

func TestOnlyPost(t *testing.T) {
	recorder := httptest.NewRecorder()
	reviews{machines(t, presets.VirtualMachine)}.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if recorder.Code != http.StatusMethodNotAllowed || recorder.Header().Get("Allow") != http.MethodPost {
		t.Errorf("want 405, got %d", recorder.Code)
	}
}

type torn struct{}

func (torn) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestTornBody(t *testing.T) {
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", torn{})
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	reviews{machines(t, presets.VirtualMachine)}.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("want 400, got %d", recorder.Code)
	}
}

// rejecting is a body that is rejected when its beginning has arrived.
type rejecting struct {
	io.Reader
	with error
}

func (r rejecting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = r.with
	}
	return n, err
}

// A request without a share of memory is answered so that clients try again.
func TestOverBudget(t *testing.T) {
	over := apierrors.NewTooManyRequests("busy", 1)
	for name, c := range map[string]struct {
		beginning string
		code      int
		uid       string
	}{
		"with a uid":           {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"a-b","kind":{"gro`, http.StatusOK, "a-b"},
		"spaced":               {"{ \"request\" :\n{ \"uid\" : \"a-b\",", http.StatusOK, "a-b"},
		"before the uid":       {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"ui`, http.StatusServiceUnavailable, ""},
		"another object's uid": {`{"request":{"object":{"metadata":{"uid":"x"}}`, http.StatusServiceUnavailable, ""},
		"nothing that arrived": {"", http.StatusServiceUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", rejecting{strings.NewReader(c.beginning), over})
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			reviews{machines(t, presets.VirtualMachine)}.ServeHTTP(recorder, request)
			if recorder.Code != c.code {
				t.Fatalf("got %d %s", recorder.Code, recorder.Body)
			}
			if c.uid == "" {
				return
			}
			got := answered(t, recorder.Body.Bytes(), c.uid).Result
			if got.Code != http.StatusTooManyRequests || got.Details == nil || got.Details.RetryAfterSeconds != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	metrics := NewMetrics(prometheus.NewRegistry())
	for name, handler := range map[string]handler{
		"Handler":  handlerFunc(func(context.Context, Request) Response { panic("ouch") }),
		"Measured": metrics.measured("Test", handlerFunc(func(context.Context, Request) Response { panic("ouch") })),
	} {
		t.Run(name, func(t *testing.T) {
			code, body := send(t, reviews{handler}, "application/json", review(t, creates("VirtualMachine", "lab", smallVM)))
			got := answered(t, body, "request-1")
			if code != http.StatusOK || got.Allowed || got.Result.Code != http.StatusInternalServerError ||
				!strings.Contains(got.Result.Message, "request-1") || strings.Contains(got.Result.Message, "ouch") {
				t.Errorf("want a 500 that names the request and no more, got %s", body)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"": defaultTimeout, "timeout=2s": 2 * time.Second, "timeout=1h": 30 * time.Second, "timeout=-1s": defaultTimeout, "timeout=x": defaultTimeout,
	} {
		if got := timeout(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?"+query, http.NoBody)); got != want {
			t.Errorf("%s: want %s, got %s", query, want, got)
		}
	}
}

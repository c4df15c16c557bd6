package limits

import (
	"context"
	"net/http"
	"regexp"
)

// namespaceInPath and flowInReview match the namespace of a request: in the path of an API, or in
// the beginning of an AdmissionReview, where it stands before the object. Without namespace, the
// user of the review is the flow.
var (
	namespaceInPath = regexp.MustCompile(`/namespaces/([^/]+)/`)
	flowInReview    = regexp.MustCompile(`"(?:namespace|username)"\s*:\s*"([^"\\]*)"`)
)

// flowOf returns the name of the flow to which a request belongs.
func flowOf(path string, beginning []byte) string {
	if found := namespaceInPath.FindStringSubmatch(path); found != nil {
		return found[1]
	}
	if found := flowInReview.FindSubmatch(beginning); found != nil {
		return string(found[1])
	}
	return ""
}

// A turn is the time in which a request may use a processor.
type turn struct{ share *share }

type turnKey struct{}

// begin waits for a turn.
func (t *turn) begin(ctx context.Context, processors *resource, name string) (err error) {
	if s, failed := processors.acquire(ctx, name, 1); failed == nil {
		t.share = s
	} else {
		err = failed
	}
	return err
}

// end ends the turn, if it has begun.
func (t *turn) end() {
	if t.share != nil {
		t.share.release()
		t.share = nil
	}
}

// Waiting returns a transport for requests that are sent while another one is answered: until the
// response arrives, that one needs no processor, and others may use it.
func Waiting(transport http.RoundTripper) http.RoundTripper { return waiting{transport} }

type waiting struct{ http.RoundTripper }

// RoundTrip sends a request.
func (w waiting) RoundTrip(r *http.Request) (*http.Response, error) {
	t, _ := r.Context().Value(turnKey{}).(*turn)
	if t == nil || t.share == nil {
		return w.RoundTripper.RoundTrip(r)
	}
	share := t.share
	t.end()
	response, err := w.RoundTripper.RoundTrip(r)
	if late := share.wait(r.Context(), true); late != nil {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, late
	}
	t.share = share
	return response, err
}

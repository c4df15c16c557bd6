package faults

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A fault is a way in which one call goes wrong.
type fault string

const (
	// rejected is an error of the API server, which did nothing.
	rejected fault = "rejected"
	// conflicting is a conflict where there is none: only writes have it.
	conflicting fault = "conflicting"
	// unsent is a call that does not arrive, and times out.
	unsent fault = "unsent"
	// unheard is a call that does its work, and times out.
	unheard fault = "unheard"
	// killedBefore ends the process before the call is sent.
	killedBefore fault = "killed before"
	// killedAfter ends the process after the call did its work.
	killedAfter fault = "killed after"
)

var everyFault = []fault{rejected, conflicting, unsent, unheard, killedBefore, killedAfter}

// A saboteur sits between one process and the API server, which is real.
type saboteur struct {
	inner http.RoundTripper

	mu    sync.Mutex
	fault fault
	only  string // the calls that count; "" means all
	nth   int    // the call that goes wrong, counted down; 0 means none
	hit   string // that call
	storm *rand.Rand
	blown int // calls that went wrong in the storm
	dead  chan struct{}

	// events is locked while the process learns of no events of instances.
	events sync.RWMutex
}

func newSaboteur(inner http.RoundTripper) *saboteur {
	return &saboteur{inner: inner, dead: make(chan struct{})}
}

// arm makes the nth call from now go wrong, of those that only names.
func (s *saboteur) arm(f fault, nth int, only string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.nth, s.only, s.hit = f, nth, only, ""
}

// struck is the call that went wrong, and "" before one did.
func (s *saboteur) struck() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hit
}

// storms makes one call in three go wrong, by chance; nil ends it.
func (s *saboteur) storms(chance *rand.Rand) (blown int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storm = chance
	return s.blown
}

// falls reports whether this call is the one, and how it goes wrong.
func (s *saboteur) falls(r *http.Request) (fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := callOf(r)
	writes := r.Method != http.MethodGet
	if s.storm != nil && what != "" && s.storm.IntN(3) == 0 {
		s.blown++
		return []fault{rejected, unsent, unheard}[s.storm.IntN(3)], true
	}
	if s.nth == 0 || what == "" || (s.only != "" && s.only != what) || (s.fault == conflicting && !writes) {
		return "", false
	}
	s.nth--
	if s.nth > 0 {
		return "", false
	}
	s.hit = what
	return s.fault, true
}

// RoundTrip sends a request, or a part of it.
func (s *saboteur) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.isDead() {
		return lose(r, "the process is no more")
	}
	f, falls := s.falls(r)
	if !falls {
		response, err := s.inner.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/virtualmachineinstances") {
			response.Body = &watched{response.Body, &s.events}
		}
		return response, err
	}
	switch f {
	case rejected:
		return answer(r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case conflicting:
		return answer(r, http.StatusConflict, metav1.StatusReasonConflict)
	case unsent:
		return lose(r, "it got lost")
	case killedBefore:
		close(s.dead)
		return lose(r, "the process is no more")
	case unheard, killedAfter:
		response, err := s.inner.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if f == killedAfter {
			close(s.dead)
		}
		return nil, fmt.Errorf("cannot hear the answer: %w", context.DeadlineExceeded)
	}
	panic("no such fault: " + f)
}

// watched is the body of a watch whose events may be held back.
type watched struct {
	io.ReadCloser

	events *sync.RWMutex
}

// Read reads events and waits until the process may have them.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.events.RLock()
	defer w.events.RUnlock()
	return n, err
}

func (s *saboteur) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

// lose is for a request that is not sent.
func lose(r *http.Request, why string) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, fmt.Errorf("cannot send %s %s: %s: %w", r.Method, r.URL.Path, why, context.DeadlineExceeded)
}

// answer is one that the API server did not give.
func answer(r *http.Request, code int, reason metav1.StatusReason) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"sabotage","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}, nil
}

var ofMachines = regexp.MustCompile(`^/apis/kubevirt\.io/v1/namespaces/([^/]+)/(virtualmachine\w*)/[^/]+(/\w+)?$|^/apis/kubevirt\.io/v1/namespaces/([^/]+)/(virtualmachine\w*)$`)

// callOf is METHOD RESOURCE of a call about one machine, and "" of any other.
func callOf(r *http.Request) string {
	parts := ofMachines.FindStringSubmatch(r.URL.Path)
	if parts == nil || (r.Method == http.MethodGet && parts[5] != "") { // watches are opened before
		return ""
	}
	return r.Method + " " + parts[2] + parts[5] + parts[3]
}

// namespaceOf is the namespace that a path names.
func namespaceOf(path string) string {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// A switchboard leads the calls of one process about a namespace through that namespace's saboteur.
type switchboard struct {
	inner http.RoundTripper

	mu        sync.Mutex
	saboteurs map[string]*saboteur
}

// replace gives a namespace a saboteur that has done nothing yet.
func (b *switchboard) replace(namespace string) *saboteur {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.saboteurs == nil {
		b.saboteurs = map[string]*saboteur{}
	}
	b.saboteurs[namespace] = newSaboteur(b.inner)
	return b.saboteurs[namespace]
}

// revive gives a namespace a new process where the last one was killed.
func (b *switchboard) revive(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.saboteurs[namespace]; s != nil && s.isDead() {
		b.saboteurs[namespace] = newSaboteur(b.inner)
	}
}

// RoundTrip sends a request its way.
func (b *switchboard) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	s := b.saboteurs[namespaceOf(r.URL.Path)]
	b.mu.Unlock()
	if s == nil {
		return b.inner.RoundTrip(r)
	}
	return s.RoundTrip(r)
}

package leadership

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lease is a lease whose writes succeed, or do not.
type lease struct {
	resourcelock.Interface

	err error
}

func (l *lease) Identity() string { return "me" }

func (l *lease) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	time.Sleep(time.Second) // it takes a while
	return l.err
}

type answers struct{ deadline time.Time }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.deadline, _ = r.Context().Deadline()
	w := httptest.NewRecorder()
	return w.Result(), nil
}

func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, server := &lease{}, &answers{}
		lock := &Lock{Interface: inner}
		send := func(method string) error {
			request := httptest.NewRequestWithContext(t.Context(), method, "/x", strings.NewReader("{}"))
			response, err := lock.Fence(server).RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}
		check := func(when string, may bool) {
			t.Helper()
			if err := send(http.MethodPost); (err == nil) != may || !may && !errors.Is(err, errNotLeader) {
				t.Errorf("%s: want %v, got %v", when, may, err)
			}
			if err := send(http.MethodGet); err != nil {
				t.Errorf("%s: reads fail: %v", when, err)
			}
		}
		renew := func(holder string) {
			_ = lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
		check("before it is elected", false)
		began := time.Now()
		renew("me")
		check("as the leader", true)
		_ = send(http.MethodPatch)
		if want := began.Add(leaseDuration); !server.deadline.Equal(want) {
			t.Errorf("a write may take until %v, want %v", server.deadline, want)
		}
		time.Sleep(renewDeadline - 2*time.Second)
		check("while it can renew", true)
		time.Sleep(time.Second)
		check("when it could not renew in time", false)
		inner.err = errors.New("no answer")
		renew("me")
		check("when renewing failed", false)
		inner.err = nil
		renew("me")
		check("when it leads again", true)
		renew("")
		check("when it gave the lease back", false)
	})
}

// A lease that is given back while a write is under way is given back after that write: a successor
// must not write at the same time.
func TestReleaseWaitsForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &Lock{Interface: &lease{}}
		update := func(holder string) {
			if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}); err != nil {
				t.Error(err)
			}
		}
		update("me")
		var written time.Time
		go func() {
			slow := lock.Fence(roundTripper(func(*http.Request) (*http.Response, error) {
				time.Sleep(3 * time.Second)
				written = time.Now()
				return httptest.NewRecorder().Result(), nil
			}))
			response, err := slow.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", http.NoBody))
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
		}()
		time.Sleep(time.Second)
		update("")
		if written.IsZero() {
			t.Error("the lease was given back while a write was under way")
		}
		time.Sleep(time.Minute) // every write ends
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A reconciler waits for the lease, and what it began in one term it cannot write in another.
func TestWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock, server := &Lock{Interface: &lease{}}, &answers{}
		acquire := func(holder string, at time.Time, transitions int) {
			t.Helper()
			record := resourcelock.LeaderElectionRecord{HolderIdentity: holder, AcquireTime: metav1.NewTime(at), LeaderTransitions: transitions}
			if err := lock.Update(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		begun, resume, wrote := make(chan struct{}), make(chan struct{}), make(chan error)
		r := lock.While(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			begun <- struct{}{}
			<-resume
			response, err := lock.Fence(server).RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodPost, "/x", http.NoBody))
			if err == nil {
				err = response.Body.Close()
			}
			wrote <- err
			return reconcile.Result{}, err
		}))
		reconciled := func(between func()) error {
			go func() { _, _ = r.Reconcile(t.Context(), reconcile.Request{}) }()
			<-begun
			between()
			resume <- struct{}{}
			return <-wrote
		}
		waiting := time.Now()
		go func() {
			time.Sleep(time.Minute)
			acquire("me", waiting, 1)
		}()
		if err := reconciled(func() {}); err != nil || time.Since(waiting) < time.Minute {
			t.Errorf("it should wait until it leads, and write: %v after %s", err, time.Since(waiting))
		}
		if err := reconciled(func() { acquire("me", waiting, 1) }); err != nil {
			t.Errorf("a renewal begins no term: %v", err)
		}
		again := func() {
			acquire("", waiting, 1)
			acquire("me", time.Now(), 3)
		}
		if err := reconciled(again); !errors.Is(err, errNotLeader) {
			t.Errorf("another replica led in between: %v", err)
		}
		if err := reconciled(func() {}); err != nil {
			t.Errorf("a reconciliation of the new term may write: %v", err)
		}
		acquire("", waiting, 3)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := r.Reconcile(ctx, reconcile.Request{}); err != nil {
			t.Errorf("who waits ends with its process: %v", err)
		}
	})
}

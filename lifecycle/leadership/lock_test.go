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

	"k8s.io/client-go/tools/leaderelection/resourcelock"
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
			if err := send(http.MethodPost); (err == nil) != may || !may && !errors.Is(err, ErrDeposed) {
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
		if want := began.Add(LeaseDuration); !server.deadline.Equal(want) {
			t.Errorf("a write may take until %v, want %v", server.deadline, want)
		}
		time.Sleep(RenewDeadline - 2*time.Second)
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

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// A shutdown stops the process in two steps: first it drains, which is to serve while API servers
// turn to other replicas; then it stops.
type shutdown struct {
	// draining ends with the first signal, ctx when the process is to stop.
	draining, ctx context.Context
	cancel        context.CancelFunc
	// drain returns when a pod may stop; nil means after a delay.
	drain atomic.Pointer[func(context.Context)]
}

// shutdownOn begins a shutdown at the first signal and cuts it short at the second.
func shutdownOn(signals <-chan os.Signal, delay time.Duration) *shutdown {
	s := &shutdown{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var began context.CancelFunc
	s.draining, began = context.WithCancel(s.ctx)
	go func() {
		<-signals
		began()
		go func() {
			<-signals
			s.cancel()
		}()
		if drain := s.drain.Load(); drain != nil {
			(*drain)(s.ctx)
		} else {
			sleep(s.ctx, delay)
		}
		s.cancel()
	}()
	return s
}

// check is for readiness. A pod stays ready: Kubernetes marks it as terminating by itself, and
// proxies route to terminating pods that are ready while there are no others. Outside a cluster
// only readiness says that the process stops.
func (s *shutdown) check(*http.Request) error {
	if s.isDraining() && s.drain.Load() == nil {
		return errors.New("shutting down")
	}
	return nil
}

// isDraining reports whether the process was asked to stop.
func (s *shutdown) isDraining() bool { return s.draining.Err() != nil }

// handler makes clients of h open a new connection, to another replica, for their next request.
func (s *shutdown) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isDraining() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// sleep returns after some time, or when the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

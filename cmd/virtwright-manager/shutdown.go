package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// A shutdown is the way down: first not ready but serving, so that API servers
// turn to other replicas, then stopping.
type shutdown struct {
	// ctx ends when the process is to stop.
	ctx     context.Context
	cancel  context.CancelFunc
	leaving atomic.Bool
}

// shutdownOn begins a shutdown at the first signal and cuts it short at the second.
func shutdownOn(signals <-chan os.Signal, delay time.Duration) *shutdown {
	s := &shutdown{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go func() {
		<-signals
		s.leaving.Store(true)
		select {
		case <-signals:
		case <-time.After(delay):
		}
		s.cancel()
	}()
	return s
}

// check is for readiness.
func (s *shutdown) check(*http.Request) error {
	if s.leaving.Load() {
		return errors.New("shutting down")
	}
	return nil
}

// handler makes clients of h take a new connection, to another replica, for
// their next request.
func (s *shutdown) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

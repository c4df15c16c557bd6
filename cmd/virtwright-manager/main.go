// Command virtwright-manager serves virtwright's webhooks and runs its controllers, or one of both
// (--roles).
//
// The exit code is 0 after a graceful shutdown, 1 after an error, and 2 for invalid flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	_ "time/tzdata" // for schedules; the image has no time zones

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// memoryLimit is the environment variable with the pod's memory limit, in bytes.
const memoryLimit = "MEMORY_LIMIT"

// notHeap is the memory outside Go's heap: program, kernel, and a reserve for uncollected garbage.
const notHeap = 192 << 20

// limitMemory makes Go collect garbage before the pod's memory limit is reached.
func limitMemory() {
	if limit, err := strconv.ParseInt(os.Getenv(memoryLimit), 10, 64); err == nil && limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit-notHeap, limit/2))
	}
}

func run(args []string) int {
	o, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "virtwright-manager:", err)
		return 2
	}
	handler := o.logHandler(os.Stderr)
	slog.SetDefault(slog.New(handler)) // for the servers of the standard library
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stop := shutdownOn(signals, o.shutdownDelay)
	// A further signal ends the process immediately.
	context.AfterFunc(stop.ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	ctx := logr.NewContext(stop.ctx, log)
	limitMemory()

	switch {
	case o.selfTest:
		return exitCode(selfTest(ctx, o, os.Stdout))
	case o.retire:
		return exitCode(retire(ctx, o, os.Stdout))
	}
	if err := start(ctx, o, stop); err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "Cannot continue")
		return 1
	}
	log.Info("Stopped")
	return 0
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "virtwright-manager:", err)
		return 1
	}
	return 0
}

// A shutdown first drains (it serves until API servers use other replicas) and then stops.
type shutdown struct {
	// draining ends with the first signal, ctx when the process must stop.
	draining, ctx context.Context
	cancel        context.CancelFunc
	// drain blocks until a pod may stop; nil means after a delay.
	drain atomic.Pointer[func(context.Context)]
}

// shutdownOn starts a shutdown at the first signal and ends it at the second.
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

// check is a readiness check. A pod stays ready, because proxies route to ready terminating pods if
// there are no others. Outside a cluster the process is not ready while it stops.
func (s *shutdown) check(*http.Request) error {
	if s.isDraining() && s.drain.Load() == nil {
		return errors.New("shutting down")
	}
	return nil
}

func (s *shutdown) isDraining() bool { return s.draining.Err() != nil }

// handler makes clients open new connections, so that they use another replica.
func (s *shutdown) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isDraining() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

const (
	awaitPeriod = time.Second
	// awaitRejection bounds retries of rejections: a starting API server does not know RBAC yet.
	awaitRejection = 15 * time.Second
)

// await retries here, because Kubernetes would restart the process with growing delays.
func await(ctx context.Context, try func() error) error {
	log := logr.FromContextOrDiscard(ctx)
	began, logged := time.Now(), ""
	return wait.Backoff{Duration: awaitPeriod}.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		err := try()
		if err == nil || rejected(err) && time.Since(began) > awaitRejection {
			return true, err
		}
		if logged != err.Error() {
			logged = err.Error()
			log.Info("Waiting for an API server", "reason", logged)
		}
		return false, nil
	})
}

func rejected(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

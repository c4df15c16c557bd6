// Command virtwright-manager serves virtwright's webhooks and runs its
// controllers, together or apart (--roles).
//
// It exits with 0 after a graceful shutdown, with 1 when it cannot start or go
// on, and with 2 when its flags cannot be understood.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// memoryLimit is the variable with the pod's limit, in bytes.
const memoryLimit = "MEMORY_LIMIT"

// notHeap is what a process takes beside Go's heap, in bytes: the program itself,
// what the kernel keeps for it, and a reserve for the time until garbage is collected.
const notHeap = 192 << 20

// limitMemory has garbage collected before the pod's limit is reached.
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
	slog.SetDefault(slog.New(handler)) // which the standard library's servers log to
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stop := shutdownOn(signals, o.shutdownDelay)
	// Whoever has lost patience by then ends the process at once.
	context.AfterFunc(stop.ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	ctx := logr.NewContext(stop.ctx, log)
	limitMemory()

	switch {
	case o.selfTest:
		return once(selfTest(ctx, o, os.Stdout))
	case o.retire:
		return once(retire(ctx, o, os.Stdout))
	}
	if err := start(ctx, o, stop); err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "Cannot go on")
		return 1
	}
	log.Info("Stopped")
	return 0
}

// once is how a run to an end ends.
func once(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "virtwright-manager:", err)
		return 1
	}
	return 0
}

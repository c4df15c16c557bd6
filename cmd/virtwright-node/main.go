// Command virtwright-node is the node agent: it runs instances on its node
// through libvirt and QEMU.
//
// It exits with 0 after a shutdown, with 1 when it cannot start or go on, and
// with 2 when its flags cannot be understood. Guests run on without it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	o, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "virtwright-node:", err)
		return 2
	}
	handler := o.logHandler(os.Stderr)
	slog.SetDefault(slog.New(handler))
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(logr.NewContext(ctx, log), o); err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "Cannot go on")
		return 1
	}
	log.Info("Stopped")
	return 0
}

// Command certmanager is cert-manager's controller or its CA injector, chosen by the first
// argument, composed from the packages of cert-manager's Go module (which has no commands). It has
// the two issuers that work inside the cluster alone: self-signed and CA.
//
// It is a Go module of its own, so that cert-manager's dependencies never reach virtwright's
// go.mod.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags of cert-manager's chart that mean something here.
type options struct {
	// clusterNamespace is where the Secrets of ClusterIssuers are.
	clusterNamespace string
}

var programs = map[string]func(context.Context, options) error{
	"controller": control,
	"cainjector": inject,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(klog.Background())
	if err := run(ctx, os.Args[1:]); err != nil {
		klog.ErrorS(err, "Stopped")
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || programs[args[0]] == nil {
		return errors.New("cannot tell what to be: want controller or cainjector as the first argument")
	}
	o := options{}
	flags := pflag.NewFlagSet(args[0], pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true // the chart passes many more
	flags.StringVar(&o.clusterNamespace, "cluster-resource-namespace", "cert-manager", "namespace of the Secrets of ClusterIssuers")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("cannot read the flags: %w", err)
	}
	return programs[args[0]](ctx, o)
}

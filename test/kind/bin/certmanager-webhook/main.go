// Command certmanager-webhook is cert-manager's admission webhook.
//
// It is a Go module whose path lies below cert-manager's, as the paths of cert-manager's own
// commands do: the server is in a package that is internal to it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		klog.ErrorS(err, "Stopped")
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return fmt.Errorf("cannot set defaults: %w", err)
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("cannot read the flags: %w", err)
	}
	server, err := webhook.NewCertManagerWebhookServer(logs.Log, *config)
	if err != nil {
		return fmt.Errorf("cannot set up the webhook: %w", err)
	}
	return server.Run(logs.NewContext(ctx, logs.Log))
}

// Command standin plays scheduler and kubelet in a cluster without nodes: it takes the pods of VMIs
// through their lives without running anything (see package standin). It exits with 0 when
// interrupted, with 1 when it cannot go on, and with 2 when its flags cannot be understood.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtwright/virtwright/test/standin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

func run(ctx context.Context, args []string, output io.Writer) int {
	var kubeconfig, user string
	options := standin.Options{
		NoGuest: "this cluster simulates its node, so consoles, displays, ports and pause need another cluster, such as that of make dev-kind",
		Log:     logr.FromSlogHandler(slog.NewTextHandler(output, nil)),
	}
	ctrl.SetLogger(options.Log)
	flags := flag.NewFlagSet("standin", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the cluster")
	flags.StringVar(&user, "as", "", "user to impersonate, in group system:masters")
	flags.StringVar(&options.Node, "node", standin.DefaultNode, "name of the node to play")
	flags.StringVar(&options.Namespace, "namespace", "", "run the pods of this namespace only")
	flags.DurationVar(&options.Delays.Scheduling, "scheduling", time.Second, "how long a pod has no node")
	flags.DurationVar(&options.Delays.Scheduled, "scheduled", time.Second, "how long a guest takes to start")
	flags.DurationVar(&options.Delays.Life, "life", 10*time.Second, "how long a guest runs whose behavior is to crash or to shut down")
	flags.DurationVar(&options.Delays.Shutdown, "shutdown", 2*time.Second, "how long a guest takes to shut down when asked to")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if err := play(ctx, kubeconfig, user, options); err != nil {
		fmt.Fprintln(output, "standin:", err)
		return 1
	}
	return 0
}

func play(ctx context.Context, kubeconfig, user string, options standin.Options) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config.QPS = -1
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	}
	runtime, err := standin.Start(ctx, config, options)
	if err != nil {
		return err
	}
	options.Log.Info("Runs what comes", "node", options.Node)
	return runtime.Wait()
}

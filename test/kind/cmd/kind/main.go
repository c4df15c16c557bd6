// Command kind gives people the cluster that the stories of test/kind use.
//
//	eval "$(go run ./test/kind/cmd/kind up)"
//	kubectl get pods -A
//	go run ./test/kind/cmd/kind down
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/test/kind/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kind:", err)
		os.Exit(1)
	}
}

// action does something with a cluster while no other process does.
type action func(ctx context.Context, c *cluster.Cluster, args []string, out io.Writer) error

func newRootCommand() *cobra.Command {
	var name string
	root := &cobra.Command{
		Use:           "kind",
		Short:         "Run a Kubernetes cluster on this machine with kind, from Go modules and Debian packages",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&name, "name", "virtwright", "name of the cluster; several may run")
	add := func(use, short string, args cobra.PositionalArgs, do action) {
		root.AddCommand(&cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cluster.Open(name, os.Stderr)
			if err != nil {
				return err
			}
			unlock, err := c.Lock(cmd.Context())
			if err != nil {
				return err
			}
			defer unlock()
			return do(cmd.Context(), c, args, cmd.OutOrStdout())
		}})
	}
	add("build", "Build all that a cluster needs, unless it is cached", cobra.NoArgs, build)
	add("up", "Make the cluster and print the shell commands that point kubectl and helm at it", cobra.NoArgs, up)
	add("cert-manager", "Install cert-manager by its own chart", cobra.NoArgs, certManager)
	add("load ARCHIVE...", "Put the images of archives (make image) into the node", cobra.MinimumNArgs(1), load)
	add("env", "Print the shell commands that point kubectl and helm at the cluster", cobra.NoArgs, env)
	add("host", "Print the address under which the node reaches this machine", cobra.NoArgs, host)
	add("down", "Delete the cluster and stop its daemon; the cache stays", cobra.NoArgs, down)
	return root
}

func build(ctx context.Context, c *cluster.Cluster, _ []string, out io.Writer) error {
	image, err := c.Build(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, image)
	return nil
}

func up(ctx context.Context, c *cluster.Cluster, args []string, out io.Writer) error {
	if err := c.Up(ctx); err != nil {
		return err
	}
	return env(ctx, c, args, out)
}

func certManager(ctx context.Context, c *cluster.Cluster, _ []string, _ io.Writer) error {
	return c.InstallCertManager(ctx)
}

func load(ctx context.Context, c *cluster.Cluster, archives []string, _ io.Writer) error {
	return c.Load(ctx, archives...)
}

func env(ctx context.Context, c *cluster.Cluster, _ []string, out io.Writer) error {
	tools, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG='%s'\nexport PATH='%s':\"$PATH\"\n", c.Kubeconfig(), tools)
	return nil
}

func host(ctx context.Context, c *cluster.Cluster, _ []string, out io.Writer) error {
	address, err := c.Host(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, address)
	return nil
}

func down(ctx context.Context, c *cluster.Cluster, _ []string, _ io.Writer) error {
	return c.Down(ctx)
}

// Command controlplane gives people the control plane that the tests use.
//
//	eval "$(go run ./test/controlplane/cmd/controlplane start)"
//	kubectl get namespaces        # or: ... controlplane kubectl get namespaces
//	go run ./test/controlplane/cmd/controlplane stop
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/test/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	in := &instance{}
	root := &cobra.Command{
		Use:              "controlplane",
		Short:            "Run a Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager) on this machine",
		SilenceUsage:     true,
		SilenceErrors:    true,
		TraverseChildren: true, // --name before kubectl is ours, what follows is kubectl's
		Args:             cobra.NoArgs,
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return in.locate()
		},
	}
	root.PersistentFlags().StringVar(&in.name, "name", "default", "name of the control plane; several may run")
	root.AddCommand(startCommand(in), runCommand(in), stopCommand(in), kubeconfigCommand(in), buildCommand(), freePortsCommand(), kubectlCommand(in))
	return root
}

func startCommand(in *instance) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start in the background and print the shell command that points kubectl at it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.start(cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG='%s'\n", in.kubeconfig())
			return nil
		},
	}
	cmd.Flags().BoolVar(&in.isNew, "new", false, "fail if a control plane of this name runs already")
	in.addRunFlags(cmd)
	return cmd
}

func runCommand(in *instance) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run in the foreground until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return in.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	in.addRunFlags(cmd)
	return cmd
}

func stopCommand(in *instance) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop what start started and delete its data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return in.stop(cmd.Context()) },
	}
}

func kubeconfigCommand(in *instance) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := in.mustRun(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), in.kubeconfig())
			return nil
		},
	}
}

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the programs unless they are cached, and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := controlplane.Assets(cmd.Context(), os.Stderr)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
}

func freePortsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "free-ports N",
		Short: "Print N ports of the loopback address that are free, one a line",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("cannot read %q as a number of ports", args[0])
			}
			for range n {
				port, err := controlplane.FreePort()
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), port)
			}
			return nil
		},
	}
}

func kubectlCommand(in *instance) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ARGUMENTS...",
		Short:              "Run kubectl against the control plane",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := in.mustRun(); err != nil {
				return err
			}
			assets, err := controlplane.Assets(cmd.Context(), os.Stderr)
			if err != nil {
				return err
			}
			path, err := controlplane.KubectlPath(assets)
			if err != nil {
				return err
			}
			env := append(os.Environ(), controlplane.KubectlEnv(in.dir)...)
			if err := syscall.Exec(path, append([]string{"kubectl"}, args...), env); err != nil {
				return fmt.Errorf("cannot run kubectl: %w", err)
			}
			return nil
		},
	}
}

// locate finds the data folder of the named control plane.
func (in *instance) locate() error {
	if in.name == "" || in.name != filepath.Base(in.name) || in.name[0] == '.' {
		return fmt.Errorf("cannot use %q as a name: want a plain word", in.name)
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return err
	}
	in.dir = filepath.Join(cache, "run", in.name)
	return nil
}

// Command virtwright-launcher runs the guest of one VMI in the VMI's pod. It also has the commands
// that the kubelet and the manager run in the pod.
//
//	run      runs the guest; exits with 0 if the guest shut down, or else with 1
//	control  connects the manager to the guest
//	probe    answers the kubelet: started, ready, guest-agent, or exec -- COMMAND
//	copy     copies files from the image of a container disk
//	bind     does nothing: its pod is the first consumer of volumes
//
// It exits with 2 when its arguments are invalid.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher"
)

func main() {
	code, err := run(os.Args[1:], os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "virtwright:", err)
	}
	os.Exit(code)
}

// invalid is the exit code of invalid arguments.
const invalid = 2

func run(args []string, stderr io.Writer) (int, error) {
	if len(args) == 0 {
		return invalid, errors.New("expected a command: run, control, probe, copy or bind")
	}
	commands := map[string]func([]string, io.Writer) (int, error){"run": runGuest, "control": control, "probe": probe, "copy": copyFiles, "bind": bind}
	command, known := commands[args[0]]
	if !known {
		return invalid, fmt.Errorf("unknown command %q: expected run, control, probe, copy or bind", args[0])
	}
	return command(args[1:], stderr)
}

func bind([]string, io.Writer) (int, error) { return 0, nil }

// result returns the exit code of an error.
func result(err error) (int, error) {
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// runGuest runs this program again as a child of a process that reaps orphans.
func runGuest(args []string, stderr io.Writer) (int, error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(stderr)
	message := flags.String("termination-log", "/dev/termination-log", "file of the termination message")
	reaped := flags.Bool("reaped", false, "run the guest in this process; used by run itself")
	if err := flags.Parse(args); err != nil {
		return invalid, err
	}
	if !*reaped {
		self, err := os.Executable()
		if err != nil {
			return 1, err
		}
		child := exec.Command(self, append([]string{"run", "--reaped"}, args...)...)
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		code, err := launcher.Reap(child)
		if err != nil { // the child could not say how the guest ended
			end := v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed, Message: err.Error()}
			err = errors.Join(err, os.WriteFile(*message, launcher.TerminationMessage(end), 0o644))
		}
		return code, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	end := launcher.Run(ctx, os.Getenv(v1alpha1.EnvLauncherInput), os.Stdout)
	fmt.Fprintf(os.Stderr, "virtwright: %s: %s\n", end.Reason, end.Message)
	err := os.WriteFile(*message, launcher.TerminationMessage(end), 0o644)
	if err != nil || end.Reason != v1alpha1.GuestShutdown && end.Reason != v1alpha1.GuestStopped {
		return 1, err
	}
	return 0, nil
}

func control([]string, io.Writer) (int, error) { return result(launcher.Control(os.Stdin, os.Stdout)) }

func probe(args []string, stderr io.Writer) (int, error) {
	if len(args) == 0 {
		return invalid, errors.New("expected a probe: started, ready, guest-agent or exec")
	}
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	timeout := flags.Int("timeout", 1, "timeout of the guest's agent in seconds")
	if err := flags.Parse(args[1:]); err != nil {
		return invalid, err
	}
	p := &launcher.Probe{Kind: launcher.ProbeKind(args[0]), Command: flags.Args(), Timeout: int32(*timeout)}
	return result(p.Run())
}

// copyFiles copies each --from to the --to that follows it.
func copyFiles(args []string, stderr io.Writer) (int, error) {
	var from, to []string
	flags := flag.NewFlagSet("copy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	add := func(list *[]string) func(string) error {
		return func(path string) error { *list = append(*list, path); return nil }
	}
	flags.Func("from", "file, or folder with one file; can be repeated", add(&from))
	flags.Func("to", "file; one for each --from", add(&to))
	if err := flags.Parse(args); err != nil {
		return invalid, err
	}
	if len(from) == 0 || len(from) != len(to) || flags.NArg() > 0 {
		return invalid, errors.New("expected as many --from as --to")
	}
	for i := range from {
		if err := launcher.Copy(from[i], to[i]); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

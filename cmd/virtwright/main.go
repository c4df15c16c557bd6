// Command virtwright shows, without a cluster, what virtwright makes of sparse
// virtual machines: it expands them, explains every field and says what would be
// refused. In a cluster it starts, stops and restarts them. Installed as
// kubectl-virtwright it is a plugin of kubectl.
//
// It exits with 0 when all is fine, with 1 when an object, a preset or a request
// is refused, with 2 for wrong usage, input that cannot be read and a cluster that
// cannot be reached, with 3 when a wait ended too early, and with 4 when a plan would refuse VMs or
// make presets conflict.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

// Exit codes.
const (
	exitFine    = 0
	exitRefused = 1
	exitUsage   = 2
	exitWaited  = 3
	exitPlan    = 4
)

func main() {
	os.Exit(run(context.Background(), os.Args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are where input comes from and output goes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run runs the program; args begin with its name.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(args[0], s)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	var printed told
	if err != nil && !errors.As(err, &printed) && !errors.Is(err, errPlanFails) {
		fmt.Fprintf(s.err, "%s %v\n", styleOf(s.err).paint(red, "Error:"), printable(err.Error()))
	}
	return exitCode(err)
}

// told is an error that the command has printed.
type told struct{ error }

// Unwrap returns the error.
func (t told) Unwrap() error { return t.error }

// errTold is the error of a command that has printed what is refused, and why.
var errTold = told{declined{errors.New("something is refused")}}

// exitCode is 1 only where everything could be read and some of it is refused.
func exitCode(err error) int {
	var refusal *offline.Refusal
	var no declined
	var never unfinished
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &refusal), errors.As(err, &no):
		return exitRefused
	case errors.As(err, &never):
		return exitWaited
	case errors.Is(err, errPlanFails):
		return exitPlan
	}
	return exitUsage
}

// Command virtwright expands VMs, explains the origin of each field and validates VMs, without a
// cluster. In a cluster, it starts, stops and restarts VMs. Installed as kubectl-virtwright, it is
// a plugin of kubectl.
//
// Exit codes: 0 success; 1 an object, a preset or a request is rejected, or a test case failed; 2
// wrong usage, unreadable input or an unreachable cluster; 3 a wait ended early; 4 a plan would
// reject VMs, cause conflicts between presets or, if asked, loosen presets.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground/site"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/version"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate"
)

const (
	exitFine     = 0
	exitRejected = 1
	exitUsage    = 2
	exitWaited   = 3
	exitPlan     = 4
)

func main() {
	escapeLogs()
	os.Exit(run(context.Background(), os.Args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

type streams struct {
	in       io.Reader
	out, err io.Writer
}

func run(ctx context.Context, args []string, s streams) int {
	s.out, s.err = &terminalWriter{to: s.out}, &terminalWriter{to: s.err}
	root := newRoot(args[0], s)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if exit, ok := errors.AsType[exitError](err); err != nil && (!ok || !exit.printed) {
		fmt.Fprintf(s.err, "%s %v\n", styleOf(s.err).paint(red, "Error:"), err)
	}
	return exitCode(err)
}

// exitError is an error with an exit code of the program.
type exitError struct {
	error
	code int
	// printed is true if the command has printed the error.
	printed bool
}

// Unwrap returns the error.
func (e exitError) Unwrap() error { return e.error }

// errPrinted ends a command that has printed why objects are rejected.
var errPrinted = exitError{errors.New("something is rejected"), exitRejected, true}

func declined(err error) error { return exitError{error: err, code: exitRejected} }

// unfinished marks the error of a wait that ended early, after the request was accepted.
func unfinished(err error) error { return exitError{error: err, code: exitWaited} }

func exitCode(err error) int {
	if err == nil {
		return exitFine
	}
	if _, ok := errors.AsType[*simulate.Rejection](err); ok {
		return exitRejected
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	return exitUsage
}

const (
	program = "virtwright"
	plugin  = "kubectl-virtwright"
)

const (
	groupOffline   = "offline"
	groupCluster   = "cluster"
	groupTemplates = "templates"
)

func newRoot(name string, s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           program,
		Short:         "Complete virtual machines from presets, and run them",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommands,
		Version:       version.Current().String(),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	shown := program
	if strings.TrimSuffix(filepath.Base(name), ".exe") == plugin {
		root.Use, shown = plugin, "kubectl virtwright"
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: shown}
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// Usage errors of a flag are less helpful if the command does not exist.
		if wrong := subcommands(c, c.Flags().Args()); !c.HasParent() && wrong != nil {
			return wrong
		}
		return flagError(c, err)
	})
	setHelp(root, s)
	root.SetVersionTemplate("{{.Version}}\n")
	logging := flag.NewFlagSet(program, flag.ContinueOnError)
	klog.InitFlags(logging)
	root.PersistentFlags().AddGoFlag(logging.Lookup("v"))
	root.AddGroup(&cobra.Group{ID: groupOffline, Title: "For files, a cluster or both:"}, &cobra.Group{ID: groupCluster, Title: "In a cluster:"},
		&cobra.Group{ID: groupTemplates, Title: "Templates:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupOffline, newExpand(shown, s), newSparsify(shown, s), newLearn(shown, s), newAdopt(shown, s), newExplain(shown, s), newValidate(shown, s), newLint(shown, s), newTest(shown, s), newPlan(shown, s), newDrift(shown, s), newViolations(shown, s), newExceptions(shown, s), newRender(shown, s), newPlayground(shown, s, site.Files()), newImport(shown, s))
	add(groupCluster, newPower(verbStart, shown, s), newPower(verbStop, shown, s), newPower(verbRestart, shown, s),
		newPower("pause", shown, s), newPower("unpause", shown, s), newPower("reset", shown, s), newPower("softreboot", shown, s),
		newConsole(shown, s), newVNC(shown, s), newHistory(shown, s), newReapply(shown, s), newRollout(shown, s))
	add(groupTemplates, newTemplate(shown, s))
	root.AddCommand(newVersion(shown, s))
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = topic
		}
	}
	return root
}

// flagError adds the flag that a misspelt one resembles, and omits names of Go functions.
func flagError(c *cobra.Command, err error) error {
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		err = errors.New(strings.ReplaceAll(err.Error(), number.Error(), number.Err.Error()))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, longer, names := unknown.GetSpecifiedName(), "", map[string]bool{}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if names[f.Name] = !f.Hidden; !f.Hidden && longer == "" && strings.HasPrefix(f.Name, name) {
				longer = f.Name
			}
		})
		if near := cmp.Or(spelling.Nearest(name, maps.Keys(names)), longer); near != "" && name != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return fmt.Errorf("%w (see %s --help)", err, c.CommandPath())
}

func subcommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = min(2, len(args[0])/3)
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("unknown command %q (see %s --help)", args[0], c.CommandPath())
}

func topic(c *cobra.Command, args []string) error {
	found, rest, _ := c.Root().Find(args) // rest has the unknown names
	return subcommands(found, rest)
}

// flagsForFiles rejects arguments of commands that read files by flags.
func flagsForFiles(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s: use -f for each file, or -f with their folder", args[0])
}

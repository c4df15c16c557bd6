package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

const (
	program = "virtwright"
	plugin  = "kubectl-virtwright"
)

const rootHelp = `Make sparse virtual machines whole, say where each field came from and what would be
refused: for files, for a cluster or for both, with the engine and the rules that run in the
cluster. Start, stop, restart
and reset virtual machines in a cluster. Make templates of virtual machines, offline or in a
cluster, and virtual machines of templates.

Exit codes:
  0  all is fine (warnings do not count)
  1  something is refused: an object or a preset, as a cluster would refuse it, or a request to a cluster
  2  wrong usage, input that cannot be read, or a cluster that cannot be reached
  3  a wait ended before the VM or the template was ready
  4  plan: a VM would be refused, or presets would conflict (1 is any other change)`

// The groups of commands.
const (
	groupOffline   = "offline"
	groupCluster   = "cluster"
	groupTemplates = "templates"
)

// newRoot returns the command as it is called under a name.
func newRoot(name string, s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           program,
		Short:         "Make sparse virtual machines whole, and run them",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommands,
		Version:       versionLine(buildInfo()),
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
		// The flags are those of a command that does not exist.
		if wrong := subcommands(c, c.Flags().Args()); !c.HasParent() && wrong != nil {
			return wrong
		}
		return fmt.Errorf("%w (see %s --help)", err, c.CommandPath())
	})
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
	add(groupOffline, newExpand(shown, s), newExplain(shown, s), newValidate(shown, s), newLint(shown, s), newPlan(shown, s), newExceptions(shown, s), newRender(shown, s))
	add(groupCluster, newPower(verbStart, shown, s), newPower(verbStop, shown, s), newPower(verbRestart, shown, s),
		newPower("reset", shown, s), newPower("softreboot", shown, s), newReapply(shown, s))
	add(groupTemplates, newTemplate(shown, s))
	root.AddCommand(newVersion(s))
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = topic
		}
	}
	return root
}

// subcommands refuses arguments of a command that has commands of its own, and names the
// nearest of them.
func subcommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("unknown command %q (see %s --help)", args[0], c.CommandPath())
}

// topic takes the path of a command.
func topic(c *cobra.Command, args []string) error {
	found, rest, _ := c.Root().Find(args) // what is not found is in rest
	return subcommands(found, rest)
}

// flagsForFiles refuses arguments of a command that takes files by flags.
func flagsForFiles(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s: give each file its own -f", args[0])
}

// oneName takes the name of one machine.
func oneName(verb string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("cannot %s %d machines: name one", verb, len(args))
		}
		return nil
	}
}

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprintln(s.out, versionLine(buildInfo()))
		},
	}
}

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// versionLine says of which source the program was built.
func versionLine(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	words := []string{program, version}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			words = append(words, setting.Value)
		case setting.Key == "vcs.modified" && setting.Value == "true":
			words = append(words, "modified")
		}
	}
	return strings.TrimSpace(strings.Join(append(words, info.GoVersion), " "))
}

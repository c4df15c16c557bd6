package main

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

const (
	program = "virtwright"
	plugin  = "kubectl-virtwright"
)

const rootHelp = `Make sparse virtual machines whole, say where each field came from and what would be
refused: offline, with the engine and the rules that run in the cluster. Start, stop, restart
and reset virtual machines in a cluster. Make templates of virtual machines, offline or in a
cluster, and virtual machines of templates.

Exit codes:
  0  all is fine (warnings do not count)
  1  an object or a preset is refused, as a cluster would refuse it; a cluster refuses a request
  2  wrong usage, input that cannot be read, or a cluster that cannot be asked
  3  a machine did not get in time where it was waited for, or a template was not there in time`

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
		Args:          cobra.NoArgs,
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
		if wrong := cobra.NoArgs(c, c.Flags().Args()); !c.HasParent() && wrong != nil {
			err = wrong
		}
		return fmt.Errorf("%w (see %s --help)", err, c.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: groupOffline, Title: "Offline:"}, &cobra.Group{ID: groupCluster, Title: "In a cluster:"},
		&cobra.Group{ID: groupTemplates, Title: "Templates:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupOffline, newExpand(shown, s), newExplain(shown, s), newValidate(shown, s), newRender(shown, s))
	add(groupCluster, newStart(shown, s), newStop(shown, s), newRestart(shown, s), newReset(shown, s), newSoftReboot(shown, s))
	add(groupTemplates, newTemplate(shown, s))
	root.AddCommand(newVersion(s))
	return root
}

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			fmt.Fprintln(s.out, versionLine(info))
		},
	}
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

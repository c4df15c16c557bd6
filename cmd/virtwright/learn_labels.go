package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/fleet/learn"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
)

// printProposals prints a script of commands that label VMs.
func printProposals(s streams, of *simulate.LearnReport) error {
	if len(of.Proposals) == 0 {
		note(s, []string{"no label would help presets to save more: none is proposed"})
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# With these labels, VMs and presets together need %s fewer, labels included. Rename the\n"+
		"# labels as you like, and write them into the manifests of the VMs too, if you keep these elsewhere.\n", counted(of.MoreSaved, "field"))
	for _, p := range of.Proposals {
		fmt.Fprintf(&text, "\n# %s have in common:\n", counted(len(p.VMs), "VM"))
		for _, field := range p.Fields {
			fmt.Fprintf(&text, "#   %s\n", presets.EscapeLine(field))
		}
		for _, command := range labelCommands(p) {
			fmt.Fprintf(&text, "%s\n", presets.EscapeLine(command))
		}
	}
	_, err := io.WriteString(s.out, text.String())
	return err
}

// labelCommands returns a command for each kind and namespace.
func labelCommands(p learn.Proposal) (out []string) {
	names := map[string][]string{}
	for _, m := range p.VMs {
		command := "kubectl label " + strings.ToLower(string(m.Kind)) + "s.kubevirt.io"
		if m.Namespace.Name != "" {
			command += " -n " + shellQuoted(m.Namespace.Name)
		}
		names[command] = append(names[command], shellQuoted(m.Name))
	}
	for command, of := range names {
		slices.Sort(of)
		out = append(out, command+" "+strings.Join(of, " ")+" "+p.Label+"=true")
	}
	slices.Sort(out)
	return out
}

package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/virtwright/virtwright/validation"
)

const rootHelp = `virtwright completes sparse KubeVirt VMs from presets, shows where every field came from, and
validates VMs with the engine and the rules of the cluster. It also starts, stops and connects to
the VMs of a cluster, and makes templates.`

const exitCodes = `
Exit codes:
  0  success; warnings do not count
  1  the cluster would reject an object or a preset, the cluster rejected a request, a test case
     failed, or the coverage is below --coverage-threshold; plan, lint, drift, violations and import:
     there is something to report
  2  wrong usage, unreadable input, or an unreachable cluster
  3  a wait ended before the VM or the template was ready
  4  plan: a VM would be rejected, or presets would conflict; with --fail-on loosening, also if a
     change loosens
`

// commonFlags come first in help, in this order. The flags of one command follow.
var commonFlags = []string{"filename", "kustomize", "recursive", "namespace", "all-namespaces", "selector", "all", "output"}

// A flagGroup is a part of the flags in help.
type flagGroup struct {
	title string
	names []string
}

// flagGroups are the groups after the flags of the command.
func flagGroups() []flagGroup {
	settings := []string{
		"mode", "namespace-labels", "preset-conflicts",
		"default-architecture", "default-cpu-model", "default-eviction-strategy", "default-network-interface",
	}
	for _, s := range validation.Settings() {
		settings = append(settings, s.Name)
	}
	return []flagGroup{
		{"Settings of the cluster", settings},
		{"Access to the cluster", []string{"live", "context", "kubeconfig", "as"}},
		{"Global flags", []string{"help", "version", "v"}},
	}
}

// registerHelp changes settings that all commands of the process share.
var registerHelp = sync.OnceFunc(func() {
	cobra.EnableCommandSorting = false // the groups of the root have the common commands first
	cobra.AddTemplateFunc("flagGroups", flagUsages)
	cobra.AddTemplateFunc("wrapped", func(columns int, text string) string { return wrapText(text, columns) })
})

// setHelp groups the flags of all commands, and prints the exit codes after the other help.
func setHelp(root *cobra.Command, s streams) {
	registerHelp()
	columns := columnsOf(s)
	template := root.UsageTemplate()
	before, rest, _ := strings.Cut(template, "{{if .HasAvailableLocalFlags}}")
	_, after, _ := strings.Cut(rest, "{{if .HasHelpSubCommands}}")
	root.SetUsageTemplate(before + fmt.Sprintf("{{flagGroups . %d}}", columns) + "{{if .HasHelpSubCommands}}" + after)
	help := strings.Replace(root.HelpTemplate(), "trimTrailingWhitespaces", fmt.Sprintf("wrapped %d", columns), 1)
	root.SetHelpTemplate(help + "{{if not .HasParent}}" + exitCodes + "{{end}}")
}

// flagUsages returns the help of flags in groups, with lines that end at words.
func flagUsages(c *cobra.Command, columns int) string {
	groups := append([]flagGroup{{"Flags", nil}}, flagGroups()...)
	sets := map[string]*pflag.FlagSet{}
	add := func(f *pflag.Flag) {
		i := max(0, slices.IndexFunc(groups, func(g flagGroup) bool { return slices.Contains(g.names, f.Name) }))
		title := groups[i].title
		if sets[title] == nil {
			sets[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sets[title].SortFlags = false
		}
		if sets[title].Lookup(f.Name) == nil {
			sets[title].AddFlag(f)
		}
	}
	c.LocalFlags() // adds the flag help
	names := commonFlags
	for _, g := range groups {
		names = slices.Concat(names, g.names)
	}
	for _, name := range names {
		if f := c.Flags().Lookup(name); f != nil {
			add(f)
		}
	}
	c.Flags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	var out strings.Builder
	for _, g := range groups {
		if set := sets[g.title]; set != nil && set.HasAvailableFlags() {
			out.WriteString("\n\n" + g.title + ":\n" + strings.TrimRight(set.FlagUsagesWrapped(columns), "\n"))
		}
	}
	return out.String()
}

var withinParagraph = regexp.MustCompile(`(\S)\n(\S)`)

// wrapText breaks paragraphs into lines of columns, at most tableWidth. It keeps the indentation of
// other lines.
func wrapText(text string, columns int) string {
	columns = min(columns, tableWidth)
	var out strings.Builder
	for line := range strings.Lines(withinParagraph.ReplaceAllString(text, "$1 $2")) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		for _, words := range wrapWords(strings.Fields(line), columns-len(indent)) {
			out.WriteString(indent + strings.Join(words, " ") + "\n")
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

// wrapWords breaks words into lines. A last line of one word gets the word before it, too, if both
// fit.
func wrapWords(words []string, columns int) [][]string {
	lines, used := [][]string{nil}, 0
	for _, word := range words {
		if used > 0 && used+1+width(word) > columns {
			lines, used = append(lines, nil), 0
		}
		last := len(lines) - 1
		used += min(used, 1) + width(word)
		lines[last] = append(lines[last], word)
	}
	end := len(lines) - 1
	if end == 0 || len(lines[end]) > 1 || len(lines[end-1]) <= 2 {
		return lines
	}
	before, moved := lines[end-1], len(lines[end-1])-1
	if width(before[moved])+1+width(lines[end][0]) <= columns {
		lines[end-1], lines[end] = before[:moved], []string{before[moved], lines[end][0]}
	}
	return lines
}

// columnsOf returns the width of the terminal; 100 if standard output is none.
func columnsOf(s streams) int {
	columns := 0
	if file, ok := raw(s.out).(*os.File); ok {
		columns, _, _ = term.GetSize(int(file.Fd())) //nolint:gosec // file descriptors are small
	}
	return cmp.Or(columns, tableWidth)
}

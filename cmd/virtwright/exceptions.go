package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/simulate"
)

const exceptionsHelp = `List the PresetExceptions of a cluster, of files, or of both.

With --propose, print the exceptions that existing VMs need before the presets of -f are enforced. A
VM needs an exception from a preset if, after a reapply, the preset would reject the VM or overrule
a value of its author. Presets in mode Warn and Audit are treated as Enforce. All VMs of the
namespaces are checked, so -l cannot be used.

There is one exception for each namespace and preset. It selects its VMs by a label whose value is
the name of the VM, or else by the smallest set of labels that no other VM has. A comment then says
that later VMs with these labels are exempt too. If there are no such labels, a comment shows a
command that adds one. Each exception expires after 90 days. Review the output before you apply it,
and replace the reason.`

const exceptionsExamples = `  # All exceptions of a cluster
  {{program}} exceptions -A

  # The exceptions that VMs need before a preset is enforced
  {{program}} exceptions --propose -f secure-boot.yaml -A > exceptions.yaml`

type exceptionsCommand struct {
	settings
	propose bool
}

func newExceptions(shown string, s streams) *cobra.Command {
	o := &exceptionsCommand{settings: settings{without: slices.Concat(flagsForReapply, flagsOfDefaults)}}
	c := &cobra.Command{
		Use:   "exceptions [-f FILE...] [-A] [--propose]",
		Short: "List exceptions from presets, or propose exceptions for existing VMs", Long: exceptionsHelp,
		Example: exceptionsExamples, Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"table", "json"}, func(ctx context.Context, _ []string) error {
		if o.propose {
			return o.runProposal(ctx, s)
		}
		return o.list(ctx, s)
	}, o.checkProposal)
	o.declareRuleFlags(c)
	c.Flags().BoolVar(&o.propose, "propose", false, "print the exceptions that existing VMs need before the presets of -f are enforced")
	return c
}

func (o *exceptionsCommand) checkProposal(c *cobra.Command) error {
	o.filesOnly, o.presetsOnly, o.presetsOptional = !o.propose, !o.propose, !o.propose
	o.forceLive = o.forceLive || o.propose && c.Flags().Changed("namespace")
	switch {
	case !o.propose:
		o.required = []string{v1alpha1.ResourcePresetExceptions}
		return nil
	case len(o.files) == 0 && o.kustomize == "":
		return errors.New("-f is required: name files or folders with the presets to be enforced")
	case o.selector != "":
		return errors.New("--propose and -l are mutually exclusive: labels must distinguish these VMs from all others")
	case c.Flags().Changed("output"):
		return errors.New("--propose and -o are mutually exclusive: exceptions are printed as YAML")
	}
	return nil
}

func (o *exceptionsCommand) list(ctx context.Context, s streams) error {
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	all, err := simulate.Exceptions(ctx, objects, known)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return printJSON(s.out, all)
	}
	if len(all) == 0 {
		note(s, []string{"no PresetException in " + o.described(nil)})
		return nil
	}
	var rows [][]string
	for _, e := range all {
		vms, until, used := "<unknown>", "<none>", "<unknown>"
		if e.VMs != nil {
			vms = strconv.FormatInt(*e.VMs, 10)
		}
		if e.Until != nil {
			until = e.Until.UTC().Format(time.RFC3339)
		}
		if e.Expired {
			until += " (expired)"
		}
		if e.LastUsed != nil {
			used = duration.HumanDuration(time.Since(*e.LastUsed)) + " ago"
		}
		rows = append(rows, []string{e.Namespace, e.Name, strings.Join(e.Presets, ","), vms, until, used, strings.Join(strings.Fields(e.Reason), " ")})
	}
	return printTable(s.out, []string{"NAMESPACE", "NAME", "PRESETS", "VMS", "UNTIL", "LAST-USED", "REASON"}, rows)
}

func (o *exceptionsCommand) runProposal(ctx context.Context, s streams) error {
	files, cluster, err := o.sources(ctx, s, nil)
	if err != nil {
		return err
	}
	known, err := o.clusterSettings(s, nil)
	if err != nil {
		return err
	}
	if !o.live(nil) && !simulate.NewSurvey(files, o.namespace).VMs {
		return errors.New("no VM in -f: use -A or -n to read the VMs of a cluster")
	}
	proposed, notes, err := simulate.Propose(ctx, files, cluster, known)
	if err != nil {
		return err
	}
	note(s, notes)
	if len(proposed) == 0 {
		note(s, []string{"no VM needs an exception from these presets"})
	}
	for _, p := range proposed {
		if err := printProposal(s, p); err != nil {
			return fmt.Errorf("cannot print the exceptions: %w", err)
		}
	}
	return nil
}

func printProposal(s streams, p simulate.Proposal) error {
	e := p.Exception
	object := map[string]any{
		"apiVersion": e.APIVersion, "kind": e.Kind, "metadata": map[string]any{"namespace": e.Namespace, "name": e.Name}, "spec": e.Spec,
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	comment := fmt.Sprintf("# %s: %s\n", counted(len(p.VMs), "VM"), strings.Join(p.VMs, " "))
	if p.Shared {
		comment += "# VMs that are created later with these labels are exempt too. To exempt only the VMs above,\n" +
			"# run this command, and select only its label in vmSelector:\n"
	}
	if p.Label || p.Shared {
		comment += fmt.Sprintf("# kubectl label vm --namespace %s %s %s=%s\n", e.Namespace, strings.Join(p.VMs, " "), simulate.LabelException, p.LabelValue())
	}
	_, err = fmt.Fprintf(s.out, "---\n%s%s", comment, text)
	return err
}

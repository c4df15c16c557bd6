package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const exceptionsHelp = `List PresetExceptions, of a cluster, of files, or both.

With --propose, write the exceptions that existing VMs need before the presets of -f are enforced.
A VM needs an exception from a preset that would refuse it, or overrule a value of its author, after
a reapply. Presets in mode Warn and Audit are judged as if their mode were Enforce. All VMs of the
namespaces are looked at, so -l cannot be used.

There is one exception for each namespace and preset. It selects its VMs by the fewest labels that
only they have. If there are none, a comment shows the command that labels them. Each exception ends
after 90 days. Read the output before you apply it, and say why each VM may deviate.`

const exceptionsExamples = `  # All exceptions of a cluster
  {{program}} exceptions -A

  # What is needed before a preset in mode Audit is enforced
  {{program}} exceptions --propose -f secure-boot.yaml -A > exceptions.yaml`

// exceptional are the flags of exceptions.
type exceptional struct {
	settings
	propose bool
}

func newExceptions(shown string, s streams) *cobra.Command {
	outputs := []string{"table", "json"}
	o := &exceptional{}
	c := &cobra.Command{
		Use:     "exceptions [-f FILE...] [-A] [--propose]",
		Short:   "List exceptions from presets, or propose those that VMs need",
		Long:    exceptionsHelp,
		Example: strings.ReplaceAll(exceptionsExamples, "{{program}}", shown),
		Args:    flagsForFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(c, nil, outputs...), o.checkProposal(c)); err != nil {
				return err
			}
			if o.propose {
				return o.runProposal(c.Context(), s)
			}
			return o.list(c.Context(), s)
		},
	}
	o.declare(c, outputs...)
	o.declareRules(c)
	c.Flags().BoolVar(&o.propose, "propose", false, "write the exceptions, as YAML, that existing VMs need before the presets of -f are enforced")
	return c
}

// checkProposal reports flags that exclude each other, and chooses what is read of a cluster.
func (o *exceptional) checkProposal(c *cobra.Command) error {
	o.filesOnly, o.presetsOnly = !o.propose, !o.propose
	o.forceLive = o.forceLive || c.Flags().Changed("namespace")
	switch {
	case !o.propose:
		return nil
	case len(o.files) == 0 && o.kustomize == "":
		return errors.New("-f is missing: name files or folders with the presets that are to be enforced")
	case o.selector != "":
		return errors.New("--propose and -l exclude each other: labels must tell these VMs from all others")
	case c.Flags().Changed("output"):
		return errors.New("--propose and -o exclude each other: exceptions are written as YAML")
	}
	return nil
}

func (o *exceptional) list(ctx context.Context, s streams) error {
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	all, err := offline.Exceptions(ctx, objects, known)
	if err != nil {
		return err
	}
	if o.output == "json" {
		text, err := indented(all)
		if err == nil {
			_, err = fmt.Fprint(s.out, text)
		}
		return err
	}
	if len(all) == 0 {
		note(s, []string{"there is no exception in " + o.described(nil)})
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tNAME\tPRESETS\tVMS\tUNTIL\tLAST-USED\tREASON")
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Namespace, e.Name, strings.Join(e.Presets, ","), vms, until, used, strings.Join(strings.Fields(e.Reason), " "))
	}
	return w.Flush()
}

func (o *exceptional) runProposal(ctx context.Context, s streams) error {
	files, cluster, err := o.sources(ctx, s, nil)
	if err != nil {
		return err
	}
	known, err := o.known(s, nil)
	if err != nil {
		return err
	}
	if !o.live(nil) && !offline.NewSurvey(files, o.namespace).VMs {
		return errors.New("-f has no VM: read those of a cluster with -A or -n")
	}
	proposed, notes, err := offline.Propose(ctx, files, cluster, known)
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

// printProposal prints a manifest, with the command that it needs.
func printProposal(s streams, p offline.Proposal) error {
	e := p.Exception
	object := map[string]any{
		"apiVersion": e.APIVersion, "kind": e.Kind, "metadata": map[string]any{"namespace": e.Namespace, "name": e.Name}, "spec": e.Spec,
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	comment := fmt.Sprintf("# %s: %s\n", counts(len(p.VMs)), strings.Join(p.VMs, " "))
	if p.Label {
		comment += fmt.Sprintf("# kubectl label vm --namespace %s %s %s=%s\n", e.Namespace, strings.Join(p.VMs, " "),
			offline.LabelException, e.Spec.VMSelector.MatchLabels[offline.LabelException])
	}
	_, err = fmt.Fprintf(s.out, "---\n%s%s", comment, text)
	return err
}

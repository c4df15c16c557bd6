package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

const explainHelp = `Say of every field of a virtual machine where it came from and what it beat, and of every
preset what it did, or why it did not match.

The input is that of expand. A VM that a cluster has stored is explained from the record that
it carries, and OUTDATED lists the fields that a reapply with these presets would change.
--reapply explains the VM after that reapply.

PATH restricts the fields to one, or to everything beneath it. Paths begin at the root of
the VirtualMachine, also for an instance: spec.template.spec.domain.cpu. An element of
a list is disks[root], each element disks[*], and a key with dots or slashes is quoted:
nodeSelector["kubernetes.io/arch"].`

const explainExamples = `  # Every field of a VM, and every preset
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets

  # Who gave this VM its CPU?
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets spec.template.spec.domain.cpu

  # A stored VM, from its record
  kubectl get vm tiny -n lab -o yaml | {{program}} explain -f -`

func newExplain(shown string, s streams) *cobra.Command {
	outputs := []string{"table", "json"}
	o := &settings{}
	c := &cobra.Command{
		Use:     "explain -f FILE... [PATH]",
		Short:   "Say where each field of a virtual machine came from",
		Long:    explainHelp,
		Example: strings.ReplaceAll(explainExamples, "{{program}}", shown),
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(outputs...); err != nil {
				return err
			}
			var path provenance.Path
			if len(args) == 1 {
				var err error
				if path, err = provenance.ParsePath(args[0]); err != nil {
					return fmt.Errorf("cannot understand the path %q: %w", args[0], err)
				}
			}
			return explain(c.Context(), o, path, s)
		},
	}
	o.declare(c, outputs...)
	return c
}

func explain(ctx context.Context, o *settings, path provenance.Path, s streams) error {
	c, err := o.cluster(ctx, s)
	if err != nil {
		return err
	}
	var problems []error
	printed := 0
	for _, m := range c.Machines {
		x, err := c.Explain(ctx, m)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if x.Result != nil {
			warn(s, c, m, x.Result.Warnings)
		}
		changes, err := outdated(ctx, s, c, m)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		restrict(x, m, path)
		if len(path) > 0 && len(x.Fields) == 0 {
			fmt.Fprintf(s.err, "Note: %s has nothing at %s\n", m, path)
		}
		if printed++; printed > 1 && o.output == "table" {
			fmt.Fprintln(s.out)
		}
		if err := printExplanation(s.out, o.output, m, newExplained(m, x, changes)); err != nil {
			return fmt.Errorf("cannot print %s: %w", m, err)
		}
	}
	return errors.Join(problems...)
}

// restrict keeps the fields at or beneath a path. For an instance, a path from
// the root of the instance will do.
func restrict(x *presets.Explanation, m offline.Machine, path provenance.Path) {
	if len(path) == 0 {
		return
	}
	if template := provenance.Of("spec", "template"); m.Kind == presets.VirtualMachineInstance && !path.HasPrefix(template) {
		path = slices.Concat(template, path)
	}
	kept := make([]presets.Origin, 0, len(x.Fields))
	for _, o := range x.Fields {
		if o.Path.HasPrefix(path) {
			kept = append(kept, o)
		}
	}
	x.Fields = kept
}

package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

const reapplyHelp = `Reapply presets to VMs of a cluster: presets act on each VM as when it was created, and values
that the user set stay. The command sets the annotation virtwright.dev/reapply to a new value.

Choose VMs by name (vm/NAME, or vm NAME...), by label (-l), by a preset (--preset), or take all
(--all for one namespace, -A for all namespaces). -l, --preset, --all and -A may be combined; VMs
that match all of them are chosen. --preset chooses VMs that hold values of the preset, and VMs on
which it would act now.

Each VM is a line on standard output, and the last line counts. Errors are on standard error. After an
interrupt (Ctrl-C), requests that were sent are waited for; the other VMs count as not done.
--dry-run=server changes nothing and prints the difference that the cluster would make.

Exit codes: 0 when no VM was refused, 1 when the cluster refuses a VM, 2 for wrong usage, and when a
VM failed or was not done.`

const reapplyExamples = `  # What would change?
  {{program}} reapply vm/web -n shop --dry-run=server

  # Every VM that holds values of a preset, or on which it would act
  {{program}} reapply --preset cluster/size-small -A`

const (
	dryRunNone   = "none"
	dryRunServer = "server"
)

// reapplication is a call of the command.
type reapplication struct {
	targets
	preset string
	dryRun string
}

func newReapply(shown string, s streams) *cobra.Command {
	r := &reapplication{}
	c := &cobra.Command{
		Use:               "reapply {vm/NAME... | -l SELECTOR | --preset PRESET | --all | -A}",
		Short:             "Reapply presets to virtual machines of a cluster",
		Long:              reapplyHelp,
		Example:           strings.ReplaceAll(reapplyExamples, "{{program}}", shown),
		ValidArgsFunction: r.connection.completeTyped,
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.check(args); err != nil {
				return err
			}
			return r.run(c.Context(), s)
		},
	}
	r.declare(c)
	f := c.Flags()
	f.StringVar(&r.preset, "preset", "", "VMs that hold values of this preset, or on which it would act: NAME, or cluster/NAME")
	f.StringVar(&r.dryRun, "dry-run", dryRunNone, "server: print what would change, and change nothing")
	offer(c, "dry-run", []string{dryRunNone, dryRunServer})
	return c
}

// check reads the names of VMs and reports everything that is wrong.
func (r *reapplication) check(args []string) error {
	return errors.Join(
		oneOf("--dry-run", r.dryRun, dryRunNone, dryRunServer),
		r.read("reapply presets to", args, []string{"vm"}, r.preset != "" || r.everywhere, "-l, --preset, --all, -A"),
	)
}

func (r *reapplication) run(ctx context.Context, s streams) error {
	config, chosen, err := r.choose(ctx, virtualMachines, r.holds)
	if err != nil {
		return err
	}
	if r.preset != "" {
		if chosen, err = r.addMatched(ctx, config, chosen, s); err != nil {
			return err
		}
	}
	config.WarningHandlerWithContext, config.WarningHandler = vmWarnings{s.err}, nil
	return r.each(ctx, config, chosen, s)
}

// virtualMachines is what is patched.
var virtualMachines = kubevirtv1.GroupVersion.WithResource("virtualmachines")

// holds reports whether the record of a VM names the preset. A record that cannot be read names any.
func (r *reapplication) holds(vm *metav1.PartialObjectMetadata) bool {
	text := vm.Annotations[v1alpha1.AnnotationProvenance]
	if r.preset == "" || text == "" {
		return r.preset == ""
	}
	record, err := provenance.DecodeSources(text)
	return err != nil || slices.ContainsFunc(record.Sources, func(by provenance.Source) bool {
		return by.Preset == r.preset && by.Role != provenance.Platform
	})
}

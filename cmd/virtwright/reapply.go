package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
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
	// reapplying is how many VMs are patched at the same time.
	reapplying = 8
)

// reapplication is a call of the command.
type reapplication struct {
	connection connection
	selector   string
	preset     string
	all        bool
	everywhere bool
	dryRun     string
	names      []string
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
	r.connection.declare(c)
	f := c.Flags()
	f.StringVarP(&r.selector, "selector", "l", "", "VMs with these labels, as kubectl -l")
	f.StringVar(&r.preset, "preset", "", "VMs that hold values of this preset, or on which it would act: NAME, or cluster/NAME")
	f.BoolVar(&r.all, "all", false, "all VMs of the namespace")
	f.BoolVarP(&r.everywhere, "all-namespaces", "A", false, "VMs of all namespaces")
	f.StringVar(&r.dryRun, "dry-run", dryRunNone, "server: print what would change, and change nothing")
	offer(c, "dry-run", []string{dryRunNone, dryRunServer})
	return c
}

// check reads the names of VMs and reports everything that is wrong.
func (r *reapplication) check(args []string) error {
	problems := []error{oneOf("--dry-run", r.dryRun, dryRunNone, dryRunServer)}
	chosen := r.selector != "" || r.preset != "" || r.all || r.everywhere
	names, err := live.Names(args)
	problems = append(problems, err)
	for _, n := range names {
		if n.IsAll() || n.Type() != "vm" {
			problems = append(problems, errors.New("cannot reapply presets to a "+n.Type()+": name VMs, as in vm/web"))
		}
		if !slices.Contains(r.names, n.Name()) {
			r.names = append(r.names, n.Name())
		}
	}
	switch {
	case len(args) == 0 && !chosen:
		problems = append(problems, errors.New("choose VMs: give vm/NAME, -l, --preset, --all or -A"))
	case len(args) > 0 && chosen:
		problems = append(problems, errors.New("names exclude -l, --preset, --all and -A"))
	}
	if _, err := labels.Parse(r.selector); err != nil {
		problems = append(problems, fmt.Errorf("cannot understand the selector -l %q: %w", r.selector, err))
	}
	return errors.Join(problems...)
}

func (r *reapplication) run(ctx context.Context, s streams) error {
	config, namespace, err := r.connection.config()
	if err != nil {
		return err
	}
	config = quiet(config)
	config.WarningHandlerWithContext, config.WarningHandler = vmWarnings{s.err}, nil
	chosen := make([]types.NamespacedName, 0, len(r.names))
	for _, name := range r.names {
		chosen = append(chosen, types.NamespacedName{Namespace: namespace, Name: name})
	}
	if len(r.names) == 0 {
		listed, err := metadata.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
		}
		if r.everywhere {
			namespace = metav1.NamespaceAll
		}
		if chosen, err = r.choose(ctx, listed.Resource(virtualMachines).Namespace(namespace)); err != nil {
			return err
		}
		if r.preset != "" {
			if chosen, err = r.addMatched(ctx, config, namespace, chosen, s); err != nil {
				return err
			}
		}
	}
	return r.each(ctx, config, chosen, s)
}

// virtualMachines is what is patched.
var virtualMachines = kubevirtv1.GroupVersion.WithResource("virtualmachines")

// choose lists the VMs that the flags choose.
func (r *reapplication) choose(ctx context.Context, from metadata.ResourceInterface) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return from.List(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: r.selector}, func(object runtime.Object) error {
		if vm, ok := object.(*metav1.PartialObjectMetadata); ok && r.holds(vm) {
			out = append(out, types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list VMs: %w", err)
	}
	return out, nil
}

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

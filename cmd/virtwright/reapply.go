package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/live"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/validation"
)

const reapplyHelp = `Reapply presets to VMs of a cluster: presets are applied as when the VM was created, and values that
the user set stay. The command sets the annotation virtwright.dev/reapply to a new value.

Select VMs by name (NAME, vm/NAME, or vm NAME...), by label (-l), by a preset (--preset), or select
all (--all for one namespace, -A for all namespaces). If you combine -l, --preset, --all and -A, VMs
must match all of them. --preset selects VMs that have values of the preset, and VMs that it would
change now. A reapply applies every preset: warnings name the others that change these VMs. --only
selects as --preset does, and applies this preset alone: other presets keep the revision that each
VM has of them. It needs the revision of the preset that the VM has (see history).

Each VM is a line on standard output, with the presets and fields that change it; the last line is a
summary. Errors are printed to standard error. After an interrupt (Ctrl-C), the command waits for
requests that were sent; the other VMs count as not done. --dry-run=server prints the differences
without changing VMs.

Exit codes: 0 success, 1 the cluster rejects a VM, 2 wrong usage, or a VM failed or was not done.`

const reapplyExamples = `  # Print the changes without making them
  {{program}} reapply vm/web -n shop --dry-run=server

  # Every VM that has values of a preset, or that it would change
  {{program}} reapply --preset cluster/size-small -A

  # The same VMs, without the changes of other presets
  {{program}} reapply --only cluster/size-small -A`

type reapplyCommand struct {
	targets
	// preset selects VMs. If only is set, it is the preset, and the only one that is applied.
	preset, only string
	dryRun       dryRun
}

func newReapply(shown string, s streams) *cobra.Command {
	r := &reapplyCommand{}
	c := &cobra.Command{
		Use:               "reapply {NAME... | -l SELECTOR | --preset PRESET | --only PRESET | --all | -A}",
		Short:             "Reapply presets to virtual machines of a cluster",
		Long:              reapplyHelp,
		Example:           strings.ReplaceAll(reapplyExamples, "{{program}}", shown),
		ValidArgsFunction: r.connection.complete(0),
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.check(args); err != nil {
				return err
			}
			return r.run(c.Context(), s)
		},
	}
	r.declare(c)
	c.Flags().Var((*presetFlag)(&r.preset), "preset", "VMs that have values of this preset, or that it would change: NAME, or cluster/NAME")
	c.Flags().Var((*presetFlag)(&r.only), "only", "apply only this preset, to the VMs that --preset would select: NAME, or cluster/NAME")
	c.MarkFlagsMutuallyExclusive("preset", "only")
	for _, flag := range []string{"preset", "only"} {
		_ = c.RegisterFlagCompletionFunc(flag, r.connection.completePresets) // the flag exists
	}
	r.dryRun.declare(c, "print the selected VMs", "print the changes, without making them")
	return c
}

// A presetFlag names one preset.
type presetFlag string

func (f *presetFlag) String() string { return string(*f) }

func (f *presetFlag) Type() string { return "string" }

func (f *presetFlag) Set(name string) error {
	if name == "" || *f != "" || strings.Contains(name, ",") {
		return errors.New("name one preset, NAME or cluster/NAME: others take calls of their own")
	}
	*f = presetFlag(name)
	return nil
}

func (r *reapplyCommand) check(args []string) error {
	r.preset = cmp.Or(r.preset, r.only)
	return errors.Join(
		r.dryRun.check(),
		r.read("reapply presets to", args, []string{"vm"}, r.preset != "" || r.everywhere, "-l, --preset, --only, --all, -A"),
	)
}

func (r *reapplyCommand) run(ctx context.Context, s streams) error {
	config, chosen, err := r.choose(ctx, virtualMachines, r.holds)
	if err != nil {
		return err
	}
	if r.preset != "" {
		if chosen, err = r.addMatched(ctx, config, chosen, s); err != nil {
			return err
		}
	}
	r.noteNone(s, len(chosen))
	if r.only != "" {
		if err := readsOnly(config); err != nil {
			return err
		}
	}
	if r.dryRun == dryRunClient {
		for _, vm := range chosen {
			fmt.Fprintln(s.out, r.displayName(vm)+r.dryRun.suffix())
		}
		return nil
	}
	return r.each(ctx, config, chosen, s)
}

// readsOnly rejects a cluster whose virtwright would apply all presets.
func readsOnly(config *rest.Config) error {
	isRecent, err := serves(config, v1alpha1.GroupVersion.WithResource(v1alpha1.ResourcePresetRollouts))
	if err == nil && !isRecent {
		err = errors.New("virtwright in the cluster is older than --only, and would apply all presets: upgrade it first")
	}
	return err
}

var virtualMachines = kubevirtv1.GroupVersion.WithResource("virtualmachines")

// holds reports whether the record of a VM names the preset, or cannot be read.
func (r *reapplyCommand) holds(vm *metav1.PartialObjectMetadata) bool {
	text := vm.Annotations[v1alpha1.AnnotationProvenance]
	if r.preset == "" || text == "" {
		return r.preset == ""
	}
	record, err := provenance.DecodeSources(text)
	return err != nil || slices.ContainsFunc(record.Sources, func(by provenance.Source) bool {
		return by.Preset == r.preset && by.Role != provenance.Platform
	})
}

// addMatched adds the VMs to which a reapply would apply the preset, as evaluated here. A preset
// that does not exist and that no record names is an error.
func (r *reapplyCommand) addMatched(ctx context.Context, config *rest.Config, holding []types.NamespacedName, s streams) ([]types.NamespacedName, error) {
	_, namespace, err := r.connection.config()
	if err != nil {
		return nil, err
	}
	if r.everywhere {
		namespace = metav1.NamespaceAll
	}
	mode, err := modeOf(config)
	if err != nil {
		return nil, err
	}
	client, err := newClient(quiet(config), dynamic.NewForConfig)
	if err != nil {
		return nil, err
	}
	from := &live.Cluster{Objects: client, Name: r.connection.cluster()}
	objects, notes, err := from.Read(ctx, live.Query{
		All: r.everywhere, Namespace: namespace, Selector: r.selector, VMs: true, OnlyVMs: true, ContextOnly: true, Addon: mode == modeAddon,
	})
	note(s, notes)
	if apierrors.IsForbidden(err) && len(holding) > 0 {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		note(s, []string{"only VMs with values of preset " + r.preset + " are selected, because reading presets is forbidden: " + why})
		return holding, nil
	}
	if err != nil {
		return nil, err
	}
	settings := simulate.Settings{Engine: &presets.Engine{}, Namespace: namespace, Reapply: true, Live: true, Rules: &validation.Config{Addon: mode == modeAddon}}
	if mode == modeStandalone {
		settings.Engine.Platform = &presets.Platform{}
	}
	matched, refs, err := simulate.Matched(ctx, objects, settings, r.preset)
	if err != nil {
		return nil, badInput(err)
	}
	if len(holding) == 0 && !refs[r.preset] {
		return nil, r.unknownPreset(refs)
	}
	all := slices.Concat(holding, matched)
	slices.SortFunc(all, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(all), nil
}

func (r *reapplyCommand) unknownPreset(refs map[string]bool) error {
	bare, isCluster := presets.SplitRef(r.preset)
	near, other := spelling.Nearest(r.preset, maps.Keys(refs)), "cluster/"+r.preset
	if isCluster {
		other = bare
	}
	if refs[other] {
		near = other
	}
	hint := ""
	if near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	flag := "--preset"
	if r.only != "" {
		flag = "--only"
	}
	return fmt.Errorf("%s %s: the cluster has no such preset, and no VM has values of it%s", flag, r.preset, hint)
}

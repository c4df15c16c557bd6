package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const expandHelp = `Print virtual machines as a cluster would store them, given these presets.

The input is any mix of VirtualMachines, VirtualMachineInstances, VirtualMachinePresets,
ClusterVirtualMachinePresets, VirtualMachineInstancePresets (of KubeVirt) and Namespaces,
whose labels presets may select: YAML or JSON, with any number of documents, and lists.
Objects of other kinds are an error in a file that you name, and left out, with a note,
in folders and on standard input.

` + liveHelp + `

A VM that a cluster has stored (it has a resourceVersion) is printed as it is, with a
note about fields that a reapply would change. --reapply prints the VM after that reapply.

Objects go to standard output, warnings to standard error. When one object is refused the
others are printed all the same.`

const expandExamples = `  # What comes back for four lines
  {{program}} expand -f examples/vms/tiny.yaml -f examples/presets

  # Only what is added, for every VM, in namespaces as they are in the cluster
  {{program}} expand -f examples/vms -f examples/presets -f examples/namespaces.yaml -o diff

  # A namespace without a manifest of it
  {{program}} expand -f examples/vms/web.yaml -f examples/presets --namespace-labels tier=prod,secure-boot=required

  # A VM of the cluster after a reapply, with presets that are not in the cluster yet
  {{program}} expand vm/web -n shop -f examples/presets --reapply -o diff

  # From standard input, alongside KubeVirt, which gives the platform defaults itself
  cat examples/vms/desktop.yaml | {{program}} expand -f - -f examples/presets --mode addon`

func newExpand(shown string, s streams) *cobra.Command {
	outputs := []string{"yaml", "json", "diff"}
	o := &settings{source: source{held: 200}}
	c := &cobra.Command{
		Use:     "expand [-f FILE...] [TYPE/NAME...]",
		Short:   "Print virtual machines as a cluster would store them",
		Long:    expandHelp,
		Example: strings.ReplaceAll(expandExamples, "{{program}}", shown),
		Args:    named,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args, outputs...); err != nil {
				return err
			}
			return expand(c.Context(), o, s, args)
		},
	}
	o.declare(c, outputs...)
	o.declareJudging(c)
	return c
}

// tuneGC collects garbage rarely, because little is in use, and more often before memory grows: about 1 KiB a
// VM is kept, to find duplicates. The returned function puts the settings back.
func tuneGC(vms int) func() {
	const percent, base, each = 400, 96 << 20, 1 << 10
	before, limit := debug.SetGCPercent(percent), debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, base+int64(vms)*each))
	return func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(limit)
	}
}

func expand(ctx context.Context, o *settings, s streams, args []string) error {
	c, err := o.cluster(ctx, s, args)
	if err != nil {
		return err
	}
	untune := tuneGC(len(c.Machines) + o.input.Left)
	defer untune()
	several := len(c.Machines)+o.input.Left > 1
	list := &listWriter{out: s.out, output: o.output}
	shown, done := newProgress(s, "expanded", len(c.Machines)+o.input.Left), 0
	var problems []error
	for x := range offline.InOrder(ctx, o.machines(c), func(ctx context.Context, read func() (offline.Machine, error)) expansion {
		return o.expandOne(ctx, c, read)
	}) {
		if len(x.warnings)+len(x.notes) > 0 {
			shown.clear()
		}
		warn(s, several, x.machine, x.warnings)
		note(s, x.notes)
		if x.err != nil {
			problems = append(problems, x.err)
			continue
		}
		if err := list.add(x.text); err != nil {
			return fmt.Errorf("cannot print %s: %w", x.machine, err)
		}
		done++
		shown.at(done)
	}
	shown.clear()
	if o.input.Left > 0 {
		note(s, c.Unlabelled())
	}
	note(s, c.Missing())
	return errors.Join(append(problems, list.end())...)
}

// machines are those that the cluster holds, then those that are left in files.
func (o *settings) machines(c *offline.Cluster) iter.Seq[func() (offline.Machine, error)] {
	return func(yield func(func() (offline.Machine, error)) bool) {
		for _, m := range c.Machines {
			if !yield(func() (offline.Machine, error) { return m, nil }) {
				return
			}
		}
		if o.input.Left == 0 {
			return
		}
		for d := range o.input.VMs() {
			if !yield(func() (offline.Machine, error) { return c.Machine(d) }) {
				return
			}
		}
	}
}

// expansion is what became of a machine, as text.
type expansion struct {
	machine         offline.Machine
	text            string
	warnings, notes []string
	err             error
}

func (o *settings) expandOne(ctx context.Context, c *offline.Cluster, read func() (offline.Machine, error)) (x expansion) {
	if x.machine, x.err = read(); x.err != nil {
		return x
	}
	var object map[string]any
	if object, x.warnings, x.err = c.Expand(ctx, x.machine); x.err != nil {
		return x
	}
	if _, x.notes, x.err = c.Outdated(ctx, x.machine); x.err != nil {
		return x
	}
	if o.output == "diff" {
		x.text, x.err = diff(x.machine, object)
	} else {
		x.text, x.err = rendered(o.output, object)
	}
	if x.err != nil {
		x.err = fmt.Errorf("cannot print %s: %w", x.machine, x.err)
	}
	return x
}

// diff compares what was sent with what it became, both as YAML of one style.
func diff(m offline.Machine, object map[string]any) (string, error) {
	before, err := yaml.JSONToYAML(m.Sent)
	if err != nil {
		return "", err
	}
	after, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	return unified(before, after, fmt.Sprintf("%s (%s, as sent)", m, m.Where), fmt.Sprintf("%s (expanded)", m))
}

// unified compares texts by line.
func unified(before, after []byte, from, to string) (string, error) {
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(before)), FromFile: from,
		B: difflib.SplitLines(string(after)), ToFile: to,
		Context: 3,
	})
}

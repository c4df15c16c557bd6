package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"runtime/debug"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate"
)

const expandHelp = `Print virtual machines as a cluster would store them with these presets.

The input is any mix of VirtualMachines, VirtualMachineInstances, presets, KubeVirt's
VirtualMachineInstancePresets, and Namespaces, because presets may select their labels. Files are
YAML or JSON with any number of documents and lists. An object of another kind is an error in a
file that you name. In folders and on standard input it is ignored with a note, unless its kind
looks misspelt.

` + liveHelp + `

A VM that is stored in a cluster (it has a resourceVersion) is printed unchanged, with a note about
fields that a reapply would change. --reapply prints the VM after a reapply.

Objects are printed to standard output, warnings to standard error. If an object is rejected, the
others are still printed.`

const expandExamples = `  # Expand a VM with a name and a label
  {{program}} expand -f examples/vms/tiny.yaml -f examples/presets

  # Only the added fields of every VM, with the labels of namespaces
  {{program}} expand -f examples/vms -f examples/presets -f examples/namespaces.yaml -o diff

  # Set namespace labels without a manifest
  {{program}} expand -f examples/vms/web.yaml -f examples/presets --namespace-labels tier=prod,secure-boot=required

  # A VM of the cluster after a reapply, with presets that the cluster does not have yet
  {{program}} expand vm/web -n shop -f examples/presets --reapply -o diff

  # From standard input, alongside KubeVirt, which sets the platform defaults itself
  cat examples/vms/desktop.yaml | {{program}} expand -f - -f examples/presets --mode addon`

func newExpand(shown string, s streams) *cobra.Command {
	o := &settings{source: source{needs: needs{maxInMemory: 200}}}
	c := &cobra.Command{
		Use: "expand [-f FILE...] [TYPE/NAME...]", Short: "Print virtual machines as a cluster would store them",
		Long: expandHelp, Example: expandExamples, Args: named,
	}
	o.setUp(c, shown, []string{"yaml", "json", "diff"}, func(ctx context.Context, args []string) error { return expand(ctx, o, s, args) })
	o.declareValidation(c)
	c.ValidArgsFunction = o.connection.complete(0)
	return c
}

// tuneGC lowers the frequency of garbage collections while memory stays small. Each VM keeps about
// 1 KiB to find duplicates. The returned function restores the settings.
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
	untune := tuneGC(len(c.VMs) + o.input.Remaining)
	defer untune()
	several := len(c.VMs)+o.input.Remaining > 1
	list := &listWriter{out: s.out, output: o.output}
	shown, done := newProgress(s, "expanded", len(c.VMs)+o.input.Remaining), 0
	var problems []error
	for x := range simulate.InOrder(ctx, o.vms(c), func(ctx context.Context, read func() (simulate.VM, error)) expansion {
		return o.expandOne(ctx, c, read)
	}) {
		if len(x.warnings)+len(x.notes) > 0 {
			shown.clear()
		}
		warn(s, several, x.vm, x.warnings)
		note(s, x.notes)
		if x.err != nil {
			problems = append(problems, x.err)
			continue
		}
		if err := list.add(x.text); err != nil {
			return fmt.Errorf("cannot print %s: %w", x.vm, err)
		}
		done++
		shown.at(done)
	}
	shown.clear()
	if o.input.Remaining > 0 {
		note(s, c.Unlabelled(nil))
	}
	note(s, c.Missing())
	return errors.Join(append(problems, list.end())...)
}

// vms yields the VMs that the cluster holds in memory, then the remaining VMs of the files.
func (o *settings) vms(c *simulate.Cluster) iter.Seq[func() (simulate.VM, error)] {
	return func(yield func(func() (simulate.VM, error)) bool) {
		for _, m := range c.VMs {
			if !yield(func() (simulate.VM, error) { return m, nil }) {
				return
			}
		}
		if o.input.Remaining == 0 {
			return
		}
		for d := range o.input.VMs() {
			if !yield(func() (simulate.VM, error) { return c.DecodeVM(d) }) {
				return
			}
		}
	}
}

type expansion struct {
	vm              simulate.VM
	text            string
	warnings, notes []string
	err             error
}

func (o *settings) expandOne(ctx context.Context, c *simulate.Cluster, read func() (simulate.VM, error)) (x expansion) {
	if x.vm, x.err = read(); x.err != nil {
		return x
	}
	var object map[string]any
	if object, x.warnings, x.err = c.Expand(ctx, x.vm); x.err != nil {
		return x
	}
	if _, x.notes, x.err = c.Outdated(ctx, x.vm); x.err != nil {
		return x
	}
	if o.output == "diff" {
		x.text, x.err = diff(x.vm, object, "expanded")
	} else {
		x.text, x.err = rendered(o.output, object)
	}
	if x.err != nil {
		x.err = fmt.Errorf("cannot print %s: %w", x.vm, x.err)
	}
	return x
}

func diff(m simulate.VM, object map[string]any, as string) (string, error) {
	before, err := yamlOf(json.RawMessage(m.Sent))
	if err != nil {
		return "", err
	}
	after, err := yamlOf(object)
	if err != nil {
		return "", err
	}
	return unified(before, after, fmt.Sprintf("%s (%s, as sent)", m, m.Where), fmt.Sprintf("%s (%s)", m, as))
}

// yamlOf is yaml.Marshal, which rejects text with C1 control characters.
func yamlOf(object any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML([]byte(presets.Escape(string(raw))))
}

// longRecord matches the record of origins. A diff shows the first group.
var longRecord = regexp.MustCompile(`(?m)^( +` + regexp.QuoteMeta(v1alpha1.AnnotationProvenance) + `: .{48}).*$`)

func unified(before, after []byte, from, to string) (string, error) {
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(longRecord.ReplaceAllString(string(before), "$1…")), FromFile: from,
		B: difflib.SplitLines(longRecord.ReplaceAllString(string(after), "$1…")), ToFile: to,
		Context: 3,
	})
}

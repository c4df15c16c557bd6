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

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/spelling"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/originreport"
	"github.com/virtwright/virtwright/validation"
)

const explainHelp = `Show the origin of each field of a virtual machine and the values that it replaced, and the effect of
each preset that matched. --all also lists the others, with the reason why they did not match.

-o yaml prints the VM with the origin of each field in a comment, -o html as a page, and -o svg as a
picture.

The input is the same as for expand. A VM that is stored in a cluster is explained from its record.
OUTDATED lists the fields that a reapply with these presets would change. --reapply explains the VM
after a reapply.

If a cluster would reject the VM, the reasons are printed to standard error, and the exit code is 1.

PATH limits the output to a field and the fields beneath it. Paths start at the root of the
VirtualMachine, also for a VirtualMachineInstance: spec.template.spec.domain.cpu. disks[root] is an
element of a list, disks[*] is each element. Keys with dots or slashes are quoted:
nodeSelector["kubernetes.io/arch"].

--link prints a link that opens copies of the VMs and the presets in a playground, and nothing else.
The link contains all of them: readers of the link can read them.`

const explainExamples = `  # Every field of a VM, and every preset
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets

  # The origin of one field
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets spec.template.spec.domain.cpu

  # A page with the YAML of the VM, the origin of each line, the values that lost, and a sparse manifest
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets -o html

  # The YAML of the VM with the origin of each line
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets -o yaml

  # A stored VM, from its record
  {{program}} explain vm/tiny -n lab

  # The same from a file
  kubectl get vm tiny -n lab -o yaml | {{program}} explain -f -`

func newExplain(shown string, s streams) *cobra.Command {
	outputs := []string{"table", "yaml", "json", "html", "svg"}
	o, link, all := &settings{}, "", false
	c := &cobra.Command{
		Use:     "explain [-f FILE...] [TYPE/NAME...] [PATH]",
		Short:   "Show the origin of each field of a virtual machine",
		Long:    explainHelp,
		Example: strings.ReplaceAll(explainExamples, "{{program}}", shown),
		Args: func(c *cobra.Command, args []string) error {
			names, path := splitPath(args)
			return cmp.Or(noFile(path), named(c, names))
		},
		RunE: func(c *cobra.Command, args []string) error {
			names, path := splitPath(args)
			o.presetsOptional = len(o.files) == 0 && o.kustomize == "" && !o.reapply // records name them
			if err := o.check(c, names, outputs...); err != nil {
				return err
			}
			if link != "" {
				return printLink(c.Context(), o, s, names, link)
			}
			o.under, _ = presets.ParsePath(path) // explain returns the error
			p := &explanations{printer: printer{streams: s, output: o.output}, all: all}
			return explain(c.Context(), o, p, names, path)
		},
	}
	o.declare(c, outputs...)
	c.ValidArgsFunction = o.connection.completePaths
	o.declareValidation(c)
	c.Flags().BoolVar(&all, "all", false, "table: also list the presets that did not match, with the reason")
	c.Flags().StringVar(&link, "link", "", "print a link for the playground at this address, such as http://127.0.0.1:8080/")
	dropped := []string{
		"output", "owner", "reapply", "namespace-labels", "preset-conflicts", "warnings", "validation",
		"default-architecture", "default-eviction-strategy", "default-network-interface", "default-cpu-model",
	}
	for _, s := range validation.Settings() {
		dropped = append(dropped, s.Name)
	}
	for _, flag := range dropped { // the playground has their default values
		c.MarkFlagsMutuallyExclusive("link", flag)
	}
	return c
}

func explain(ctx context.Context, o *settings, p *explanations, args []string, text string) error {
	c, err := o.cluster(ctx, p.streams, args)
	if err != nil {
		return err
	}
	path, err := pathIn(c, text)
	if err != nil {
		return fmt.Errorf("invalid path %q: %w", text, err)
	}
	var problems []error
	for _, m := range c.VMs {
		problems = append(problems, p.explain(ctx, c, m, path))
	}
	note(p.streams, c.Missing())
	return errors.Join(append(problems, p.write())...)
}

// explain adds the explanation of a VM. The error has the reasons why a cluster rejects the VM.
func (p *explanations) explain(ctx context.Context, c *simulate.Cluster, m simulate.VM, path provenance.Path) error {
	x, err := c.Explain(ctx, m)
	if err != nil {
		return p.addRejected(m, err)
	}
	if x.Result != nil {
		warn(p.streams, len(c.VMs) > 1, m, x.Result.Warnings)
	}
	for _, removed := range c.Removed(m) {
		warn(p.streams, len(c.VMs) > 1, m, []string{fmt.Sprintf("a cluster removes %s: only controllers may write it", removed)})
	}
	changes, err := outdated(ctx, p.streams, c, m)
	if err != nil {
		return err
	}
	if near := restrict(x, m, path); len(path) > 0 && len(x.Fields) == 0 {
		fmt.Fprintf(p.err, "Note: %s does not set %s%s\n", m, path, near)
	}
	changes = beneath(changes, path)
	if !p.drawn() {
		p.add(newExplained(m, x, changes))
		return c.Validate(ctx, m)
	}
	object, rejection := c.Explained(ctx, m, x)
	section := originreport.Section{
		VM: originreport.VM{
			Kind: m.Kind, Object: object, Explanation: x, Damaged: x.Result == nil && m.Damaged() != nil, Under: inTemplate(m, path),
		},
		Problems: reasonsOf(rejection), Outdated: outdatedRows(changes),
	}
	if rejection == nil && len(path) == 0 && len(changes) == 0 && p.output == "html" {
		p.sparsify(ctx, c, m, &section)
	}
	return errors.Join(rejection, p.addSection(m, section))
}

// pathIn also accepts a path from the root of a VMI if the input has one.
func pathIn(c *simulate.Cluster, text string) (provenance.Path, error) {
	if text == "" {
		return nil, nil
	}
	path, err := presets.ParsePath(text)
	instance := func(m simulate.VM) bool { return m.Kind == presets.VirtualMachineInstance }
	if err != nil && slices.ContainsFunc(c.VMs, instance) {
		if inner, wrong := presets.ParsePath("spec.template." + text); wrong == nil {
			return inner, nil
		}
	}
	return path, err
}

// Only paths that end with a list element or a map key can be misspelled without a parse error.
func endsWithKey(path provenance.Path) bool {
	last := len(path) - 1
	sibling := path[:last].With(provenance.Segment{Name: "no-such-field"})
	_, err := presets.ParsePath(sibling.String())
	return path[last].Kind != provenance.Field || err == nil
}

func beneath(changes []simulate.Change, path provenance.Path) []simulate.Change {
	return slices.DeleteFunc(changes, func(c simulate.Change) bool {
		at, err := presets.ParsePath(c.Path)
		return err == nil && !at.HasPrefix(path)
	})
}

// inTemplate returns the path of a field of a VMI from the root of a VM.
func inTemplate(m simulate.VM, path provenance.Path) provenance.Path {
	template := provenance.Of("spec", "template")
	if len(path) == 0 || m.Kind != presets.VirtualMachineInstance || path.HasPrefix(template) {
		return path
	}
	return slices.Concat(template, path)
}

// restrict keeps the fields beneath a path; if there are none, hint names the nearest path.
func restrict(x *presets.Explanation, m simulate.VM, path provenance.Path) (hint string) {
	if len(path) == 0 {
		return ""
	}
	path = inTemplate(m, path)
	kept, paths := make([]presets.Origin, 0, len(x.Fields)), map[string]bool{}
	for _, o := range x.Fields {
		if o.Path.HasPrefix(path) {
			kept = append(kept, o)
		}
		if len(o.Path) >= len(path) && o.Path.HasPrefix(path[:len(path)-1]) {
			paths[o.Path[:len(path)].String()] = true
		}
	}
	x.Fields = kept
	if !endsWithKey(path) {
		return ""
	}
	if near := spelling.Nearest(path.String(), maps.Keys(paths)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return hint
}

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

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

const explainHelp = `Say of every field of a virtual machine where it came from and what it beat, and of every
preset what it did, or why it did not match.

The input is that of expand. A VM that a cluster has stored is explained from the record that
it carries, and OUTDATED lists the fields that a reapply with these presets would change.
--reapply explains the VM after that reapply.

If a cluster would refuse the VM, the reasons follow on standard error, and the exit code is 1.

PATH restricts the fields, also those of OUTDATED, to one or to everything beneath it. Paths begin at the root of
the VirtualMachine, also for an instance: spec.template.spec.domain.cpu. An element of
a list is disks[root], each element disks[*], and a key with dots or slashes is quoted:
nodeSelector["kubernetes.io/arch"].`

const explainExamples = `  # Every field of a VM, and every preset
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets

  # Who gave this VM its CPU?
  {{program}} explain -f examples/vms/tiny.yaml -f examples/presets spec.template.spec.domain.cpu

  # A stored VM, from its record
  {{program}} explain vm/tiny -n lab

  # The same from a file
  kubectl get vm tiny -n lab -o yaml | {{program}} explain -f -`

func newExplain(shown string, s streams) *cobra.Command {
	outputs := []string{"table", "json"}
	o := &settings{}
	c := &cobra.Command{
		Use:     "explain [-f FILE...] [TYPE/NAME...] [PATH]",
		Short:   "Say where each field of a virtual machine came from",
		Long:    explainHelp,
		Example: strings.ReplaceAll(explainExamples, "{{program}}", shown),
		Args: func(c *cobra.Command, args []string) error {
			names, path := withPath(args)
			return cmp.Or(noFile(path), named(c, names))
		},
		RunE: func(c *cobra.Command, args []string) error {
			names, path := withPath(args)
			if err := o.check(c, names, outputs...); err != nil {
				return err
			}
			return explain(c.Context(), o, s, names, path)
		},
	}
	o.declare(c, outputs...)
	o.declareJudging(c)
	return c
}

func explain(ctx context.Context, o *settings, s streams, args []string, text string) error {
	c, err := o.cluster(ctx, s, args)
	if err != nil {
		return err
	}
	path, err := pathIn(c, text)
	if err != nil {
		return fmt.Errorf("cannot understand the path %q: %w", text, err)
	}
	p := &printer{streams: s, output: o.output}
	var problems []error
	for _, m := range c.Machines {
		x, err := c.Explain(ctx, m)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if x.Result != nil {
			warn(s, len(c.Machines) > 1, m, x.Result.Warnings)
		}
		changes, err := outdated(ctx, s, c, m)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if near := restrict(x, m, path); len(path) > 0 && len(x.Fields) == 0 {
			fmt.Fprintf(s.err, "Note: %s does not set %s%s\n", m, path, near)
		}
		p.add(newExplained(m, x, beneath(changes, path)))
		if err := c.Judge(ctx, m); err != nil {
			problems = append(problems, err)
		}
	}
	note(s, c.Missing())
	if o.output == "table" {
		return errors.Join(append(problems, p.tables())...)
	}
	return errors.Join(append(problems, p.print())...)
}

// pathIn reads a path, which must be one of a VM. A path from the root of an instance is one,
// too, where there is an instance. An empty text is the empty path.
func pathIn(c *offline.Cluster, text string) (provenance.Path, error) {
	if text == "" {
		return nil, nil
	}
	path, err := presets.ParsePath(text)
	instance := func(m offline.Machine) bool { return m.Kind == presets.VirtualMachineInstance }
	if err != nil && slices.ContainsFunc(c.Machines, instance) {
		if inner, wrong := presets.ParsePath("spec.template." + text); wrong == nil {
			return inner, nil
		}
	}
	return path, err
}

// namedByUsers reports whether a path ends with an element of a list or a key of a map, which may
// be misspelt. The other fields of a path are known to exist.
func namedByUsers(path provenance.Path) bool {
	last := len(path) - 1
	sibling := path[:last].With(provenance.Segment{Name: "no-such-field"})
	_, err := presets.ParsePath(sibling.String())
	return path[last].Kind != provenance.Field || err == nil
}

// beneath keeps the changes at or beneath a path.
func beneath(changes []offline.Change, path provenance.Path) []offline.Change {
	return slices.DeleteFunc(changes, func(c offline.Change) bool {
		at, err := presets.ParsePath(c.Path)
		return err == nil && !at.HasPrefix(path)
	})
}

// restrict keeps the fields at or beneath a path. For an instance, a path from
// the root of the instance will do. Where nothing is left, it returns a hint at the
// nearest path that the machine has.
func restrict(x *presets.Explanation, m offline.Machine, path provenance.Path) (hint string) {
	if len(path) == 0 {
		return ""
	}
	if template := provenance.Of("spec", "template"); m.Kind == presets.VirtualMachineInstance && !path.HasPrefix(template) {
		path = slices.Concat(template, path)
	}
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
	if !namedByUsers(path) {
		return ""
	}
	if near := presets.Nearest(path.String(), maps.Keys(paths)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return hint
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

const validateHelp = `Say of virtual machines and presets what a cluster would refuse, in the same words: unknown
fields, wrong types, what cannot start, what only controllers write, and names that two
machines share.

The input is that of expand, and VirtualMachines in version v1alpha2. Presets among the
files act, and are judged themselves. Every machine is judged as if it were created after
those before it. Objects of other kinds are counted and left out.

Problems go to standard output, one a line, warnings to standard error. docs/rules.md
describes each rule; a message ends with the name of its rule.`

const validateExamples = `  # Would a cluster take these machines, with these presets?
  {{program}} validate -f examples/vms -f examples/presets -f examples/namespaces.yaml

  # Would the cluster take this VM?
  {{program}} validate -f examples/vms/web.yaml --live

  # Presets alone
  {{program}} validate -f examples/presets

  # With features that the cluster has
  cat examples/vms/tiny.yaml | {{program}} validate -f - -f examples/presets --feature-gates HostDisk=true,NUMA=false

  # Alongside KubeVirt, for a program
  {{program}} validate -f examples/vms/desktop.yaml --mode addon -o json`

func newValidate(shown string, s streams) *cobra.Command {
	outputs := []string{"text", "json"}
	o := &settings{source: source{filesOnly: true}}
	c := &cobra.Command{
		Use:     "validate [-f FILE...] [TYPE/NAME...]",
		Short:   "Say what a cluster would refuse",
		Long:    validateHelp,
		Example: strings.ReplaceAll(validateExamples, "{{program}}", shown),
		Args:    named,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(c, args, outputs...); err != nil {
				return err
			}
			return validate(c.Context(), o, s, args)
		},
	}
	o.declare(c, outputs...)
	o.declareJudging(c)
	return c
}

func validate(ctx context.Context, o *settings, s streams, args []string) error {
	objects, known, err := o.read(ctx, s, args)
	if err != nil {
		return err
	}
	report, err := offline.Review(ctx, objects, known)
	if err != nil {
		return err
	}
	if len(report.Verdicts) == 0 {
		return fmt.Errorf("there is nothing to validate in %s%s", o.described(args), leftKinds(report.Left))
	}
	v := newValidated(report)
	if o.output == "json" {
		err = v.json(s.out)
	} else {
		err = v.text(s)
	}
	if err == nil && v.Summary.Refused > 0 {
		err = errTold
	}
	return err
}

// leftKinds names the kinds that were left out.
func leftKinds(left []offline.Leftover) string {
	if len(left) == 0 {
		return ""
	}
	kinds := sets.New[string]()
	for _, l := range left {
		kinds.Insert(l.Kind)
	}
	return ", only objects of other kinds: " + strings.Join(sets.List(kinds), ", ")
}

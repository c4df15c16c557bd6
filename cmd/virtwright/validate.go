package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
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

  # Presets alone
  {{program}} validate -f examples/presets

  # With features that the cluster has
  cat examples/vms/tiny.yaml | {{program}} validate -f - -f examples/presets --feature-gates HostDisk=true,NUMA=false

  # Beside KubeVirt, for a program
  {{program}} validate -f examples/vms/desktop.yaml --mode addon -o json`

// rules are the flags that say how a cluster validates.
type rules struct {
	gates    map[string]string
	noBridge bool
}

func (r *rules) declare(c *cobra.Command) {
	f := c.Flags()
	f.StringToStringVar(&r.gates, "feature-gates", nil, "standalone: NAME=true or NAME=false, …; defaults are KubeVirt's")
	f.BoolVar(&r.noBridge, "forbid-bridge-on-pod-network", false, "standalone: refuse bridge bindings on the pod network")
	var values []string
	for _, gate := range slices.Sorted(maps.Keys(validation.KnownGates())) {
		values = append(values, string(gate)+"=true", string(gate)+"=false")
	}
	// It fails only for a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("feature-gates", cobra.FixedCompletions(cobraValues(values), cobra.ShellCompDirectiveNoFileComp))
}

// config is the configuration of the rules, or every flag that is wrong.
func (r *rules) config(o *settings) (*validation.Config, error) {
	out := &validation.Config{
		Addon: o.mode == modeAddon, Architecture: o.platform.Architecture, NoBridgeOnPodNetwork: r.noBridge, Gates: map[validation.Gate]bool{},
	}
	var problems []error
	known := validation.KnownGates()
	for _, name := range slices.Sorted(maps.Keys(r.gates)) {
		on, err := strconv.ParseBool(r.gates[name])
		if err != nil {
			problems = append(problems, fmt.Errorf("--feature-gates %s must be true or false, not %q", name, r.gates[name]))
		}
		if _, ok := known[validation.Gate(name)]; !ok {
			problems = append(problems, fmt.Errorf("--feature-gates: unknown feature gate %q%s", name, orNearest(name)))
		}
		out.Gates[validation.Gate(name)] = on
	}
	return out, errors.Join(problems...)
}

func orNearest(gate string) string {
	var all []string
	for g := range validation.KnownGates() {
		all = append(all, string(g))
	}
	slices.Sort(all)
	if best := presets.Nearest(gate, slices.Values(all)); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; there are " + strings.Join(all, ", ")
}

func newValidate(shown string, s streams) *cobra.Command {
	outputs := []string{"text", "json"}
	o, r := &settings{}, &rules{}
	c := &cobra.Command{
		Use:     "validate -f FILE...",
		Short:   "Say what a cluster would refuse",
		Long:    validateHelp,
		Example: strings.ReplaceAll(validateExamples, "{{program}}", shown),
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := r.config(o)
			if err := errors.Join(o.check(outputs...), err); err != nil {
				return err
			}
			return validate(c.Context(), o, config, s)
		},
	}
	o.declare(c, outputs...)
	r.declare(c)
	return c
}

func validate(ctx context.Context, o *settings, config *validation.Config, s streams) error {
	objects, known, err := o.read(s)
	if err != nil {
		return err
	}
	known.Rules = config
	report, err := offline.Review(ctx, objects, known)
	if err != nil {
		return err
	}
	if len(report.Verdicts) == 0 {
		return fmt.Errorf("there is nothing to validate in -f %s%s", strings.Join(o.files, " -f "), leftKinds(report.Left))
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

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/manifest"
	"github.com/virtwright/virtwright/validation"
)

const (
	modeStandalone = "standalone"
	modeAddon      = "addon"

	// defaultArchitecture is the architecture of a cluster unless a flag names another.
	defaultArchitecture = "amd64"

	warnSurprises  = "Surprises"
	warnEverything = "Everything"
)

type settings struct {
	source
	output          string
	mode            string
	modeGiven       bool
	readsStrategy   bool // KubeVirt's rollout strategy is that of the cluster
	namespace       string
	namespaceLabels map[string]string
	owner           string
	presetConflicts string
	warnings        string
	platform        presets.Platform
	rules           validation.Config
	validation      string
	reapply         bool
	// without are the flags of declare that have no effect on the command.
	without []string
	// under limits the output, and notes about presets, to a field and the fields beneath it.
	under provenance.Path
}

func (o *settings) declareValidation(c *cobra.Command) {
	o.declareRuleFlags(c)
	values := []string{string(simulate.FieldsStrict), string(simulate.FieldsWarn), string(simulate.FieldsIgnore)}
	c.Flags().StringVar(&o.validation, "validation", values[0], "handling of unknown fields, like kubectl --validate: strict rejects the object; warn drops them with a warning; ignore drops them")
	offer(c, "validation", values)
}

func (o *settings) declareRuleFlags(c *cobra.Command) {
	for _, s := range validation.Settings() {
		set := func(text string) error { return s.Set(&o.rules, text) }
		if s.Switch {
			c.Flags().BoolFunc(s.Name, s.Usage, set)
		} else {
			c.Flags().Func(s.Name, s.Usage, set)
		}
	}
	var gates []string
	for _, gate := range slices.Sorted(maps.Keys(validation.KnownGates())) {
		gates = append(gates, string(gate)+"=true", string(gate)+"=false")
	}
	offer(c, "feature-gates", gates)
}

// declare adds the flags to a command, except o.without. The first of outputs is the default.
func (o *settings) declare(c *cobra.Command, outputs ...string) {
	o.source.declare(c)
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVarP(&o.output, "output", "o", outputs[0], "output `format`: "+strings.Join(outputs, ", "))
	f.StringVar(&o.mode, "mode", modeStandalone, "standalone: without KubeVirt, with platform defaults; addon: alongside KubeVirt, with presets only (default: addon if a cluster with KubeVirt is read, otherwise standalone)")
	f.StringToStringVar(&o.namespaceLabels, "namespace-labels", nil, "labels of every namespace (`k=v,...`), in addition to those of Namespace objects")
	f.StringVar(&o.owner, "owner", "", "`file` with the stored VirtualMachine that controls the VirtualMachineInstances in -f")
	f.BoolVar(&o.reapply, "reapply", false, "reapply the presets to stored VMs, like the annotation virtwright.dev/reapply; by default, stored VMs do not change")
	f.StringVar(&o.presetConflicts, "preset-conflicts", "warn", "when two presets conflict and only their names decide: warn, or reject the VM")
	f.StringVar(&o.warnings, "warnings", warnSurprises, "warnings of presets: Surprises, for example an overruled value; or Everything, also each value that a preset sets")
	f.StringVar(&o.platform.Architecture, "default-architecture", "", "architecture of VMs without one (default amd64); addon: the default architecture of the cluster, which rules assume")
	f.StringVar(&o.platform.EvictionStrategy, "default-eviction-strategy", "", "standalone: eviction strategy of VMs without one (default None)")
	f.StringVar(&o.platform.NetworkInterface, "default-network-interface", "", "standalone: binding of the default network: masquerade")
	f.StringVar(&o.platform.CPUModel, "default-cpu-model", "", "standalone: CPU model of VMs without one (default host-model)")
	f.Lookup("mode").DefValue, f.Lookup("namespace-labels").DefValue = "", "" // the usage has the default
	f.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(o.without, flag.Name) {
			c.Flags().AddFlag(flag)
		}
	})
	for flag, values := range map[string][]string{
		"output": outputs, "mode": {modeStandalone, modeAddon}, "preset-conflicts": {"warn", "reject"},
		"warnings":                  {warnSurprises, warnEverything},
		"default-network-interface": {"masquerade"},
	} {
		offer(c, flag, values)
	}
}

// Flags that have no effect on commands that read presets only, or that compare stored VMs.
var (
	flagsForReapply = []string{"owner", "reapply", "warnings"}
	flagsOfDefaults = []string{"default-eviction-strategy", "default-network-interface", "default-cpu-model"}
	flagsForVMs     = slices.Concat(flagsForReapply, flagsOfDefaults, []string{"preset-conflicts"})
)

func offer(c *cobra.Command, flag string, values []string) {
	// The error means that the flag does not exist.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// setUp adds flags and examples. run is called if all flags are valid.
func (o *settings) setUp(c *cobra.Command, shown string, outputs []string, run func(context.Context, []string) error, checks ...func(*cobra.Command) error) {
	o.declare(c, outputs...)
	c.Example = strings.ReplaceAll(c.Example, "{{program}}", shown)
	c.RunE = func(c *cobra.Command, args []string) error {
		problems := []error{o.check(c, args, outputs...)}
		for _, check := range checks {
			problems = append(problems, check(c))
		}
		if err := errors.Join(problems...); err != nil {
			return err
		}
		return run(c.Context(), args)
	}
}

func (o *settings) check(c *cobra.Command, args []string, outputs ...string) error {
	o.modeGiven = c.Flags().Changed("mode")
	strategy := c.Flags().Lookup("vm-rollout-strategy")
	o.readsStrategy = strategy != nil && !strategy.Changed
	o.namespace = cmp.Or(*o.connection.flags.Namespace, metav1.NamespaceDefault)
	problems := []error{
		o.source.check(args),
		oneOf("--output", o.output, outputs...),
		oneOf("--mode", o.mode, modeStandalone, modeAddon),
		oneOf("--validation", o.validation, "", "strict", "warn", "ignore"),
		oneOf("--preset-conflicts", o.presetConflicts, "warn", "reject"),
		oneOf("--warnings", o.warnings, warnSurprises, warnEverything),
		oneOf("--default-network-interface", o.platform.NetworkInterface, "", "masquerade"),
	}
	for _, reason := range apivalidation.IsDNS1123Label(o.namespace) {
		problems = append(problems, fmt.Errorf("--namespace %q: %s", o.namespace, reason))
	}
	return errors.Join(append(problems, labelProblems("--namespace-labels", o.namespaceLabels))...)
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.NotSupported(field.NewPath(flag), value, allowed)
}

func (o *settings) cluster(ctx context.Context, s streams, args []string) (*simulate.Cluster, error) {
	objects, known, err := o.read(ctx, s, args)
	if err != nil {
		return nil, err
	}
	c, err := simulate.NewCluster(ctx, objects, known)
	if err != nil {
		return nil, err
	}
	if len(c.VMs) == 0 && o.input.Remaining == 0 {
		return nil, fmt.Errorf("no VirtualMachine or VirtualMachineInstance in %s", o.described(args))
	}
	note(s, c.Notes)
	if o.input.Remaining == 0 {
		note(s, c.Unlabelled(o.under))
	}
	return c, nil
}

func (o *settings) read(ctx context.Context, s streams, args []string) ([]manifest.Object, simulate.Settings, error) {
	objects, err := o.objects(ctx, s, args)
	if err != nil {
		return nil, simulate.Settings{}, err
	}
	known, err := o.clusterSettings(s, args)
	return objects, known, err
}

// clusterSettings must be called after reading objects, which may set the mode.
func (o *settings) clusterSettings(s streams, args []string) (simulate.Settings, error) {
	owner, err := o.readOwner(s.in)
	o.rules.Addon, o.rules.Architecture = o.mode == modeAddon, cmp.Or(o.platform.Architecture, defaultArchitecture)
	o.platform.NoLiveUpdate = o.rules.NoLiveUpdate
	o.rules.AssumedStrategy = true
	engine := &presets.Engine{RejectConflicts: o.presetConflicts == "reject", WarnEverything: o.warnings == warnEverything}
	if o.mode == modeStandalone {
		engine.Platform = &o.platform
	}
	return simulate.Settings{
		Engine: engine, Rules: &o.rules, Namespace: o.namespace, NamespaceLabels: o.namespaceLabels, Owner: owner,
		Fields: simulate.FieldValidation(o.validation), Reapply: o.reapply,
		Live: o.live(args),
	}, err
}

func (o *settings) readOwner(stdin io.Reader) ([]byte, error) {
	if o.owner == "" {
		return nil, nil
	}
	objects, err := manifest.Read(stdin, []string{o.owner}, true)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 || objects[0].Kind != string(presets.VirtualMachine) {
		return nil, fmt.Errorf("--owner %s must contain exactly one object, a VirtualMachine", o.owner)
	}
	return objects[0].JSON, nil
}

func outdated(ctx context.Context, s streams, c *simulate.Cluster, m simulate.VM) ([]simulate.Change, error) {
	changes, notes, err := c.Outdated(ctx, m)
	note(s, notes)
	return changes, err
}

func note(s streams, notes []string) {
	for _, text := range notes {
		fmt.Fprintln(s.err, "Note:", presets.EscapeLine(text))
	}
}

func warn(s streams, several bool, m simulate.VM, warnings []string) {
	about := ""
	if several {
		about = m.String() + ": "
	}
	for _, w := range warnings {
		fmt.Fprintf(s.err, "%s %s%s\n", styleOf(s.err).paint(yellow, "Warning:"), about, presets.EscapeLine(w))
	}
}

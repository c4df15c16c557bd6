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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/manifest"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

const (
	modeStandalone = "standalone"
	modeAddon      = "addon"

	// The values of --warnings.
	warnSurprises  = "Surprises"
	warnEverything = "Everything"
)

// settings are the flags of every command that plays a cluster.
type settings struct {
	source
	output string
	mode   string
	// modeGiven says that the user chose the mode.
	modeGiven       bool
	namespace       string
	namespaceLabels map[string]string
	owner           string
	presetConflicts string
	warnings        string
	platform        presets.Platform
	rules           validation.Config
	validation      string
	reapply         bool
}

// declareJudging adds the flags of commands that refuse what a cluster refuses.
func (o *settings) declareJudging(c *cobra.Command) {
	o.declareRules(c)
	values := []string{string(offline.FieldsStrict), string(offline.FieldsWarn), string(offline.FieldsIgnore)}
	c.Flags().StringVar(&o.validation, "validation", values[0], "fields that do not exist, as kubectl --validate: strict refuses the object; warn drops them with a warning; ignore drops them")
	offer(c, "validation", values)
}

// declareRules adds the flags that say how a cluster validates.
func (o *settings) declareRules(c *cobra.Command) {
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

// declare adds the flags to a command. The first of outputs is the default.
func (o *settings) declare(c *cobra.Command, outputs ...string) {
	o.source.declare(c)
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", outputs[0], "output format: "+strings.Join(outputs, ", "))
	f.StringVar(&o.mode, "mode", modeStandalone, "standalone: as in a cluster without KubeVirt, with platform defaults; addon: alongside KubeVirt, presets only, and the default if the cluster that is read has KubeVirt")
	f.StringToStringVar(&o.namespaceLabels, "namespace-labels", nil, "labels that every namespace has, beside those of the Namespace objects in -f: k=v,…")
	f.StringVar(&o.owner, "owner", "", "file with the VirtualMachine, as stored, that controls the VirtualMachineInstances in -f")
	f.BoolVar(&o.reapply, "reapply", false, "reapply the presets to VMs that a cluster has stored, as the annotation virtwright.dev/reapply does; without it they stay as they are")
	f.StringVar(&o.presetConflicts, "preset-conflicts", "warn", "when only names decide between two presets: warn, or reject the VM")
	f.StringVar(&o.warnings, "warnings", warnSurprises, "what presets warn of: Surprises, such as an overruled value; or Everything, also each value that a preset gave")
	f.StringVar(&o.platform.Architecture, "default-architecture", "", "architecture of VMs that name none (default amd64); addon: rules assume it, and without it they only warn where the architecture decides")
	f.StringVar(&o.platform.EvictionStrategy, "default-eviction-strategy", "", "standalone: eviction strategy of VMs that name none (default None)")
	f.StringVar(&o.platform.NetworkInterface, "default-network-interface", "", "standalone: binding of the default network, bridge or masquerade (default bridge)")
	f.StringVar(&o.platform.CPUModel, "default-cpu-model", "", "standalone: CPU model of VMs that name none (default host-model)")
	for flag, values := range map[string][]string{
		"output": outputs, "mode": {modeStandalone, modeAddon}, "preset-conflicts": {"warn", "reject"},
		"warnings":                  {warnSurprises, warnEverything},
		"default-network-interface": {"bridge", "masquerade"},
	} {
		offer(c, flag, values)
	}
}

// offer has shells complete a flag with values.
func offer(c *cobra.Command, flag string, values []string) {
	// It fails only for a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// check reports every flag that is wrong. args name objects of a cluster.
func (o *settings) check(c *cobra.Command, args []string, outputs ...string) error {
	o.modeGiven = c.Flags().Changed("mode")
	o.namespace = cmp.Or(*o.connection.flags.Namespace, metav1.NamespaceDefault)
	problems := []error{
		o.source.check(args),
		oneOf("--output", o.output, outputs...),
		oneOf("--mode", o.mode, modeStandalone, modeAddon),
		oneOf("--validation", o.validation, "", "strict", "warn", "ignore"),
		oneOf("--preset-conflicts", o.presetConflicts, "warn", "reject"),
		oneOf("--warnings", o.warnings, warnSurprises, warnEverything),
		oneOf("--default-network-interface", o.platform.NetworkInterface, "", "bridge", "masquerade"),
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
	return fmt.Errorf("%s must be one of %q, not %q", flag, allowed, value)
}

// cluster reads files and the cluster. Notes on stderr say what it leaves out.
func (o *settings) cluster(ctx context.Context, s streams, args []string) (*offline.Cluster, error) {
	objects, known, err := o.read(ctx, s, args)
	if err != nil {
		return nil, err
	}
	c, err := offline.NewCluster(ctx, objects, known)
	if err != nil {
		return nil, err
	}
	if len(c.Machines) == 0 && o.input.Left == 0 {
		return nil, fmt.Errorf("there is no VirtualMachine or VirtualMachineInstance in %s", o.described(args))
	}
	note(s, c.Notes)
	if o.input.Left == 0 {
		note(s, c.Unlabelled())
	}
	return c, nil
}

// read returns the objects of files and of the cluster, and what a real cluster would know.
func (o *settings) read(ctx context.Context, s streams, args []string) ([]manifest.Object, offline.Settings, error) {
	objects, err := o.objects(ctx, s, args)
	if err != nil {
		return nil, offline.Settings{}, err
	}
	known, err := o.known(s, args)
	return objects, known, err
}

// known is what a real cluster would know. Objects are read before, because they settle the mode.
func (o *settings) known(s streams, args []string) (offline.Settings, error) {
	owner, err := o.readOwner(s.in)
	o.rules.Addon, o.rules.Architecture = o.mode == modeAddon, o.platform.Architecture
	o.platform.NoLiveUpdate = o.rules.NoLiveUpdate
	engine := &presets.Engine{RejectConflicts: o.presetConflicts == "reject", WarnEverything: o.warnings == warnEverything}
	if o.mode == modeStandalone {
		engine.Platform = &o.platform
	}
	return offline.Settings{
		Engine: engine, Rules: &o.rules, Namespace: o.namespace, NamespaceLabels: o.namespaceLabels, Owner: owner,
		Fields: offline.FieldValidation(o.validation), Reapply: o.reapply,
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
		return nil, fmt.Errorf("--owner %s must hold one object, a VirtualMachine", o.owner)
	}
	return objects[0].JSON, nil
}

// outdated notes what a reapply would change on a stored machine.
func outdated(ctx context.Context, s streams, c *offline.Cluster, m offline.Machine) ([]offline.Change, error) {
	changes, notes, err := c.Outdated(ctx, m)
	note(s, notes)
	return changes, err
}

func note(s streams, notes []string) {
	for _, text := range notes {
		fmt.Fprintln(s.err, "Note:", printable(text))
	}
}

// warn tells warnings as kubectl does, naming the machine where there are several.
func warn(s streams, several bool, m offline.Machine, warnings []string) {
	about := ""
	if several {
		about = m.String() + ": "
	}
	for _, w := range warnings {
		fmt.Fprintf(s.err, "%s %s%s\n", styleOf(s.err).paint(yellow, "Warning:"), about, w)
	}
}

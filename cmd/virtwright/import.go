package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/simulate"
)

const importHelp = `Convert KubeVirt's VirtualMachineInstancePresets, instancetypes and preferences, and mutating
policies of other engines, to presets.

The presets are printed as YAML, or as a list with -o json. Fields that a preset cannot express are
printed to standard error with the reason, and in a comment above the preset.

Policies are Kyverno's ClusterPolicy, Policy and MutatingPolicy, Gatekeeper's Assign and
AssignMetadata, and MutatingAdmissionPolicies with their bindings. Constant values become defaults or
overrides. There is no preset for a rule with a restriction that presets cannot express.
docs/importing.md describes the conversion.

VMs select the preset of an instancetype or a preference by a label: instancetype, preference,
cluster-instancetype or cluster-preference, with the name as value. --vms prints the VMs of the input
with these labels instead of spec.instancetype and spec.preference. Fields that a preset cannot set
are written into the VM.

Each VM of the input is expanded before and after the conversion. If a VM would start with different
fields, --vms does not print it, the differences are printed to standard error, and the exit code
is 1.

The input is the files of -f and -k, a cluster (-A, --live), or both. Instancetypes and preferences
of a cluster are imported if a VM of the input references them.`

const importExamples = `  # Convert the objects of files
  {{program}} import -f instancetypes/ > presets.yaml

  # The presets for the VMs of a cluster, then the VMs
  {{program}} import -A > presets.yaml
  {{program}} import -A --vms > vms.yaml

  # The policies of Kyverno in a cluster
  kubectl get clusterpolicies -o yaml | {{program}} import -f - > presets.yaml`

type importCommand struct {
	settings
	vms         bool
	labelPrefix string
}

func newImport(shown string, s streams) *cobra.Command {
	o := &importCommand{settings: settings{source: source{needs: needs{filesOnly: true, imports: true}}, without: flagsForVMs}}
	c := &cobra.Command{
		Use: "import [-f FILE...] [-A] [--vms]", Short: "Convert instancetypes, preferences and policies of other engines to presets",
		Long: importHelp, Example: importExamples, Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"yaml", "json"}, func(ctx context.Context, _ []string) error { return o.run(ctx, s) }, o.checkPrefix)
	o.declareRuleFlags(c)
	mode := c.Flags().Lookup("mode")
	o.mode = modeAddon
	mode.Usage = "addon: compare with VMs under KubeVirt; standalone: compare with VMs under virtwright (default: standalone if a cluster without KubeVirt is read, otherwise addon)"
	c.Flags().BoolVar(&o.vms, "vms", false, "print the VMs that select the presets, instead of the presets")
	c.Flags().StringVar(&o.labelPrefix, "label-prefix", "", "prefix of the label keys, for example example.com/")
	return c
}

func (o *importCommand) checkPrefix(c *cobra.Command) error {
	o.forceLive = o.forceLive || c.Flags().Changed("namespace") && len(o.files) == 0
	for _, reason := range apivalidation.IsQualifiedName(o.labelPrefix + "instancetype") {
		return fmt.Errorf("--label-prefix %q: %s", o.labelPrefix, reason)
	}
	if strings.Contains(o.labelPrefix, ".") && !strings.Contains(o.labelPrefix, "/") {
		return fmt.Errorf("--label-prefix %q: must end with \"/\": use %s/", o.labelPrefix, o.labelPrefix)
	}
	return nil
}

func (o *importCommand) run(ctx context.Context, s streams) error {
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	report, err := simulate.Import(ctx, objects, known, o.labelPrefix)
	if err != nil {
		return err
	}
	note(s, report.Notes)
	if report.Others > 0 {
		note(s, []string{fmt.Sprintf("ignored policies without a rule that changes VMs: %d", report.Others)})
	}
	if len(report.Items) == 0 && len(report.Rejected) == 0 {
		return fmt.Errorf("no VirtualMachineInstancePreset, instancetype, preference or mutating policy for VMs in %s", o.described(nil))
	}
	if o.vms {
		err = printVMs(s, o.output, report.VMs)
	} else {
		err = printImported(s, o.output, report.Items)
	}
	if err != nil {
		return fmt.Errorf("cannot print the import: %w", err)
	}
	differ := summarize(s, report)
	if err := errors.Join(report.Rejected...); err != nil || !differ {
		return err
	}
	return errPrinted
}

func printImported(s streams, output string, items []fleet.Imported) error {
	list := &printer{streams: s, output: output}
	for _, item := range items {
		switch {
		case item.Preset == nil:
		case output == "json":
			list.add(item.Preset)
		default:
			text, err := rendered(output, item.Preset)
			if err != nil {
				return err
			}
			comment := "# " + strings.Join(append([]string{item.From}, remarks(item)...), "\n# ") + "\n"
			if _, err := fmt.Fprintf(s.out, "---\n%s%s", comment, strings.TrimPrefix(text, "---\n")); err != nil {
				return err
			}
		}
	}
	return list.print()
}

func remarks(item fleet.Imported) []string {
	var out []string
	for _, d := range item.Deviations {
		out = append(out, oneLine(fmt.Sprintf("not expressed: %s%s: %s", d.Path, valueText(d.Value), d.Reason)))
	}
	if len(item.Sensitive) > 0 {
		out = append(out, "its author needs the verb escalate: it sets "+strings.Join(item.Sensitive, ", "))
	}
	return out
}

func valueText(v any) string {
	if v == nil {
		return ""
	}
	return ": " + tree.Format(v)
}

func printVMs(s streams, output string, vms []simulate.ConvertedVM) error {
	list := &printer{streams: s, output: output}
	for _, vm := range vms {
		if vm.VM != nil {
			list.add(vm.VM)
		}
	}
	return list.print()
}

// summarize prints the result and reports whether a VM would differ.
func summarize(s streams, report *simulate.ImportReport) (differ bool) {
	made, deviations, differing := 0, 0, 0
	for _, item := range report.Items {
		if item.Preset != nil {
			made++
		}
		deviations += len(item.Deviations)
		for _, text := range remarks(item) {
			fmt.Fprintf(s.err, "%s: %s\n", item.From, text)
		}
	}
	for _, vm := range report.VMs {
		for _, c := range vm.Set {
			fmt.Fprintf(s.err, "%s: --vms sets %s%s, which no preset gives\n", vm.Name, c.Path, valueText(c.Before))
		}
		if len(vm.Problems)+len(vm.Changes) > 0 {
			differing++
		}
		for _, text := range vm.Problems {
			fmt.Fprintf(s.err, "%s: not compared: %s\n", vm.Name, oneLine(text))
		}
		for _, c := range vm.Changes {
			fmt.Fprintf(s.err, "%s: would differ: %s\n", vm.Name, oneLine(changeText(c)))
		}
	}
	if report.Unused > 0 {
		note(s, []string{fmt.Sprintf("ignored %s or preferences of the cluster: no VM references them", counted(report.Unused, "instancetype"))})
	}
	fmt.Fprintf(s.err, "%s; not expressed: %s; %d of %s would start as before\n",
		counted(made, "preset"), counted(deviations, "field"), len(report.VMs)-differing, counted(len(report.VMs), "VM"))
	return differing > 0
}

func changeText(c fleet.Change) string {
	text := func(v any) string {
		if v == nil {
			return "(absent)"
		}
		return strings.TrimPrefix(valueText(v), ": ")
	}
	from := ""
	if c.Preset != "" {
		from = " (preset " + c.Preset + ")"
	}
	return fmt.Sprintf("%s: %s becomes %s%s", c.Path, text(c.Before), text(c.After), from)
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/simulate"
)

const violationsHelp = `List the stored VMs that have a path that a preset forbids, or lack one that it requires, with the
message of the rule. Presets in mode Warn and Audit are included, and exempted VMs are not. VMs keep
what a later rule forbids, and updates must not add violations.

The status of a preset has the number of its violating VMs, as of the last count; this command reads
the VMs now, with your permissions.

Exit codes: 0 no violation, 1 violations, 2 wrong usage or input.`

const violationsExamples = `  # All namespaces
  {{program}} violations -A

  # Before a preset is enforced
  {{program}} violations -A --preset cluster/secure-boot -o json`

func newViolations(shown string, s streams) *cobra.Command {
	o, preset := &settings{without: flagsForReapply}, ""
	c := &cobra.Command{
		Use: "violations [-A] [-l SELECTOR] [--preset PRESET]", Short: "List stored VMs that violate forbid or require rules of presets",
		Long: violationsHelp, Example: violationsExamples, Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"table", "json", "yaml"}, func(ctx context.Context, _ []string) error { return violations(ctx, o, s, preset) })
	c.Flags().StringVar(&preset, "preset", "", "only violations of this preset: NAME, or cluster/NAME")
	_ = c.RegisterFlagCompletionFunc("preset", o.connection.completePresets) // the flag exists
	return c
}

// A violation is a violation in the output of violations.
type violation struct {
	Preset    string `json:"preset"`
	Mode      string `json:"mode"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	Message   string `json:"message"`
}

type violationReport struct {
	Violations []violation `json:"violations"`
	Checked    int         `json:"checked"`
	// VMs counts the VMs with violations.
	VMs int `json:"vms"`
}

func violations(ctx context.Context, o *settings, s streams, preset string) error {
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	all, checked, notes, err := simulate.Violations(ctx, objects, known, preset)
	if err != nil {
		return badInput(err)
	}
	note(s, notes)
	report := newViolationReport(all, checked)
	if err := o.printReport(s, report, report.table); err != nil {
		return err
	}
	if len(report.Violations) > 0 {
		return errPrinted
	}
	return nil
}

func newViolationReport(all []simulate.StoredViolation, checked int) violationReport {
	out, vms := violationReport{Violations: []violation{}, Checked: checked}, map[string]bool{}
	for _, v := range all {
		vms[v.Namespace+"/"+v.Name] = true
		out.Violations = append(out.Violations, violation{v.Preset.Ref, string(v.Preset.Mode), v.Namespace, v.Name, v.Path, v.Message})
	}
	slices.SortStableFunc(out.Violations, func(a, b violation) int { return strings.Compare(a.Preset, b.Preset) })
	out.VMs = len(vms)
	return out
}

func (r violationReport) table(s streams) error {
	var rows [][]string
	for _, v := range r.Violations {
		rows = append(rows, []string{v.Preset, v.Mode, v.Namespace, v.Name, oneLine(v.Path), oneLine(v.Message)})
	}
	if err := printTable(s.out, []string{"PRESET", "MODE", "NAMESPACE", "VM", "PATH", "MESSAGE"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "%d of %s with %s\n", r.VMs, counted(r.Checked, "VM"), counted(len(r.Violations), "violation"))
	return err
}

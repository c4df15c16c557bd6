package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/simulate"
)

const driftHelp = `List the stored VMs that a reapply of all presets would change or reject now. Causes are a
changed, new or deleted preset, changed labels of a VM or its namespace, an expired exception, or a
platform default.

The command only reads, with your permissions: VMs, presets, and the objects that they depend on. Use
the flags of your manager, for example --feature-gates. Webhooks of others and quotas are not
considered; virtwright reapply --dry-run=server asks the API server, and shows the values.

Exit codes: 0 no drift, 1 drift, 2 wrong usage or input.`

const driftExamples = `  # All namespaces
  {{program}} drift -A

  # For a script
  {{program}} drift -A -o json`

func newDrift(shown string, s streams) *cobra.Command {
	o := &settings{without: flagsForReapply}
	c := &cobra.Command{
		Use: "drift [-A] [-l SELECTOR]", Short: "List stored VMs that a reapply would change or reject",
		Long: driftHelp, Example: driftExamples, Args: flagsForFiles,
	}
	o.setUp(c, shown, []string{"table", "json", "yaml"}, func(ctx context.Context, _ []string) error { return drift(ctx, o, s) })
	o.declareRuleFlags(c)
	return c
}

// A driftedVM is a VM in the output of drift.
type driftedVM struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Effect of a reapply is change or reject.
	Effect string `json:"effect"`
	// Needs is what a running VM needs before the changes are effective: restart or live migration.
	Needs    fleet.Effect   `json:"needs,omitempty"`
	Presets  []string       `json:"presets"`
	Changes  []fleet.Change `json:"changes,omitempty"`
	Problems []string       `json:"problems,omitempty"`

	detail string
}

type driftReport struct {
	VMs      []driftedVM `json:"vms"`
	Checked  int         `json:"checked"`
	Changed  int         `json:"changed"`
	Rejected int         `json:"rejected"`
	Restart  int         `json:"restart"` // of those that change
}

func drift(ctx context.Context, o *settings, s streams) error {
	objects, known, err := o.read(ctx, s, nil)
	if err != nil {
		return err
	}
	all, notes, err := simulate.Drift(ctx, objects, known)
	if err != nil {
		return badInput(err)
	}
	note(s, notes)
	report := newDriftReport(all)
	if err := o.printReport(s, report, report.table); err != nil {
		return err
	}
	if len(report.VMs) > 0 {
		return errPrinted
	}
	return nil
}

func problemTexts(problems []simulate.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func newDriftReport(all []simulate.StoredDrift) driftReport {
	out := driftReport{VMs: []driftedVM{}, Checked: len(all)}
	for _, m := range all {
		vm := driftedVM{Namespace: m.Namespace, Name: m.Name, Presets: orEmpty(m.Presets()), Problems: problemTexts(m.Problems)}
		switch {
		case len(m.Problems) > 0:
			vm.Effect, vm.detail = "reject", strings.Join(vm.Problems, "; ")
			out.Rejected++
		case len(m.Changes) > 0:
			vm.Effect, vm.detail = "change", changesByPreset(m.Changes)
			out.Changed++
		default:
			continue
		}
		switch m.Needs {
		case fleet.EffectRestart:
			out.Restart++
			vm.Needs = m.Needs
		case fleet.EffectMigration:
			vm.Needs = m.Needs
		}
		for _, c := range m.Changes {
			vm.Changes = append(vm.Changes, c.WithoutSecrets())
		}
		out.VMs = append(out.VMs, vm)
	}
	return out
}

func (r driftReport) table(s streams) error {
	var rows [][]string
	for _, vm := range r.VMs {
		effect := vm.Effect
		if vm.Needs != "" {
			effect += ", " + string(vm.Needs)
		}
		rows = append(rows, []string{vm.Namespace, vm.Name, effect, oneLine(vm.detail)})
	}
	if err := printTable(s.out, []string{"NAMESPACE", "NAME", "EFFECT", "WHY"}, rows); err != nil {
		return err
	}
	restart := ""
	if r.Restart > 0 {
		restart = fmt.Sprintf("; %d would need a restart", r.Restart)
	}
	_, err := fmt.Fprintf(s.out, "%d of %s drifted: a reapply would change %d and reject %d%s\n", len(r.VMs), counted(r.Checked, "VM"), r.Changed, r.Rejected, restart)
	return err
}

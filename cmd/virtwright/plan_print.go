package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
)

const (
	namedVMs     = 5
	namedPresets = 20
	shownValue   = 60
)

type planPrinter struct {
	streams
	output  string
	diffs   []vmDiff
	secrets map[any]int
}

type vmDiff struct{ vm, text string }

func (p *planPrinter) visit(c offline.Compared) {
	if p.output != "diff" || c.Before == nil || c.After == nil {
		return
	}
	name := c.Namespace + "/" + c.Name
	before, after := p.withoutRecord(c.Before), p.withoutRecord(c.After)
	text, err := unified([]byte(before), []byte(after), name+" (now)", name+" (with the new presets)")
	if err == nil && text != "" {
		p.diffs = append(p.diffs, vmDiff{name, hiddenValue.ReplaceAllString(text, "(hidden)")})
	}
}

// hiddenValue replaces a secret while lines are compared.
var hiddenValue = regexp.MustCompile(`\(hidden\)#\d+`)

// hide replaces secrets beneath a path. Equal secrets get equal texts.
func (p *planPrinter) hide(path string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = p.hide(path+"."+name, v[name])
		}
	case []any:
		for i := range v {
			v[i] = p.hide(path, v[i])
		}
	default:
		if !presets.MayHoldSecret(path) {
			return v
		}
		if p.secrets == nil {
			p.secrets = map[any]int{}
		}
		if _, known := p.secrets[v]; !known {
			p.secrets[v] = len(p.secrets)
		}
		return fmt.Sprint("(hidden)#", p.secrets[v])
	}
	return v
}

func (p *planPrinter) withoutRecord(raw []byte) string {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return ""
	}
	delete(object, "status")
	p.hide("", object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, name := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
			delete(metadata, name)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, v1alpha1.AnnotationProvenance)
			delete(annotations, v1alpha1.AnnotationReapply)
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	text, err := yamlOf(object)
	if err != nil {
		return ""
	}
	return string(text)
}

func (p *planPrinter) print(plan *fleet.Plan) error {
	switch p.output {
	case "json":
		return printJSON(p.out, newPlanned(plan))
	case "markdown":
		_, err := fmt.Fprint(p.out, markdown(plan))
		return err
	}
	var text strings.Builder
	planText(&text, styleOf(p.out), plan)
	slices.SortFunc(p.diffs, func(a, b vmDiff) int { return cmp.Compare(a.vm, b.vm) })
	for _, d := range p.diffs {
		text.WriteString("\n" + styleOf(p.out).difference(d.text))
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}

type planned struct {
	*fleet.Plan
	Conflicts []plannedFinding `json:"conflicts"`
	Solved    []plannedFinding `json:"solved"`
}

type plannedFinding struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"`
	Preset    string `json:"preset"`
	Other     string `json:"other"`
	Message   string `json:"message"`
}

func newPlanned(plan *fleet.Plan) planned {
	plan.Presets, plan.Admitted = orEmpty(plan.Presets), orEmpty(plan.Admitted)
	convert := func(found []fleet.Finding) []plannedFinding {
		out := make([]plannedFinding, 0, len(found))
		for _, f := range found {
			out = append(out, plannedFinding{f.ID, f.Preset.Namespace, f.Preset.Ref, f.Other.Ref, f.Message})
		}
		return out
	}
	return planned{plan, convert(plan.Conflicts), convert(plan.Solved)}
}

func planSummary(plan *fleet.Plan) []string {
	count := map[string]int{}
	for _, c := range plan.Presets {
		count[c.Action]++
	}
	var actions []string
	for _, action := range []string{"added", "changed", "deleted"} {
		if count[action] > 0 {
			actions = append(actions, fmt.Sprint(count[action], " ", action))
		}
	}
	lines := []string{"Presets: " + cmp.Or(strings.Join(actions, ", "), "none differs")}
	vms := []string{fmt.Sprintf("%d of %s change", plan.Affected, counted(plan.VMs, "VM"))}
	refused := 0
	for _, r := range plan.Refused {
		refused += len(r.VMs)
	}
	for _, part := range []struct {
		count int
		text  string
	}{
		{refused, "would be rejected"}, {len(plan.Admitted), "would no longer be rejected"},
		{plan.Restart, "running would need a restart"}, {plan.Migrate, "running would need a live migration"},
	} {
		if part.count > 0 {
			vms = append(vms, fmt.Sprint(part.count, " ", part.text))
		}
	}
	lines = append(lines, "VMs: "+strings.Join(vms, ", "))
	if len(plan.Conflicts)+len(plan.Solved) > 0 {
		lines = append(lines, fmt.Sprintf("Conflicts: %d new, %d solved", len(plan.Conflicts), len(plan.Solved)))
	}
	return lines
}

func planText(out io.Writer, colours style, plan *fleet.Plan) {
	for _, line := range planSummary(plan) {
		fmt.Fprintln(out, line)
	}
	for i, c := range plan.Presets {
		if i == namedPresets {
			fmt.Fprintf(out, "  and %d more\n", len(plan.Presets)-i)
			break
		}
		fmt.Fprintf(out, "  %-8s %s\n", c.Action, presetName(c.Namespace, c.Preset))
	}
	section := func(colour, title string, n int) bool {
		if n > 0 {
			fmt.Fprintf(out, "\n%s\n", colours.paint(colour, title))
		}
		return n > 0
	}
	if section(red, "REJECTED", len(plan.Refused)) {
		textGroups(out, plan.Refused)
	}
	if section(red, "NEW CONFLICTS", len(plan.Conflicts)) {
		findings(out, plan.Conflicts)
	}
	if section(cyan, "CHANGES", len(plan.Groups)) {
		for _, g := range plan.Groups {
			fmt.Fprintf(out, "  %s%s\n", counted(len(g.VMs), "VM"), runningText(g))
			changeTable(out, g.Changes)
			fmt.Fprintf(out, "    %s\n", someVMs(g.VMs))
		}
	}
	if section(yellow, "NEW WARNINGS", len(plan.Warned)) {
		textGroups(out, plan.Warned)
	}
	if section(green, "NO LONGER REJECTED", len(plan.Admitted)) {
		fmt.Fprintf(out, "  %s\n", someVMs(plan.Admitted))
	}
	if section(green, "SOLVED CONFLICTS", len(plan.Solved)) {
		findings(out, plan.Solved)
	}
}

func presetName(namespace, ref string) string {
	if namespace == "" {
		return presets.EscapeLine(ref)
	}
	return presets.EscapeLine(namespace + "/" + ref)
}

func textGroups(out io.Writer, groups []*fleet.Refused) {
	for _, r := range groups {
		fmt.Fprintf(out, "  %s: %s\n", counted(len(r.VMs), "VM"), someVMs(r.VMs))
		for _, text := range r.Texts {
			fmt.Fprintf(out, "    %s\n", oneLine(text))
		}
	}
}

func findings(out io.Writer, found []fleet.Finding) {
	for _, f := range found {
		fmt.Fprintf(out, "  %s %s: %s\n", f.ID, presetName(f.Preset.Namespace, f.Preset.Ref), oneLine(f.Message))
	}
}

func runningText(g *fleet.Group) string {
	switch {
	case g.Running == 0:
		return ""
	case g.Effect == fleet.EffectNone:
		return fmt.Sprintf(", %d running", g.Running)
	}
	return fmt.Sprintf(", %d running: %s", g.Running, g.Effect)
}

func changeTable(out io.Writer, changes []fleet.Change) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, c := range changes {
		fmt.Fprintf(w, "    %s\t%s\t%s\t%s\n", presets.EscapeLine(c.Path), fromTo(c), c.Effect, cmp.Or(c.Preset, "platform or user"))
	}
	_ = w.Flush() // out reports its errors itself
}

func fromTo(c fleet.Change) string { return planValue(c.Before) + " → " + planValue(c.After) }

func planValue(v any) string {
	if v == nil {
		return "(none)"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return presets.Truncate(presets.EscapeLine(strings.Trim(string(text), `"`)), shownValue)
}

func someVMs(vms []string) string {
	text := strings.Join(vms[:min(len(vms), namedVMs)], ", ")
	if more := len(vms) - namedVMs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return presets.EscapeLine(text)
}

func markdown(plan *fleet.Plan) string {
	var out strings.Builder
	out.WriteString("### What these presets change\n\n")
	for _, line := range planSummary(plan) {
		fmt.Fprintf(&out, "- %s\n", line)
	}
	for _, c := range plan.Presets {
		fmt.Fprintf(&out, "  - %s: %s\n", c.Action, literal(presetName(c.Namespace, c.Preset)))
	}
	lists := func(title string, groups []*fleet.Refused) {
		for i, r := range groups {
			if i == 0 {
				fmt.Fprintf(&out, "\n#### %s\n\n", title)
			}
			fmt.Fprintf(&out, "- %s: %s\n", counted(len(r.VMs), "VM"), literal(someVMs(r.VMs)))
			for _, text := range r.Texts {
				fmt.Fprintf(&out, "  - %s\n", literal(text))
			}
		}
	}
	found := func(title string, list []fleet.Finding) {
		for i, f := range list {
			if i == 0 {
				fmt.Fprintf(&out, "\n#### %s\n\n", title)
			}
			fmt.Fprintf(&out, "- [%s](%s#%s) %s: %s\n", f.ID, lintDocs, strings.ToLower(f.ID), literal(presetName(f.Preset.Namespace, f.Preset.Ref)), literal(f.Message))
		}
	}
	lists("VMs that would be rejected", plan.Refused)
	found("New conflicts", plan.Conflicts)
	for i, g := range plan.Groups {
		if i == 0 {
			out.WriteString("\n#### Changes\n")
		}
		fmt.Fprintf(&out, "\n**%s%s**: %s\n\n| field | now | new | running VMs | preset |\n|---|---|---|---|---|\n", counted(len(g.VMs), "VM"), runningText(g), literal(someVMs(g.VMs)))
		for _, c := range g.Changes {
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", tableCell(c.Path), tableCell(planValue(c.Before)), tableCell(planValue(c.After)), c.Effect, cmp.Or(tableCell(c.Preset), "platform or user"))
		}
	}
	lists("New warnings", plan.Warned)
	if len(plan.Admitted) > 0 {
		fmt.Fprintf(&out, "\n#### VMs that would no longer be rejected\n\n- %s\n", literal(someVMs(plan.Admitted)))
	}
	found("Solved conflicts", plan.Solved)
	return out.String()
}

// literal formats text as Markdown code, in which forges expand neither mentions nor links.
func literal(text string) string {
	text = oneLine(text)
	if text == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fence + text + fence
}

func tableCell(text string) string { return strings.ReplaceAll(literal(text), "|", `\|`) }

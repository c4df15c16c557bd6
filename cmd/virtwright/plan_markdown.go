package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets/tree"
)

// Forges limit a comment to 65,536 characters.
const (
	maxComment    = 60_000
	cutNote       = 1_000 // characters for the sentence about omissions
	commentRows   = 30    // of one group
	commentTexts  = 20    // of one group
	commentLength = 300   // of one text
)

// A forgeComment is Markdown of limited length. It counts what does not fit, by kind.
type forgeComment struct {
	strings.Builder
	cut map[string]int
}

// section adds the parts that fit, with a title before the first one.
func (c *forgeComment) section(title, kind string, parts []string) {
	for _, part := range parts {
		if c.Len()+len(title)+len(part) > maxComment-cutNote {
			c.cut[kind]++
			continue
		}
		c.WriteString(title + part)
		title = ""
	}
}

// finish ends a comment that lacks parts with a sentence that counts them.
func (c *forgeComment) finish() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.cut)) {
		parts = append(parts, counted(c.cut[kind], kind))
	}
	if len(parts) > 0 {
		fmt.Fprintf(c, "\nThis comment is too long for a forge and was cut. It leaves out %s; `-o table` and `-o json` show them.\n", strings.Join(parts, ", "))
	}
	return c.String()
}

func markdown(plan *fleet.Plan) string {
	c := &forgeComment{cut: map[string]int{}}
	c.WriteString("### What these presets change\n\n")
	for _, line := range planSummary(plan) {
		fmt.Fprintf(c, "- %s\n", line)
	}
	c.objects(plan)
	c.section("\n#### VMs that would be rejected\n\n", "rejection group", c.texts(plan.Rejected))
	c.section("\n#### New conflicts\n\n", "new conflict", findingItems(plan.Conflicts))
	c.section("\n#### Changes\n", "change group", c.groups(plan.Groups))
	if changesRunState(plan) {
		c.section("\n", "note", []string{runStateNote + "\n"})
	}
	c.section("\n#### New warnings\n\n", "warning group", c.texts(plan.Warned))
	if len(plan.Admitted) > 0 {
		c.section("\n#### VMs that would no longer be rejected\n\n", "VM list", []string{"- " + literal(someVMs(plan.Admitted)) + "\n"})
	}
	c.section("\n#### Solved conflicts\n\n", "solved conflict", findingItems(plan.Solved))
	return c.finish()
}

// objects lists all titles before fields.
func (c *forgeComment) objects(plan *fleet.Plan) {
	objects, more := plannedObjects(plan)
	var titles, fields []string
	for _, o := range objects {
		title := fmt.Sprintf("  - %s: %s%s", o.Action, o.kind, literal(o.name()))
		if o.Loosens {
			title += " **loosens**"
		}
		if users := o.users(); users != "" {
			title += ": " + literal(users)
		}
		titles = append(titles, title+"\n")
		edits, rest := o.edits()
		for _, e := range edits {
			name := literal(o.kind + o.name())
			fields = append(fields, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, tableCell(e.Field), tableCell(planValue(e.Before)), tableCell(planValue(e.After)), loosens(e.Loosens)))
		}
		if rest > 0 {
			c.cut["preset field"] += rest
		}
	}
	if more > 0 {
		titles = append(titles, fmt.Sprintf("  - and %d more\n", more))
	}
	c.section("", "preset", titles)
	c.section("\n| preset | field | old | new | effect |\n|---|---|---|---|---|\n", "preset field", fields)
}

func (c *forgeComment) texts(groups []*fleet.Rejected) []string {
	out := make([]string, 0, len(groups))
	for _, r := range groups {
		var text strings.Builder
		fmt.Fprintf(&text, "- %s: %s\n", counted(len(r.VMs), "VM"), literal(someVMs(r.VMs)))
		shown := r.Texts[:min(len(r.Texts), commentTexts)]
		for _, line := range shown {
			fmt.Fprintf(&text, "  - %s\n", literal(tree.Truncate(oneLine(line), commentLength)))
		}
		if more := len(r.Texts) - len(shown); more > 0 {
			c.cut["message"] += more
		}
		out = append(out, text.String())
	}
	return out
}

func (c *forgeComment) groups(groups []*fleet.Group) []string {
	out := make([]string, 0, len(groups))
	for _, g := range groups {
		var text strings.Builder
		fmt.Fprintf(&text, "\n**%s%s**: %s\n\n| field | now | new | running VMs | preset |\n|---|---|---|---|---|\n", counted(len(g.VMs), "VM"), runningText(g), literal(someVMs(g.VMs)))
		shown := g.Changes[:min(len(g.Changes), commentRows)]
		for _, change := range shown {
			fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", tableCell(change.Path), tableCell(planValue(change.Before)), tableCell(planValue(change.After)), change.Effect, cmp.Or(tableCell(change.Preset), "no preset"))
		}
		if more := len(g.Changes) - len(shown); more > 0 {
			c.cut["VM field"] += more
		}
		out = append(out, text.String())
	}
	return out
}

func findingItems(list []fleet.Finding) []string {
	out := make([]string, 0, len(list))
	for _, f := range list {
		out = append(out, fmt.Sprintf("- [%s](%s#%s) %s: %s\n", f.ID, lintDocs, strings.ToLower(f.ID), literal(presetName(f.Preset.Namespace, f.Preset.Ref)), literal(f.Message)))
	}
	return out
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

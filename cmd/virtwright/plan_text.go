package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/fleet"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

func planSummary(plan *fleet.Plan) []string {
	lines := []string{"Presets: " + cmp.Or(actions(plan.Presets), "no changes")}
	for _, other := range []struct {
		title   string
		changes []*fleet.ObjectChange
	}{{"Exceptions: ", plan.Exceptions}, {"Namespaces: ", plan.Namespaces}, {"Policies: ", plan.Policies}} {
		if len(other.changes) > 0 {
			lines = append(lines, other.title+actions(other.changes))
		}
	}
	changed, rejected := plan.Counts()
	vms := []string{fmt.Sprintf("%d of %s change", changed, counted(plan.VMs, "VM"))}
	for _, part := range []struct {
		count int
		text  string
	}{
		{rejected, "would be rejected"}, {len(plan.Admitted), "would no longer be rejected"},
		{len(plan.StillRejected), "rejected before and after, so not compared"},
		{plan.Restart, "running would need a restart"}, {plan.Migrate, "running would need a live migration"},
	} {
		if part.count > 0 {
			vms = append(vms, fmt.Sprint(part.count, " ", part.text))
		}
	}
	lines = append(lines, "VMs: "+strings.Join(vms, ", "))
	for _, r := range plan.Rollouts {
		lines = append(lines, stagedText(r))
	}
	if len(plan.Conflicts)+len(plan.Solved) > 0 {
		lines = append(lines, fmt.Sprintf("Conflicts: %d new, %d solved", len(plan.Conflicts), len(plan.Solved)))
	}
	return lines
}

// stagedText names the waves in which VMs change.
func stagedText(r *fleet.Staged) string {
	var waves []string
	for _, w := range r.Waves {
		text := fmt.Sprintf("%s %s", w.Name, counted(w.VMs, "VM"))
		if w.Approval {
			text += " after an approval"
		}
		waves = append(waves, text)
	}
	if r.Held > 0 {
		waves = append(waves, fmt.Sprint(r.Held, " left out"))
	}
	return "Waves of PresetRollout " + r.Rollout + ": " + strings.Join(waves, ", ")
}

func planText(out io.Writer, colours style, plan *fleet.Plan) {
	for _, line := range planSummary(plan) {
		fmt.Fprintln(out, line)
	}
	objectTable(out, colours, plan)
	section := func(colour, title string, n int) bool {
		if n > 0 {
			fmt.Fprintf(out, "\n%s\n", colours.paint(colour, title))
		}
		return n > 0
	}
	if section(red, "REJECTED", len(plan.Rejected)) {
		textGroups(out, plan.Rejected)
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
		if changesRunState(plan) {
			fmt.Fprintf(out, "  %s\n", runStateNote)
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

// actions counts the objects that differ, and those that loosen.
func actions(changes []*fleet.ObjectChange) string {
	count, loosening := map[string]int{}, 0
	for _, c := range changes {
		count[c.Action]++
		if c.Loosens {
			loosening++
		}
	}
	var out []string
	for _, action := range []string{"added", "changed", "deleted"} {
		if count[action] > 0 {
			out = append(out, fmt.Sprint(count[action], " ", action))
		}
	}
	text := strings.Join(out, ", ")
	switch {
	case loosening == 1:
		text += "; 1 loosens"
	case loosening > 1:
		text += fmt.Sprintf("; %d loosen", loosening)
	}
	return text
}

// A plannedObject is a preset, an exception, a namespace or a policy that differs.
type plannedObject struct {
	*fleet.ObjectChange
	kind string
}

// plannedObjects returns loosening objects first, and how many of the others it leaves out.
func plannedObjects(plan *fleet.Plan) (out []plannedObject, more int) {
	for _, of := range []struct {
		kind    string
		changes []*fleet.ObjectChange
	}{{"", plan.Presets}, {"exception ", plan.Exceptions}, {"namespace ", plan.Namespaces}, {"policy ", plan.Policies}} {
		for _, c := range of.changes {
			out = append(out, plannedObject{c, of.kind})
		}
	}
	rest := func(o plannedObject) bool { return !o.Loosens }
	slices.SortStableFunc(out, func(a, b plannedObject) int { return count(rest(a)) - count(rest(b)) })
	shown := len(out)
	if first := slices.IndexFunc(out, rest); first >= 0 {
		shown = min(shown, max(first, namedObjects))
	}
	return out[:shown], len(out) - shown
}

func (o plannedObject) name() string { return presetName(o.Namespace, o.Name) }

func loosens(is bool) string {
	if is {
		return "loosens"
	}
	return ""
}

// users says which VMs the object affects; empty for presets.
func (o plannedObject) users() string {
	verbs, isAffecting := objectVerbs[o.kind]
	if !isAffecting {
		return ""
	}
	verb := verbs[1]
	if len(o.VMs) == 1 {
		verb = verbs[0]
	}
	text := counted(len(o.VMs), "VM") + " " + verb
	if len(o.VMs) > 0 {
		text += ": " + someVMs(o.VMs)
	}
	return text
}

// objectVerbs says what one VM and several VMs do, by kind of an object.
var objectVerbs = map[string][2]string{
	"exception ": {"uses it", "use it"}, "namespace ": {"changes or is rejected", "change or are rejected"},
}

// edits returns all loosening edits and the first others, and how many it leaves out.
func (o plannedObject) edits() (shown []fleet.Edit, more int) {
	end := len(o.Edits)
	if first := slices.IndexFunc(o.Edits, func(e fleet.Edit) bool { return !e.Loosens }); first >= 0 {
		end = min(end, max(first, namedEdits))
	}
	return o.Edits[:end], len(o.Edits) - end
}

func objectTable(out io.Writer, colours style, plan *fleet.Plan) {
	objects, more := plannedObjects(plan)
	for _, o := range objects {
		title := fmt.Sprintf("  %-8s %s%s", o.Action, o.kind, o.name())
		if o.Loosens {
			title += "  " + colours.paint(red, loosens(true))
		}
		fmt.Fprintln(out, title)
		if users := o.users(); users != "" {
			fmt.Fprintf(out, "    %s\n", users)
		}
		var rows [][]string
		edits, rest := o.edits()
		for _, e := range edits {
			mark := ""
			if e.Loosens {
				mark = "  " + loosens(true)
			}
			rows = append(rows, []string{"    " + e.Field, planValue(e.Before) + " → " + planValue(e.After) + mark})
		}
		_ = align(out, rows, planGap, math.MaxInt) // out reports its errors itself
		if rest > 0 {
			fmt.Fprintf(out, "    and %d more fields\n", rest)
		}
	}
	if more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}

const runStateNote = "Presets do not start or stop stored VMs: a changed run state is only for new VMs."

func changesRunState(plan *fleet.Plan) bool {
	return slices.ContainsFunc(plan.Groups, func(g *fleet.Group) bool {
		return slices.ContainsFunc(g.Changes, fleet.Change.IsRunState)
	})
}

func presetName(namespace, ref string) string {
	if namespace == "" {
		return presets.EscapeLine(ref)
	}
	return presets.EscapeLine(namespace + "/" + ref)
}

func textGroups(out io.Writer, groups []*fleet.Rejected) {
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

// planGap is the space between the columns of a plan.
const planGap = 2

func changeTable(out io.Writer, changes []fleet.Change) {
	var rows [][]string
	for _, c := range changes {
		rows = append(rows, []string{"    " + c.Path, fromTo(c), string(c.Effect), cmp.Or(c.Preset, "no preset")})
	}
	_ = align(out, rows, planGap, math.MaxInt) // out reports its errors itself
}

func fromTo(c fleet.Change) string { return planValue(c.Before) + " → " + planValue(c.After) }

func planValue(v any) string {
	if v == nil {
		return "(none)"
	}
	text, isText := v.(string)
	if !isText {
		text = tree.Format(v)
	}
	return tree.Truncate(presets.EscapeLine(text), shownValue)
}

func someVMs(vms []string) string { return presets.EscapeLine(tree.List(vms, namedVMs)) }

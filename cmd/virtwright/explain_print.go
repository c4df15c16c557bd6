package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/simulate"
	"github.com/virtwright/virtwright/simulate/originreport"
)

// The widths of columns: of most values, of values in a crowded table, and of a table of fields.
const (
	cellWidth     = 48
	minValueWidth = 16
	tableWidth    = 100
)

type explained struct {
	Kind      string              `json:"kind"`
	Namespace string              `json:"namespace"`
	Name      string              `json:"name"`
	File      string              `json:"file"`
	Document  int                 `json:"document"`
	Fields    []explainedField    `json:"fields"`
	Presets   []explainedPreset   `json:"presets,omitempty"`
	HeldBack  []explainedHeldBack `json:"heldBack,omitempty"`
	Conflicts []string            `json:"conflicts,omitempty"`
	// Outdated lists the fields of a stored VM that a reapply would change.
	Outdated []simulate.Change `json:"outdated,omitempty"`

	vm simulate.VM
}

type explainedField struct {
	Path    string `json:"path"`
	Value   any    `json:"value,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	originreport.Source
	// Overruled is true if a preset replaced the user's value, Was.
	Overruled bool `json:"overruled,omitempty"`
	Was       any  `json:"was,omitempty"`
	// Computed is the CEL expression that computed the value.
	Computed string           `json:"computed,omitempty"`
	Beat     []explainedClaim `json:"beat,omitempty"`

	// shown is the path beneath under.
	shown, under string
}

type explainedClaim struct {
	originreport.Source
	// Path of the value, if the field is an alternative to it.
	Path  string `json:"path,omitempty"`
	Value any    `json:"value"`
}

type explainedPreset struct {
	Preset    string `json:"preset"`
	Namespace string `json:"namespace,omitempty"`
	Mode      string `json:"mode"`
	Matched   bool   `json:"matched"`
	Reason    string `json:"reason"`
	*presets.Counts
}

type explainedHeldBack struct {
	Preset string   `json:"preset"`
	Paths  []string `json:"paths"`
	Reason string   `json:"reason"`
}

// commonParent returns the innermost parent of all fields. If that is a parent of the guest's
// specification, commonParent returns the specification: most fields are beneath it.
func commonParent(fields []presets.Origin) provenance.Path {
	guest := provenance.Of("spec", "template", "spec")
	var common provenance.Path
	for i, o := range fields {
		if i == 0 {
			common = o.Path
		}
		common = common[:min(len(common), len(o.Path)-1)]
		for !o.Path.HasPrefix(common) {
			common = common[:len(common)-1]
		}
	}
	if guest.HasPrefix(common) {
		return guest
	}
	return common
}

func (p *explanations) tables() error {
	for i, object := range p.objects {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		e, ok := object.(*explained)
		if !ok { // unreachable: only explanations are added
			continue
		}
		if err := e.table(p.out, p.all); err != nil {
			return fmt.Errorf("cannot print %s: %w", e.vm, err)
		}
	}
	return nil
}

func newExplained(m simulate.VM, x *presets.Explanation, outdated []simulate.Change) *explained {
	e := &explained{
		Kind: string(m.Kind), Namespace: m.Namespace, Name: m.Name,
		File: m.Where.File, Document: m.Where.Document, Fields: []explainedField{}, Outdated: outdated, vm: m,
	}
	under := commonParent(x.Fields)
	damaged := x.Result == nil && m.Damaged() != nil
	for _, o := range x.Fields {
		at := explainedField{Path: o.Path.String(), Value: o.Value, Removed: o.Value == nil, Source: originreport.SourceOf(o, damaged), Overruled: o.Overruled, Was: o.Was, Computed: o.Computed}
		for _, claim := range o.Losing {
			if claim.Excluded {
				continue
			}
			at.Beat = append(at.Beat, explainedClaim{originreport.RecordedSource(claim.By), claim.Path.String(), claim.Value})
		}
		at.shown = at.Path
		if o.Path.HasPrefix(under) && len(o.Path) > len(under) {
			at.shown, at.under = "  "+o.Path[len(under):].String(), under.String()+":"
		}
		e.Fields = append(e.Fields, at)
	}
	for _, v := range x.Presets {
		e.Presets = append(e.Presets, explainedPreset{v.Preset, v.Namespace, string(v.Mode), v.Matched, v.Reason, v.Counts})
	}
	for _, h := range x.Skipped {
		e.HeldBack = append(e.HeldBack, explainedHeldBack{h.Preset, h.Paths, h.Reason})
	}
	if x.Result != nil {
		for _, c := range x.Result.Conflicts {
			e.Conflicts = append(e.Conflicts, c.String())
		}
	}
	return e
}

// colourOf returns the colour of a class of origins, which pages and pictures use, too.
func colourOf(class string) string {
	return map[string]string{
		originreport.ClassUser: blue, originreport.ClassDefault: green, originreport.ClassOverride: yellow,
		originreport.ClassInstancetype: magenta, originreport.ClassLost: red, originreport.ClassPlatform: grey, originreport.ClassUnknown: grey,
	}[class]
}

// table prints the explanation. Presets that did not match are left out, unless all is true.
func (e *explained) table(out io.Writer, all bool) error {
	fmt.Fprintf(out, "%s (%s)\n", e.vm, e.vm.Where)
	var held, outdated [][]string
	for _, h := range e.HeldBack {
		held = append(held, []string{h.Preset, strings.Join(h.Paths, ", "), h.Reason})
	}
	for _, o := range e.Outdated {
		outdated = append(outdated, []string{o.Path, orNone(o.Stored), orNone(o.Reapplied), o.By()})
	}
	matched, more := e.presetRows(all)
	for _, t := range []struct {
		header []string
		rows   [][]string
		note   string
	}{
		{[]string{"FIELD", "VALUE", "FROM"}, e.fieldRows(styleOf(out)), ""},
		{[]string{"PRESET", "MODE", "MATCHED", "WHY"}, matched, more},
		{[]string{"PRESET", "HELD BACK", "WHY"}, held, ""},
		{[]string{"OUTDATED", "STORED", "REAPPLIED", "FROM"}, outdated, ""},
	} {
		if len(t.rows) > 0 || t.note != "" {
			fmt.Fprintln(out)
		}
		if err := printTable(out, t.header, t.rows); err != nil {
			return err
		}
		fmt.Fprint(out, t.note)
	}
	for _, c := range e.Conflicts {
		fmt.Fprintf(out, "\nConflict: %s\n", presets.EscapeLine(c))
	}
	return nil
}

// presetRows returns the presets that matched, then the others if all is true, else a note about
// them.
func (e *explained) presetRows(all bool) (rows [][]string, note string) {
	var others [][]string
	for _, p := range e.Presets {
		if p.Matched {
			rows = append(rows, []string{p.Preset, p.Mode, "yes", p.Reason})
		} else {
			others = append(others, []string{p.Preset, p.Mode, "no", p.Reason})
		}
	}
	if all {
		return append(rows, others...), ""
	}
	if len(others) > 0 {
		note = counted(len(others), "preset") + " did not match: --all lists the reasons\n"
	}
	return rows, note
}

// fieldRows lists the fields, each with the values that it replaced. A title has the beginning that
// paths have in common.
func (e *explained) fieldRows(colours style) [][]string {
	path, from := 0, 0
	for _, at := range e.Fields {
		path, from = max(path, uniseg.StringWidth(at.shown)), max(from, uniseg.StringWidth(at.String()))
	}
	room := min(cellWidth, max(minValueWidth, tableWidth-min(path, maxFirst)-from-2*columnGap))
	var rows [][]string
	title := ""
	for _, at := range e.Fields {
		if at.under != title {
			title = at.under
			rows = append(rows, []string{title})
		}
		value := "(removed)"
		if !at.Removed {
			value = cellOf(at.Value, room)
		}
		rows = append(rows, []string{at.shown, value, colours.paint(colourOf(at.Class()), at.String())})
		if at.Computed != "" {
			rows = append(rows, []string{cut("    computed by "+presets.EscapeLine(at.Computed), tableWidth)})
		}
		for _, lost := range at.insteadOf() {
			rows = append(rows, []string{strings.TrimRight("    "+at.relation(lost)+" "+lost.Path, " "), cellOf(lost.Value, room), colours.paint(colourOf(lost.Class()), lost.String())})
		}
	}
	return rows
}

// insteadOf returns the values that lost, first that of the user.
func (at explainedField) insteadOf() []explainedClaim {
	var out []explainedClaim
	if at.Overruled {
		was := explainedClaim{Source: originreport.Source{From: "user"}, Value: at.Was}
		if at.Was == nil {
			was.Value = "(too large to be kept)"
		}
		out = append(out, was)
	}
	return append(out, at.Beat...)
}

// relation names what a value that lost is to the value of the field.
func (at explainedField) relation(lost explainedClaim) string {
	if lost.Path == "" && tree.Format(lost.Value) == tree.Format(at.Value) {
		return "also"
	}
	return "instead of"
}

func orNone(value any) string {
	if value == nil {
		return "(none)"
	}
	return cell(value)
}

func cell(value any) string { return cellOf(value, cellWidth) }

// cellOf formats a value in one line of at most width columns.
func cellOf(value any, width int) string {
	text, ok := value.(string)
	if !ok || strings.ContainsAny(text, "\n\t\r") || text == "" {
		text = tree.Format(value)
	}
	return cut(presets.EscapeLine(text), width)
}

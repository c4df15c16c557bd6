package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/annotated"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

const cellWidth = 48

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
	Outdated []offline.Change `json:"outdated,omitempty"`

	vm offline.VM
}

type explainedField struct {
	Path    string `json:"path"`
	Value   any    `json:"value,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	annotated.Source
	// Overruled is true if a preset replaced the user's value, Was.
	Overruled bool `json:"overruled,omitempty"`
	Was       any  `json:"was,omitempty"`
	// Computed is the CEL expression that computed the value.
	Computed string           `json:"computed,omitempty"`
	Beat     []explainedClaim `json:"beat,omitempty"`
}

type explainedClaim struct {
	annotated.Source
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

func (p *printer) tables() error {
	for i, object := range p.objects {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		e, ok := object.(*explained)
		if !ok { // unreachable: only explanations are added
			continue
		}
		if err := e.table(p.out); err != nil {
			return fmt.Errorf("cannot print %s: %w", e.vm, err)
		}
	}
	return nil
}

func newExplained(m offline.VM, x *presets.Explanation, outdated []offline.Change) *explained {
	e := &explained{
		Kind: string(m.Kind), Namespace: m.Namespace, Name: m.Name,
		File: m.Where.File, Document: m.Where.Document, Fields: []explainedField{}, Outdated: outdated, vm: m,
	}
	damaged := x.Result == nil && m.Damaged() != nil
	for _, o := range x.Fields {
		at := explainedField{Path: o.Path.String(), Value: o.Value, Removed: o.Value == nil, Source: annotated.SourceOf(o, damaged), Overruled: o.Overruled, Was: o.Was, Computed: o.Computed}
		for _, claim := range o.Losing {
			at.Beat = append(at.Beat, explainedClaim{annotated.RecordedSource(claim.By), claim.Path.String(), claim.Value})
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

func colourOf(s annotated.Source) string {
	switch {
	case s.From == "preset" && s.Role == provenance.Default.String():
		return green
	case s.From == "preset":
		return yellow
	case s.From == "platform":
		return cyan
	case s.From == "instancetype", s.From == "preference":
		return magenta
	}
	return plainText
}

func (e *explained) table(out io.Writer) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	colours := styleOf(out)
	fmt.Fprintf(w, "%s (%s)\n\nFIELD\tVALUE\t%s\tBEAT\n", e.vm, e.vm.Where, colours.paint(plainText, "FROM"))
	for _, at := range e.Fields {
		value := "(removed)"
		if !at.Removed {
			value = cell(at.Value)
		}
		from := at.String()
		if at.Computed != "" {
			from += ", computed: " + cell(at.Computed)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", at.Path, value, colours.paint(colourOf(at.Source), from), at.beaten())
	}
	if len(e.Presets) > 0 {
		fmt.Fprint(w, "\nPRESET\tMODE\tMATCHED\tWHY\n")
	}
	for _, p := range e.Presets {
		matched := "no"
		if p.Matched {
			matched = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Preset, p.Mode, matched, p.Reason)
	}
	if len(e.HeldBack) > 0 {
		fmt.Fprint(w, "\nPRESET\tHELD BACK\tWHY\n")
	}
	for _, h := range e.HeldBack {
		fmt.Fprintf(w, "%s\t%s\t%s\n", h.Preset, strings.Join(h.Paths, ", "), h.Reason)
	}
	if len(e.Outdated) > 0 {
		fmt.Fprint(w, "\nOUTDATED\tSTORED\tREAPPLIED\tFROM\n")
	}
	for _, o := range e.Outdated {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.Path, orNone(o.Stored), orNone(o.Reapplied), o.By())
	}
	for _, c := range e.Conflicts {
		fmt.Fprintf(w, "\nConflict: %s\n", c)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeTable(out, text.String())
}

// writeTable removes the padding that a tabwriter adds after empty last cells.
func writeTable(out io.Writer, table string) error {
	for line := range strings.Lines(table) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func (at explainedField) beaten() string {
	var out []string
	if at.Overruled {
		was := cell(at.Was)
		if at.Was == nil {
			was = "a value too large to be kept"
		}
		out = append(out, "user: "+was)
	}
	for _, claim := range at.Beat {
		text := cell(claim.Value)
		if claim.Path != "" {
			text = claim.Path + "=" + text
		}
		out = append(out, claim.String()+": "+text)
	}
	return strings.Join(out, "; ")
}

func orNone(value any) string {
	if value == nil {
		return "(none)"
	}
	return cell(value)
}

func cell(value any) string {
	text, ok := value.(string)
	if !ok || strings.ContainsAny(text, "\n\t\r") || text == "" {
		text = presets.FormatValue(value)
	}
	if utf8.RuneCountInString(text) > cellWidth {
		text = string([]rune(text)[:cellWidth-1]) + "…"
	}
	return text
}

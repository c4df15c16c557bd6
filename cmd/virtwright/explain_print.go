package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
)

// cellWidth is how long a value in a table may be, in characters.
const cellWidth = 48

// explained is an explanation in the output format json.
type explained struct {
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	File      string          `json:"file"`
	Document  int             `json:"document"`
	Fields    []explainedAt   `json:"fields"`
	Presets   []explainedWith `json:"presets,omitempty"`
	HeldBack  []explainedHeld `json:"heldBack,omitempty"`
	Conflicts []string        `json:"conflicts,omitempty"`
	// Outdated are the fields of a stored VM that a reapply would change.
	Outdated []offline.Change `json:"outdated,omitempty"`

	machine offline.Machine
}

type explainedAt struct {
	Path string `json:"path"`
	// Value is absent where the field was removed.
	Value   any  `json:"value,omitempty"`
	Removed bool `json:"removed,omitempty"`
	explainedSource
	// Overruled says that the user's value, Was, lost.
	Overruled bool `json:"overruled,omitempty"`
	Was       any  `json:"was,omitempty"`
	// Computed is the CEL expression whose value the field is.
	Computed string           `json:"computed,omitempty"`
	Beat     []explainedClaim `json:"beat,omitempty"`
}

type explainedSource struct {
	// From is user, preset, platform, instancetype or preference; unknown if the record of a stored
	// VM cannot be read.
	From       string `json:"from"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	Preset     string `json:"preset,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Role       string `json:"role,omitempty"`
	Rule       string `json:"rule,omitempty"`
}

type explainedClaim struct {
	explainedSource
	Value any `json:"value"`
}

type explainedWith struct {
	Preset    string `json:"preset"`
	Namespace string `json:"namespace,omitempty"`
	Mode      string `json:"mode"`
	Matched   bool   `json:"matched"`
	Reason    string `json:"reason"`
}

type explainedHeld struct {
	Preset string   `json:"preset"`
	Paths  []string `json:"paths"`
	Reason string   `json:"reason"`
}

// tables prints explanations for people.
func (p *printer) tables() error {
	for i, object := range p.objects {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		e, ok := object.(*explained)
		if !ok { // unreachable: the command adds nothing else
			continue
		}
		if err := e.table(p.out); err != nil {
			return fmt.Errorf("cannot print %s: %w", e.machine, err)
		}
	}
	return nil
}

func newExplained(m offline.Machine, x *presets.Explanation, outdated []offline.Change) *explained {
	e := &explained{
		Kind: string(m.Kind), Namespace: m.Namespace, Name: m.Name,
		File: m.Where.File, Document: m.Where.Document, Fields: []explainedAt{}, Outdated: outdated, machine: m,
	}
	damaged := x.Result == nil && m.Damaged() != nil
	for _, o := range x.Fields {
		at := explainedAt{Path: o.Path.String(), Value: o.Value, Removed: o.Value == nil, explainedSource: sourceOf(o.By, o.User), Overruled: o.Overruled, Was: o.Was, Computed: o.Computed}
		if o.ContributedBy.Name != "" {
			at.explainedSource = contributedBy(o.ContributedBy)
		}
		for _, claim := range o.Beaten {
			at.Beat = append(at.Beat, explainedClaim{sourceOf(claim.By, false), claim.Value})
		}
		if damaged && o.User {
			at.explainedSource = explainedSource{From: "unknown"}
		}
		e.Fields = append(e.Fields, at)
	}
	for _, v := range x.Presets {
		e.Presets = append(e.Presets, explainedWith{v.Preset, v.Namespace, string(v.Mode), v.Matched, v.Reason})
	}
	for _, h := range x.HeldBack {
		e.HeldBack = append(e.HeldBack, explainedHeld{h.Preset, h.Paths, h.Reason})
	}
	if x.Result != nil {
		for _, c := range x.Result.Conflicts {
			e.Conflicts = append(e.Conflicts, c.String())
		}
	}
	return e
}

func sourceOf(by provenance.Source, user bool) explainedSource {
	switch {
	case user || by == provenance.Source{}:
		return explainedSource{From: "user"}
	case by.Role == provenance.Platform:
		return explainedSource{From: "platform", Rule: by.Preset}
	}
	return explainedSource{From: "preset", Preset: by.Preset, Generation: by.Generation, Role: by.Role.String()}
}

// contributedBy is an instancetype or a preference as a source.
func contributedBy(m presets.Matcher) explainedSource {
	from := "instancetype"
	if strings.HasSuffix(m.Kind, "Preference") {
		from = "preference"
	}
	return explainedSource{From: from, Kind: m.Kind, Name: m.Name}
}

// String is the source as a table shows it.
func (s explainedSource) String() string {
	switch s.From {
	case "preset":
		return fmt.Sprintf("%s (%s)", s.Preset, s.Role)
	case "platform":
		return fmt.Sprintf("platform (%s)", s.Rule)
	case "instancetype", "preference":
		return s.Kind + " " + s.Name
	}
	return s.From
}

// colour tells kinds of sources apart.
func (s explainedSource) colour() string {
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

// table prints for people.
func (e *explained) table(out io.Writer) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	colours := styleOf(out)
	fmt.Fprintf(w, "%s (%s)\n\nFIELD\tVALUE\t%s\tBEAT\n", e.machine, e.machine.Where, colours.paint(plainText, "FROM"))
	for _, at := range e.Fields {
		value := "(removed)"
		if !at.Removed {
			value = cell(at.Value)
		}
		from := at.String()
		if at.Computed != "" {
			from += ", computed: " + cell(at.Computed)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", at.Path, value, colours.paint(at.colour(), from), at.beaten())
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

// writeTable writes what a tabwriter made, which pads empty cells at the end.
func writeTable(out io.Writer, table string) error {
	for line := range strings.Lines(table) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// beaten lists the values that lost.
func (at explainedAt) beaten() string {
	var out []string
	if at.Overruled {
		was := cell(at.Was)
		if at.Was == nil {
			was = "a value too large to be kept"
		}
		out = append(out, "user: "+was)
	}
	for _, claim := range at.Beat {
		out = append(out, claim.String()+": "+cell(claim.Value))
	}
	return strings.Join(out, "; ")
}

// orNone is a value, or nothing where there is none.
func orNone(value any) string {
	if value == nil {
		return "(none)"
	}
	return cell(value)
}

// cell is a value on one line, cut where it is long.
func cell(value any) string {
	text, ok := value.(string)
	if raw, err := json.Marshal(value); !ok || strings.ContainsAny(text, "\n\t\r") || text == "" {
		if err != nil {
			return fmt.Sprint(value)
		}
		text = string(raw)
	}
	if utf8.RuneCountInString(text) > cellWidth {
		text = string([]rune(text)[:cellWidth-1]) + "…"
	}
	return text
}

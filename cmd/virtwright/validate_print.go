package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/offline"
)

// validated is a report in the output format json.
type validated struct {
	Objects []validatedObject `json:"objects"`
	// Left are objects of kinds that nobody looked at.
	Left    []offline.Leftover `json:"left"`
	Notes   []string           `json:"notes"`
	Summary validatedSummary   `json:"summary"`
}

type validatedObject struct {
	File     string `json:"file"`
	Document int    `json:"document"`
	// Item counts the items of a list, from 1.
	Item       int               `json:"item,omitempty"`
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name"`
	Refused    bool              `json:"refused"`
	Problems   []offline.Problem `json:"problems"`
	Warnings   []string          `json:"warnings"`

	shown string
}

type validatedSummary struct {
	Objects  int `json:"objects"`
	Refused  int `json:"refused"`
	Problems int `json:"problems"`
	Warnings int `json:"warnings"`
	Left     int `json:"left"`
}

func newValidated(report *offline.Report) *validated {
	out := &validated{Left: orEmpty(report.Left), Notes: orEmpty(report.Notes), Objects: []validatedObject{}}
	for i := range report.Verdicts {
		v := &report.Verdicts[i]
		out.Objects = append(out.Objects, validatedObject{
			File: v.Where.File, Document: v.Where.Document, Item: v.Where.Item,
			APIVersion: v.APIVersion, Kind: v.Kind, Namespace: v.Namespace, Name: v.Name,
			Refused: len(v.Problems) > 0, Problems: orEmpty(v.Problems), Warnings: orEmpty(v.Warnings),
			shown: v.String(),
		})
		if len(v.Problems) > 0 {
			out.Summary.Refused++
		}
		out.Summary.Problems += len(v.Problems)
		out.Summary.Warnings += len(v.Warnings)
	}
	out.Summary.Objects = len(out.Objects)
	for _, l := range report.Left {
		out.Summary.Left += l.Count
	}
	return out
}

// orEmpty makes nothing an empty list, which programs rather read than null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (v *validated) json(out io.Writer) error {
	text, err := indented(v)
	if err != nil {
		return fmt.Errorf("cannot print the report: %w", err)
	}
	_, err = fmt.Fprint(out, text)
	return err
}

// text prints for people and for grep: a line for each problem and warning.
func (v *validated) text(s streams) error {
	note(s, v.Notes)
	for _, l := range v.Left {
		fmt.Fprintln(s.err, "Note:", l)
	}
	for i := range v.Objects {
		o := &v.Objects[i]
		for _, w := range o.Warnings {
			fmt.Fprintf(s.err, "warning: %s: %s: %s\n", o.File, o.shown, oneLine(w))
		}
		for _, p := range o.Problems {
			if _, err := fmt.Fprintf(s.out, "%s: %s: %s\n", o.File, o.shown, oneLine(p.String())); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(s.out, v.Summary)
	return err
}

func oneLine(text string) string { return printable(strings.Join(strings.Fields(text), " ")) }

// printable replaces control characters, which a terminal would obey, and those that change the
// direction of text. Line breaks stay.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// String is the last line of a report.
func (s validatedSummary) String() string {
	text := fmt.Sprintf("%s: %s", counted(s.Objects, "object"), "all fine")
	if s.Refused > 0 {
		text = fmt.Sprintf("%s: %d fine, %d refused with %s", counted(s.Objects, "object"), s.Objects-s.Refused, s.Refused, counted(s.Problems, "problem"))
	}
	if s.Warnings > 0 {
		text += ", " + counted(s.Warnings, "warning")
	}
	if s.Left > 0 {
		text += fmt.Sprintf("; %d of other kinds left out", s.Left)
	}
	return text
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

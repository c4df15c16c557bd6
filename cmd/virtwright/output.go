package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/templates/portable"
)

// ANSI colour codes of equal length, so that table columns stay aligned.
const (
	plainText = "39"
	red       = "31"
	green     = "32"
	yellow    = "33"
	magenta   = "35"
	cyan      = "36"
	blue      = "94"
	grey      = "90"
)

// style colours text for a terminal. The zero value leaves text unchanged.
type style bool

// styleOf returns true for a terminal with colours, unless NO_COLOR is set.
func styleOf(w io.Writer) style { return style(isTerminal(w) && os.Getenv("NO_COLOR") == "") }

func isTerminal(w io.Writer) bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	if of, ok := w.(interface{ Fd() uintptr }); ok {
		return term.IsTerminal(int(of.Fd())) //nolint:gosec // file descriptors are small
	}
	of, ok := w.(interface{ IsTerminal() bool })
	return ok && of.IsTerminal()
}

func (s style) paint(colour, text string) string {
	if !s || colour == "" {
		return text
	}
	return escapeMark + "[" + colour + "m" + text + escapeMark + "[0m"
}

func (s style) difference(text string) string {
	if !s {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		colour := ""
		switch line[0] {
		case '+':
			colour = green
		case '-':
			colour = red
		case '@':
			colour = cyan
		}
		if body, end, _ := strings.Cut(line, "\n"); colour != "" {
			line = s.paint(colour, body) + "\n" + end
		}
		out.WriteString(line)
	}
	return out.String()
}

type progress struct {
	out            io.Writer
	verb           string
	total          int
	started, shown time.Time
	now            func() time.Time
}

const (
	quietFor  = time.Second
	refreshed = 100 * time.Millisecond
)

// newProgress prints nothing unless only standard error is a terminal.
func newProgress(s streams, verb string, total int) *progress {
	p := &progress{verb: verb, total: total, now: time.Now}
	if isTerminal(s.err) && !isTerminal(s.out) {
		p.out = raw(s.err)
	}
	p.started = p.now()
	return p
}

func (p *progress) at(done int) {
	if p.out == nil {
		return
	}
	if now := p.now(); now.Sub(p.started) > quietFor && now.Sub(p.shown) > refreshed {
		p.shown = now
		fmt.Fprint(p.out, message.NewPrinter(language.English).Sprintf("\r\x1b[K%s %d of %d VMs", p.verb, done, p.total))
	}
}

func (p *progress) clear() {
	if p.out != nil && !p.shown.IsZero() {
		p.shown = time.Time{}
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// printer prints objects as YAML or JSON: one object as itself, several as a List.
type printer struct {
	streams
	output  string
	objects []any
}

func (p *printer) add(object any) { p.objects = append(p.objects, object) }

func (p *printer) print() error {
	list := &listWriter{out: p.out, output: p.output}
	for _, object := range p.objects {
		text, err := rendered(p.output, object)
		if err != nil {
			return fmt.Errorf("cannot print objects: %w", err)
		}
		if err := list.add(text); err != nil {
			return fmt.Errorf("cannot print objects: %w", err)
		}
	}
	return list.end()
}

// listWriter streams objects: one as itself, several as a List. Output diff has no List.
type listWriter struct {
	out    io.Writer
	output string
	// first is held back until there is a second object.
	first string
	count int
}

func (w *listWriter) add(text string) error {
	w.count++
	switch {
	case w.output == "diff":
		_, err := io.WriteString(w.out, styleOf(w.out).difference(text))
		return err
	case w.count == 1:
		w.first = text
		return nil
	case w.count == 2:
		head := "apiVersion: v1\nitems:\n"
		if w.output == "json" {
			head = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n"
		}
		if _, err := io.WriteString(w.out, head+w.item(w.first)); err != nil {
			return err
		}
	}
	separator := ""
	if w.output == "json" {
		separator = ",\n"
	}
	_, err := io.WriteString(w.out, separator+w.item(text))
	return err
}

func (w *listWriter) item(text string) string {
	text = strings.TrimPrefix(text, "---\n")
	if w.output == "json" {
		return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
	}
	var out strings.Builder
	indent := "- "
	for line := range strings.Lines(text) {
		if line != "\n" {
			out.WriteString(indent)
		}
		out.WriteString(line)
		indent = "  "
	}
	return out.String()
}

func (w *listWriter) end() error {
	text := ""
	switch {
	case w.output == "diff" || w.count == 0:
	case w.count == 1:
		text = w.first
	case w.output == "json":
		text = "\n  ],\n  \"kind\": \"List\"\n}\n"
	default:
		text = "kind: List\n"
	}
	if _, err := io.WriteString(w.out, text); err != nil {
		return fmt.Errorf("cannot print objects: %w", err)
	}
	return nil
}

// YAML that looks like JSON gets a separator, by which readers recognize YAML.
func rendered(output string, object any) (string, error) {
	fields, ok := object.(map[string]any)
	if !ok || output == "json" {
		return indented(object)
	}
	text, err := portable.YAML(fields)
	if bytes.HasPrefix(text, []byte("{")) {
		return "---\n" + string(text), err
	}
	return string(text), err
}

// printReport prints a report in the output format of the command.
func (o *settings) printReport(s streams, report any, table func(streams) error) error {
	switch o.output {
	case "json":
		return printJSON(s.out, report)
	case "yaml":
		text, err := yamlOf(report)
		if err == nil {
			_, err = s.out.Write(text)
		}
		return err
	}
	return table(s)
}

// columnGap is the space between columns. A first cell wider than maxFirst has a line of its own.
const columnGap, maxFirst = 3, 42

// printTable prints rows below a header; nothing if there are no rows. A row of one cell is a
// title.
func printTable(out io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	return align(out, slices.Concat([][]string{header}, rows), columnGap, maxFirst)
}

// align prints cells in columns, by their width on a terminal.
func align(out io.Writer, rows [][]string, gap, first int) error {
	var widths []int
	for _, cells := range rows {
		for i := range cells {
			cells[i] = presets.EscapeLine(cells[i])
			if widths = append(widths, 0)[:max(len(widths), i+1)]; len(cells) > 1 && (i > 0 || width(cells[i]) <= first) {
				widths[i] = max(widths[i], width(cells[i]))
			}
		}
	}
	var text strings.Builder
	for _, cells := range rows {
		var line strings.Builder
		for i, c := range cells {
			line.WriteString(c)
			switch {
			case len(cells) == 1:
			case i == 0 && width(c) > first:
				line.WriteString("\n" + strings.Repeat(" ", widths[0]+gap))
			default:
				line.WriteString(strings.Repeat(" ", widths[i]-width(c)+gap))
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

var colourCode = regexp.MustCompile(escapeMark + `\[[0-9]+m`)

// width returns the number of columns of a terminal that a text takes.
func width(text string) int { return uniseg.StringWidth(colourCode.ReplaceAllString(text, "")) }

// cut shortens a text to a number of columns.
func cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	clusters, kept, end := uniseg.NewGraphemes(text), 0, 0
	for clusters.Next() && kept+clusters.Width() < columns {
		kept += clusters.Width()
		_, end = clusters.Positions()
	}
	return text[:end] + "…"
}

func printJSON(out io.Writer, report any) error {
	text, err := indented(report)
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}

func indented(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(value)
	return out.String(), err
}

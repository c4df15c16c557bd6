package annotated

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

// A Section is what a page or a picture shows of one VM.
type Section struct {
	VM
	// Title is the kind, namespace and name; Where is the place in the input.
	Title, Where string
	// Problems are the reasons why a cluster rejects the VM.
	Problems []string
	Outdated []Outdated
}

// Outdated is a field of a stored VM that a reapply would change.
type Outdated struct{ Path, Stored, Reapplied, By string }

// An origin is an entry of the legend.
type origin struct {
	Class, Name string
	Count       int
}

// legend lists the classes of lines, in the order in which a legend shows them.
var legend = []origin{
	{Class: "origin-user", Name: "the VM's author"},
	{Class: "origin-preset-default", Name: "preset, default"},
	{Class: "origin-preset-override", Name: "preset, override"},
	{Class: "origin-platform", Name: "platform default"},
	{Class: "origin-instancetype", Name: "instancetype, preference"},
	{Class: "origin-unknown", Name: "unknown"},
	{Class: "lost", Name: "removed"},
}

// Class returns the CSS class of the line's origin; empty if it has none.
func (l Line) Class() string {
	switch {
	case l.Removed:
		return "lost"
	case l.AtStart():
		return "origin-instancetype"
	case l.From == "preset" && l.Role != "default" && l.Role != "legacy":
		return "origin-preset-override"
	case l.From == "preset":
		return "origin-preset-default"
	case l.From == "":
		return ""
	}
	return "origin-" + l.From
}

// Short is the name of the origin, for the end of the line.
func (l Line) Short() string {
	switch _, name, _ := strings.Cut(l.By, " "); {
	case l.From == "platform":
		return l.From
	case l.AtStart():
		return l.From + " " + name
	}
	return strings.TrimSuffix(strings.TrimPrefix(l.By, "preset "), " (default)")
}

// Detail follows Short if there is space: the name of a platform rule, or the default role.
func (l Line) Detail() string {
	_, detail, _ := strings.Cut(l.By, l.Short())
	return detail
}

// Lead is the indentation of the line.
func (l Line) Lead() string { return l.Text[:len(l.Text)-len(l.Body())] }

// Body is the line without its indentation.
func (l Line) Body() string { return strings.TrimLeft(l.Text, " ") }

// Indent is the number of columns by which further rows of a long line are indented.
func (l Line) Indent() int { return len(l.Text) - len(strings.TrimLeft(l.Text, " -")) + 2 }

// count returns the legend of lines: each origin that has fields, with their number.
func count(lines []Line) []origin {
	counts, last := map[string]int{}, ""
	for _, l := range lines {
		if l.Path != "" && l.Path != last {
			counts[l.Class()]++
		}
		last = l.Path
	}
	var out []origin
	for _, o := range legend {
		if o.Count = counts[o.Class]; o.Count > 0 {
			out = append(out, o)
		}
	}
	return out
}

// A view is a section with its lines.
type view struct {
	Section
	Lines  []Line
	Legend []origin
}

func views(sections []Section) []view {
	var out []view
	for _, s := range sections {
		v := view{Section: s}
		if s.Explanation != nil {
			v.Lines = s.Lines()
		}
		v.Legend = count(v.Lines)
		out = append(out, v)
	}
	return out
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes a page that needs no other file and no script.
func WriteHTML(out io.Writer, sections []Section) error { return page.Execute(out, views(sections)) }

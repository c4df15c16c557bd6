package originreport

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
	// Sparse is a manifest whose create gives the same VM; empty if there is none. Stay is the
	// number of its fields besides the name.
	Sparse string
	Stay   int
}

// Outdated is a field of a stored VM that a reapply would change.
type Outdated struct{ Path, Stored, Reapplied, By string }

// An Entry is a class in a legend, with the number of its fields.
type Entry struct {
	Class string `json:"class"`
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// legend lists the classes of lines, in the order in which a legend shows them.
var legend = []Entry{
	{Class: ClassUser, Name: "user"},
	{Class: ClassDefault, Name: "preset, default"},
	{Class: ClassOverride, Name: "preset, override"},
	{Class: ClassPlatform, Name: "platform default"},
	{Class: ClassInstancetype, Name: "instancetype, preference"},
	{Class: ClassUnknown, Name: "unknown: the record cannot be read"},
	{Class: ClassLost, Name: "removed"},
}

// Short is the name of the origin, for the end of the line.
func (l Line) Short() string {
	switch _, name, _ := strings.Cut(l.By, " "); {
	case l.From == "platform":
		return l.From
	case l.AtStart():
		return l.From + " " + name
	}
	return strings.TrimSuffix(l.By, " (default)")
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

// Legend returns the legend of lines: each class that has fields, with their number.
func Legend(lines []Line) []Entry {
	counts, last := map[string]int{}, ""
	for _, l := range lines {
		if l.Path != "" && l.Path != last {
			counts[l.Class]++
		}
		last = l.Path
	}
	out := []Entry{}
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
	Legend []Entry
}

func views(sections []Section) []view {
	var out []view
	for _, s := range sections {
		v := view{Section: s}
		if s.Explanation != nil {
			v.Lines = s.Lines()
		}
		v.Legend = Legend(v.Lines)
		out = append(out, v)
	}
	return out
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes a page that needs no other file and no script.
func WriteHTML(out io.Writer, sections []Section) error { return page.Execute(out, views(sections)) }

package originreport

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The sizes of a picture in pixels, and of a column in characters.
const (
	pictureWidth, columnWidth = 1040, 505
	margin, padding           = 10, 6
	rowHeight                 = 17
	legendTop, legendHeight   = 30, 20
	characterWidth, columns   = 7.3, 66
	titleCharacterWidth       = 9
	// twoColumnsFrom is the number of lines from which a picture has two columns.
	twoColumnsFrom = 40
)

// A row is a line at its place in a picture.
type row struct {
	Line
	X, Y int
	// Shown is the text without its indentation, and Origin the label. Both are cut to fit.
	Shown, Origin string
	Parent        bool // repeated above the second column
}

// An entryAt is an entry of the legend at its place in a picture.
type entryAt struct {
	Entry
	X, Y int
}

// A panel is a VM in a picture.
type panel struct {
	view
	Y, Height, Width, Column     int
	CardY, CardWidth, CardHeight int
	Rows                         []row
	Entries                      []entryAt
}

//go:embed picture.svg
var pictureText string

var picture = template.Must(template.New("picture").Parse(pictureText))

// WriteSVG writes a picture. The notes of a line appear when the pointer is above it.
func WriteSVG(out io.Writer, sections []Section) error {
	var panels []panel
	y, width := 0, 0
	for _, v := range views(sections) {
		p := place(v)
		p.Y = y
		panels, y, width = append(panels, p), y+p.Height, max(width, p.Width)
	}
	var text bytes.Buffer
	if err := picture.Execute(&text, map[string]any{"Panels": panels, "Width": width, "Height": y}); err != nil {
		return err
	}
	_, err := io.WriteString(out, strings.Map(inXML, text.String()))
	return err
}

// inXML replaces the characters that XML cannot have.
func inXML(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
		return utf8.RuneError
	}
	return r
}

// place arranges the lines of a VM.
func place(v view) panel {
	p := panel{view: v, Width: columnWidth + 2*margin, Column: columnWidth}
	first := len(v.Lines)
	if first >= twoColumnsFrom {
		p.Width, first = pictureWidth, middle(v.Lines)
	}
	lines := slices.Concat(v.Lines[:first], parents(v.Lines, first), v.Lines[first:])
	repeated := len(lines) - len(v.Lines)
	p.Title = cut(p.Title, p.Width/titleCharacterWidth)
	p.placeLegend()
	for i, l := range lines {
		x, line := margin, i
		if i >= first {
			x, line = pictureWidth-margin-columnWidth, i-first
		}
		label := cut(l.Short(), columns/2)
		room := columns - utf8.RuneCountInString(label) - 2
		if used := utf8.RuneCountInString(l.Text) + utf8.RuneCountInString(l.Lost) + 2; l.Removed || used > room {
			l.Lost = ""
		}
		shown := strings.TrimPrefix(cut(l.Text, room), l.Lead())
		p.Rows = append(p.Rows, row{l, x, p.CardY + padding + rowHeight*line, shown, label, i >= first && i < first+repeated})
	}
	p.CardWidth, p.CardHeight = p.Width-2*margin, rowHeight*max(first, len(lines)-first)+2*padding
	p.Height = p.CardY + p.CardHeight + margin
	return p
}

// placeLegend arranges the legend in a row, or in rows of equal columns, and beneath it the card
// with the lines.
func (p *panel) placeLegend() {
	width := func(o Entry) int { return int(characterWidth*float64(len(o.Name)+4)) + 3*margin }
	x, y, all, widest := margin, legendTop, margin, 0
	for _, o := range p.Legend {
		all, widest = all+width(o), max(widest, width(o))
	}
	for _, o := range p.Legend {
		if x > margin && x+width(o) > p.Width {
			x, y = margin, y+legendHeight
		}
		p.Entries = append(p.Entries, entryAt{o, x, y})
		if all > p.Width {
			x += widest
		} else {
			x += width(o)
		}
	}
	p.CardY = y + legendHeight + padding
}

// middle returns the line at which the second column begins, so that the columns are as equal as
// possible. The second column repeats the parents of its first line.
func middle(lines []Line) int {
	best, height := len(lines), len(lines)
	for i := 1; i < len(lines); i++ {
		above := parents(lines, i)
		if higher := max(i, len(lines)-i+len(above)); higher < height && breaks(lines, i) {
			best, height = i, higher
		}
	}
	return best
}

// parents returns the lines of the objects and lists that contain a line.
func parents(lines []Line, of int) []Line {
	var out []Line
	for i, indent := of-1, indentAt(lines, of); i >= 0 && indent > 0; i-- {
		if lines[i].Indent() < indent {
			indent = lines[i].Indent()
			out = append(out, Line{Text: lines[i].Text})
		}
	}
	slices.Reverse(out)
	return out
}

func indentAt(lines []Line, i int) int {
	if i < len(lines) {
		return lines[i].Indent()
	}
	return 0
}

// breaks reports whether a column may begin with a line: it is not the rest of a value or of an
// element of a list.
func breaks(lines []Line, at int) bool {
	if lines[at].Path != "" && lines[at].Path == lines[at-1].Path {
		return false
	}
	indent, begins := lines[at].Indent(), strings.HasPrefix(lines[at].Body(), "- ")
	for i := at - 1; i >= 0; i-- {
		first := strings.HasPrefix(lines[i].Body(), "- ")
		switch {
		case lines[i].Indent() < indent:
			indent, begins = lines[i].Indent(), first
		case lines[i].Indent() == indent && first && !begins:
			return false
		}
	}
	return true
}

// cut shortens a text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

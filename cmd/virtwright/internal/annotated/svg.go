package annotated

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
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
	p.Title = cut(p.Title, p.Width/titleCharacterWidth)
	p.placeLegend()
	for i, l := range v.Lines {
		x, line := margin, i
		if i >= first {
			x, line = pictureWidth-margin-columnWidth, i-first
		}
		label := cut(l.Short(), columns/2)
		room := columns - utf8.RuneCountInString(label) - 2
		shown := strings.TrimPrefix(cut(l.Text, room), l.Lead())
		p.Rows = append(p.Rows, row{l, x, p.CardY + padding + rowHeight*line, shown, label})
	}
	p.CardWidth, p.CardHeight = p.Width-2*margin, rowHeight*max(first, len(v.Lines)-first)+2*padding
	p.Height = p.CardY + p.CardHeight + margin
	return p
}

// placeLegend arranges the legend in rows, and the card with the lines beneath it.
func (p *panel) placeLegend() {
	x, y := margin, legendTop
	for _, o := range p.Legend {
		width := int(characterWidth*float64(len(o.Name)+4)) + 3*margin
		if x > margin && x+width > p.Width {
			x, y = margin, y+legendHeight
		}
		p.Entries = append(p.Entries, entryAt{o, x, y})
		x += width
	}
	p.CardY = y + legendHeight + padding
}

// middle returns the line with the least indentation near the middle, where the second column
// begins.
func middle(lines []Line) int {
	half := (len(lines) + 1) / 2
	best := half
	for i := half - len(lines)/8; i < half+len(lines)/8; i++ {
		if lines[i].Indent() < lines[best].Indent() {
			best = i
		}
	}
	return best
}

// cut shortens a text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

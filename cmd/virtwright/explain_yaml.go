package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/simulate/originreport"
)

// maxIndent is the column of comments unless lines are longer.
const maxIndent = 56

// writeAnnotatedYAML prints VMs as YAML. Comments have the origin of each field, removed fields and
// values that lost. The record of origins is a comment, too.
func writeAnnotatedYAML(out io.Writer, sections []originreport.Section) error {
	var text strings.Builder
	for i, s := range sections {
		if i > 0 {
			text.WriteString("---\n")
		}
		fmt.Fprintf(&text, "# %s (%s)\n", presets.EscapeLine(s.Title), presets.EscapeLine(s.Where))
		writeLines(&text, s.Lines(), styleOf(out))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func writeLines(to *strings.Builder, lines []originreport.Line, colours style) {
	column := 0
	for _, l := range lines {
		if w := width(l.Text); w <= maxIndent {
			column = max(column, w)
		}
	}
	for i, l := range lines {
		body, by := l.Text, l.By
		switch {
		case l.Removed:
			body, by = l.Lead()+"# "+l.Body(), "removed by "+by
		case l.AtStart():
			body, by = l.Lead()+"# "+l.Body(), by+", when the VM starts"
		case l.From == "" && by == originreport.Record:
			body = l.Lead() + "# " + cut(l.Body(), cellWidth)
		}
		if l.Removed {
			body = colours.paint(red, body)
		}
		to.WriteString(body)
		if by != "" && takesComment(lines, i) {
			to.WriteString(strings.Repeat(" ", max(2, column-width(body)+2)) + colours.paint(colourOf(l.Class), "# "+presets.EscapeLine(by)))
		}
		to.WriteString("\n")
		for _, note := range l.Notes {
			to.WriteString(l.Lead() + colours.paint(grey, "# "+presets.EscapeLine(note)) + "\n")
		}
	}
}

// opening matches the first line of a list, an object or a block of text.
var opening = regexp.MustCompile(`(:|(: |- )[|>][-+0-9]*)$`)

// takesComment reports whether a comment can follow a line: the first of a list or a block of text,
// and the last of another value.
func takesComment(lines []originreport.Line, i int) bool {
	first, last := i, i
	for first > 0 && continues(lines, first) {
		first--
	}
	for last+1 < len(lines) && continues(lines, last+1) {
		last++
	}
	if opening.MatchString(lines[first].Text) {
		return i == first
	}
	return i == last
}

// continues reports whether a line shows the same value as the line before it.
func continues(lines []originreport.Line, i int) bool {
	before, l := lines[i-1], lines[i]
	own := l.Removed || l.AtStart() || before.Removed || before.AtStart()
	return l.Path != "" && l.Path == before.Path && !own
}

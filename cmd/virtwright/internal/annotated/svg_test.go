package annotated

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPlace checks that texts fit into their columns, and that each line has a place of its own.
func TestPlace(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for _, n := range []int{0, 1, twoColumnsFrom - 1, twoColumnsFrom, 101} {
		v := view{Legend: legend, Section: Section{Title: long}}
		for i := range n {
			v.Lines = append(v.Lines, Line{Text: strings.Repeat("  ", i%9) + long, By: "preset " + long + " (default)", From: "preset"})
		}
		p, places := place(v), map[string]bool{}
		if wide := p.Width == pictureWidth; wide != (n >= twoColumnsFrom) {
			t.Errorf("%d lines: width %d", n, p.Width)
		}
		for _, r := range p.Rows {
			if size := utf8.RuneCountInString(r.Lead() + r.Shown + r.Origin); size > columns-2 || !strings.HasSuffix(r.Shown, "…") || !strings.HasSuffix(r.Origin, "…") {
				t.Errorf("%d lines: %d characters: %q, %q", n, size, r.Shown, r.Origin)
			}
			if r.X+columnWidth > p.Width || r.Y < p.CardY || r.Y+rowHeight > p.CardY+p.CardHeight {
				t.Errorf("%d lines: a line at %d, %d is outside of its card", n, r.X, r.Y)
			}
			places[fmt.Sprint(r.X, r.Y)] = true
		}
		if len(places) != n || utf8.RuneCountInString(p.Title)*titleCharacterWidth > p.Width {
			t.Errorf("%d lines have %d places; title %q", n, len(places), p.Title)
		}
		for _, e := range p.Entries {
			if e.X+int(characterWidth*float64(len(e.Name)+4)) > p.Width || e.Y+legendHeight > p.CardY {
				t.Errorf("%d lines: entry %s at %d, %d is outside", n, e.Name, e.X, e.Y)
			}
		}
	}
}

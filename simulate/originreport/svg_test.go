package originreport

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
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

// TestColumns: the second column begins with the parents of its first line, never within a value or
// an element of a list, and is about as long as the first.
func TestColumns(t *testing.T) {
	text := []string{"spec:", "  template:", "    domain:", "      cpu:", "        cores: 1"}
	for range 12 {
		text = append(text, "      - name: a", "        disk:", "          bus: sata", "        note: |")
	}
	var v view
	for _, line := range append(text, "    volumes:", "    - name: b") {
		v.Lines = append(v.Lines, Line{Text: line})
	}
	p := place(v)
	second := slices.IndexFunc(p.Rows, func(r row) bool { return r.X > margin })
	var got []string
	for _, r := range p.Rows[second:] {
		if got = append(got, r.Text); !r.Parent {
			break
		}
	}
	if want := []string{"spec:", "  template:", "    domain:", "      cpu:", "      - name: a"}; !slices.Equal(got, want) {
		t.Errorf("the second column begins with %q, want %q", got, want)
	}
	if rest := len(p.Rows) - second; rest < second-4 || rest > second+4 {
		t.Errorf("the columns have %d and %d lines", second, rest)
	}
}

// TestLost: a line shows the value that it overruled if it fits.
func TestLost(t *testing.T) {
	v := view{Section: Section{}}
	v.Lines = []Line{{Text: "a: 1", Lost: "2"}, {Text: "b: " + strings.Repeat("x", columns-8), Lost: "2345"}, {Text: "c: 1", Lost: "2", Removed: true}}
	for i, want := range []string{"2", "", ""} {
		if got := place(v).Rows[i].Lost; got != want {
			t.Errorf("line %d shows %q, want %q", i, got, want)
		}
	}
	by := func(preset string) provenance.Source {
		return provenance.Source{Preset: preset, Role: provenance.Default}
	}
	for name, row := range map[string]struct {
		origin presets.Origin
		want   string
	}{
		"the user's":    {presets.Origin{Overruled: true, Was: "4Gi", Losing: []presets.LosingValue{{By: by("a"), Value: "1Gi"}}}, "4Gi"},
		"a preset's":    {presets.Origin{Losing: []presets.LosingValue{{By: by("a"), Value: "1Gi"}, {By: by("b"), Value: "2Gi"}}}, "1Gi"},
		"an excluded":   {presets.Origin{Losing: []presets.LosingValue{{By: by("a"), Value: "1Gi", Excluded: true}}}, ""},
		"another field": {presets.Origin{Losing: []presets.LosingValue{{By: by("a"), Value: "1Gi", Path: provenance.Of("spec")}}}, ""},
		"a long one":    {presets.Origin{Losing: []presets.LosingValue{{By: by("a"), Value: strings.Repeat("x", 99)}}}, ""},
	} {
		if got := lost(row.origin); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

package originreport_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/simulate/originreport"
	"github.com/virtwright/virtwright/templates/portable"
)

const attack = `"'><script>alert(1)</script><img src=x onerror=alert(1)>` + "javascript:alert(1)</title></style>\u202e\x07{{.}}"

// hostile is a section with markup in every text.
func hostile() originreport.Section {
	origin := presets.Origin{
		Path: provenance.Of("metadata", attack), Value: attack, Computed: attack, Overruled: true, Was: attack,
		By:     provenance.Source{Preset: attack, Generation: 1, Role: provenance.Override},
		Losing: []presets.LosingValue{{By: provenance.Source{Preset: attack, Generation: 1}, Value: attack}},
	}
	removed := origin
	removed.Path, removed.Value = provenance.Of(attack), nil
	x := &presets.Explanation{
		Fields:  []presets.Origin{origin, removed},
		Presets: []presets.MatchResult{{Preset: attack, Mode: attack, Reason: attack}},
		Skipped: []presets.Skipped{{Preset: attack, Reason: attack, Paths: []string{attack}}},
		Result:  &presets.Result{Warnings: []string{attack}, Conflicts: []presets.Conflict{{Path: attack, Winner: attack, Loser: attack, Won: attack, Lost: attack}}},
	}
	text, _ := portable.YAML(map[string]any{"metadata": map[string]any{attack: attack}})
	return originreport.Section{
		VM:    originreport.VM{Kind: presets.VirtualMachine, Object: map[string]any{"metadata": map[string]any{attack: attack}}, YAML: string(text), Explanation: x},
		Title: attack, Where: attack, Problems: []string{attack}, Sparse: attack,
		Outdated: []originreport.Outdated{{Path: attack, Stored: attack, Reapplied: attack, By: attack}},
	}
}

var tag = regexp.MustCompile(`<[a-zA-Z][^>]*>`)

func TestPageOfHostileNames(t *testing.T) {
	var out strings.Builder
	if err := originreport.WriteHTML(&out, []originreport.Section{hostile(), hostile()}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if n := strings.Count(page, "alert(1)"); n < 40 {
		t.Errorf("the page shows %d of the hostile texts", n)
	}
	for _, element := range tag.FindAllString(page, -1) {
		for _, unwanted := range []string{"<script", "<img", "<a", "onerror", "javascript:", "src=", "href="} {
			if strings.HasPrefix(element, unwanted) || strings.Contains(element, unwanted) && unwanted[0] != '<' {
				t.Errorf("the page has the element %s", element)
			}
		}
	}
	if n := strings.Count(page, "</style>"); n != 1 {
		t.Errorf("%d ends of a style", n)
	}
}

func TestPictureOfHostileNames(t *testing.T) {
	var out strings.Builder
	if err := originreport.WriteSVG(&out, []originreport.Section{hostile(), hostile()}); err != nil {
		t.Fatal(err)
	}
	decoder, shown := xml.NewDecoder(strings.NewReader(out.String())), 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if !slices.Contains([]string{"svg", "title", "style", "g", "rect", "text", "tspan"}, token.Name.Local) {
				t.Errorf("the picture has the element %s", token.Name.Local)
			}
		case xml.CharData:
			shown += strings.Count(string(token), "alert(1)")
		}
	}
	if shown < 10 {
		t.Errorf("the picture shows %d of the hostile texts", shown)
	}
}

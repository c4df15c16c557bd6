package originreport_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPalette checks that pages, pictures and the playground show origins in the same colours.
func TestPalette(t *testing.T) {
	colours := func(file, pattern string) (out [2]map[string]string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = [2]map[string]string{{}, {}}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			light := out[0]
			switch name := m[1]; {
			case len(m) > 3:
				light[name], out[1][name] = m[2], m[3]
			case light[name] == "":
				light[name] = m[2]
			default:
				out[1][name] = m[2]
			}
		}
		return out
	}
	const names = `--(user|default|override|start|lost): `
	page := colours("page.html", names+`(#\w+)`)
	if len(page[0]) != 5 || len(page[1]) != 5 {
		t.Fatalf("found %v", page)
	}
	if diff := cmp.Diff(page, colours("picture.svg", names+`(#\w+)`)); diff != "" {
		t.Errorf("the picture differs: %s", diff)
	}
	if diff := cmp.Diff(page, colours("../../cmd/virtwright/internal/playground/web/style.css", names+`light-dark\((#\w+), (#\w+)\)`)); diff != "" {
		t.Errorf("the playground differs: %s", diff)
	}
	few := `--(user|default|override): (#\w+)`
	if diff := cmp.Diff(colours("page.html", few), colours("../../docs/.vitepress/theme/Playground.vue", few)); diff != "" {
		t.Errorf("the front page differs: %s", diff)
	}
}

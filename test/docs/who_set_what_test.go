package docs

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

const root = "../.."

// The sizes of the picture, in pixels.
const (
	lineHeight   = 18
	headerHeight = 34
	cardGap      = 14
	cardWidth    = 490
)

// cardColumns is how many characters fit into a line of a card.
const cardColumns = 60

// A field is one of explain's, as far as the picture shows it.
type field struct {
	Path   string
	Value  any
	From   string
	Preset string
}

// A card lists the fields that one source set, or lines of YAML.
type card struct {
	Title, Note, Class string
	Lines              []line
	X, Y, Height       int
}

type line struct {
	Left, Right string
	Y           int
}

// TestWhoSetWhat compares docs/pictures/who-set-what.svg with what virtwright
// explain says of an example now.
func TestWhoSetWhat(t *testing.T) {
	vm := strings.Split(strings.TrimSpace(read(t, "examples/vms/tiny.yaml")), "\n")
	first := 0
	for strings.HasPrefix(vm[first], "#") {
		first++
	}
	written := card{Title: "You write", Note: "vm.yaml", Class: "user"}
	for _, text := range vm[first:] {
		written.Lines = append(written.Lines, line{Left: text})
	}
	cards := append([]card{written}, bySource(t, explain(t, "examples/vms/tiny.yaml", "examples/presets"))...)
	place(cards)
	var out strings.Builder
	height := 0
	for _, c := range cards {
		height = max(height, c.Y+c.Height+cardGap)
	}
	if err := picture.Execute(&out, map[string]any{"Cards": cards, "Height": height, "Width": 2*cardWidth + 3*cardGap, "CardWidth": cardWidth}); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, root+"/docs/pictures/who-set-what.svg", out.String())
}

// explain runs the command line on an example.
func explain(t *testing.T, paths ...string) []field {
	t.Helper()
	args := []string{"run", "-C", root, "./cmd/virtwright", "explain", "-o", "json"}
	for _, path := range paths {
		args = append(args, "-f", path)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	var vm struct{ Fields []field }
	if err := json.Unmarshal(out, &vm); err != nil {
		t.Fatal(err)
	}
	return vm.Fields
}

// bySource makes a card for each preset, in the order of the fields, and one for
// the platform. What the author wrote has a card already.
func bySource(t *testing.T, fields []field) []card {
	t.Helper()
	platform := card{Title: "The platform adds", Note: "defaults", Class: "platform"}
	var presets []card
	index := map[string]int{}
	for _, f := range fields {
		set := line{Left: short(f.Path)}
		set.Right = shown(t, f.Value, cardColumns-len([]rune(set.Left)))
		switch {
		case f.From == "platform":
			platform.Lines = append(platform.Lines, set)
		case f.Preset != "":
			i, known := index[f.Preset]
			if !known {
				i = len(presets)
				index[f.Preset] = i
				presets = append(presets, card{Title: "Preset " + f.Preset + " adds", Note: "default", Class: fmt.Sprintf("preset%d", i)})
			}
			presets[i].Lines = append(presets[i].Lines, set)
		case f.From != "user":
			t.Fatalf("%s is from %q", f.Path, f.From)
		}
	}
	return append(presets, platform)
}

// place puts the first two cards into one column, and the others into another.
func place(cards []card) {
	x, y := cardGap, cardGap
	for i := range cards {
		if i == 2 {
			x, y = cardWidth+2*cardGap, cardGap
		}
		c := &cards[i]
		c.X, c.Y, c.Height = x, y, headerHeight+lineHeight*len(c.Lines)+cardGap/2
		for j := range c.Lines {
			c.Lines[j].Y = headerHeight + lineHeight*j + lineHeight*2/3
		}
		y += c.Height + cardGap
	}
}

// short is a path below the template without what all have in common.
func short(path string) string {
	for _, prefix := range []string{"spec.template.spec.", "spec.template."} {
		if rest, found := strings.CutPrefix(path, prefix); found {
			return "…" + rest
		}
	}
	return path
}

// shown is a value in the space that its path leaves; its end, if there is too little.
func shown(t *testing.T, value any, space int) string {
	t.Helper()
	text, ok := value.(string)
	if !ok {
		out, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		text = string(out)
	}
	if runes := []rune(text); len(runes) > space {
		text = "…" + string(runes[len(runes)-space+1:])
	}
	return text
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(root + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// picture is an SVG for light and dark pages.
var picture = template.Must(template.New("picture").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-labelledby="title">
<title id="title">Who set what: the fields of a VM, by the author, two presets and the platform</title>
<style>
  text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
  .title { font: bold 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
  .note, .value { text-anchor: end }
  .note { fill: #59636e }
  .card { fill: #f6f8fa; stroke: #d1d9e0 }
  .user .bar { fill: #0969da } .preset0 .bar { fill: #8250df } .preset1 .bar { fill: #bf3989 } .platform .bar { fill: #6e7781 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .card { fill: #151b23; stroke: #3d444d }
    .user .bar { fill: #4493f8 } .preset0 .bar { fill: #ab7df8 } .preset1 .bar { fill: #db61a2 } .platform .bar { fill: #9198a1 }
  }
</style>
{{- range .Cards}}
<g class="{{.Class}}" transform="translate({{.X}} {{.Y}})">
  <rect class="card" width="{{$.CardWidth}}" height="{{.Height}}" rx="6"/>
  <rect class="bar" width="5" height="{{.Height}}" rx="2"/>
  <text class="title" x="18" y="22">{{.Title}}</text><text class="note" x="476" y="22">{{.Note}}</text>
  {{- range .Lines}}
  <text x="18" y="{{.Y}}">{{.Left}}</text>{{if .Right}}<text class="value" x="476" y="{{.Y}}">{{.Right}}</text>{{end}}
  {{- end}}
</g>
{{- end}}
</svg>
`))

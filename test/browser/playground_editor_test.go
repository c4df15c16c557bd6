package browser_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// enter only presses the key: Chromium would insert the text of the key even though CodeMirror
// handles the key.
var enter = input.DispatchKeyEvent(input.KeyRawDown).WithKey("Enter").WithWindowsVirtualKeyCode(13)

func TestPlaygroundFields(t *testing.T) {
	p := open(t, fragment(t, "", "apiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata:\n  name: a\nspec:\n  "))
	presets := `document.getElementById("presets").shadowRoot`
	options := `[...` + presets + `.querySelectorAll(".cm-completionLabel")].map((l) => l.textContent).join()`
	p.run(typed("presets", "mod"))
	p.want(options + ` === "mode"`)
	p.after(chromedp.Sleep(200*time.Millisecond), enter) // CodeMirror ignores keys just after it opens a list
	p.want(options + `.includes("Warn")`)
	p.run(chromedp.KeyEvent(kb.Escape))

	var box struct{ X, Y float64 }
	p.run(chromedp.Evaluate(`{const r = document.createRange(); r.selectNodeContents([...`+presets+`.querySelectorAll(".cm-line")].at(-1).querySelector("span"));
		const b = r.getBoundingClientRect(); ({X: b.x + 10, Y: b.y + b.height / 2})}`, &box))
	p.run(chromedp.MouseEvent(input.MouseMoved, box.X, box.Y), chromedp.MouseEvent(input.MouseMoved, box.X+1, box.Y))
	p.want(presets + `.querySelector(".cm-describe")?.textContent.includes("how strictly")`)
}

// TestPlaygroundOffersMissingFields checks that fields are not offered twice in a map.
func TestPlaygroundOffersMissingFields(t *testing.T) {
	const head = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n"
	for text, want := range map[string]string{
		head + "^\nmetadata: {name: a}\nspec: {}":                                                                               "",
		"^\n# below\nkind: VirtualMachine\nmetadata: {}":                                                                        "apiVersion spec",
		head + "spec:\n  ^\n  running: true\n  template:\n    x: 1\n":                                                           "dataVolumeTemplates instancetype preference runStrategy updateVolumesStrategy",
		head + "spec: {template: {spec: {networks: [{name: a, ^, multus: {}}, {}]}}}":                                           "pod resourceClaim",
		head + "spec:\n  template:\n    spec:\n      networks:\n      - name: a\n        ^\n        pod: {}\n      - multus:\n": "multus resourceClaim",
	} {
		before, after, _ := strings.Cut(text, "^")
		p := open(t, fragment(t, before+after, ""))
		content := `document.getElementById("vm").shadowRoot.querySelector(".cm-content")`
		p.run(chromedp.Evaluate(content+`.focus()`, nil), chromedp.KeyEvent(kb.Home, chromedp.KeyModifiers(input.ModifierCtrl)))
		for range len(before) {
			p.run(chromedp.KeyEvent(kb.ArrowRight))
		}
		p.run(chromedp.KeyEvent(" ", chromedp.KeyModifiers(input.ModifierCtrl)), chromedp.Sleep(300*time.Millisecond))
		got := p.text(`[...document.getElementById("vm").shadowRoot.querySelectorAll(".cm-completionLabel")].map((l) => l.textContent).sort((a, b) => a.localeCompare(b)).join(" ")`)
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestPlaygroundIndents checks where Enter starts a line.
func TestPlaygroundIndents(t *testing.T) {
	p := open(t, fragment(t, "", ""))
	for line := range strings.SplitSeq("spec:|template: # of VMIs|spec:|networks:|- name: a|pod: {}|", "|") {
		p.after(typed("vm", line), enter)
	}
	want := "spec:\n  template: # of VMIs\n    spec:\n      networks:\n        - name: a\n          pod: {}"
	if got := strings.TrimSpace(p.editorText("vm")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

package browser_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/virtwright/virtwright/test/browser"
)

// hostile is a VM with markup in its names and values.
const hostile = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: vm
  annotations:
    a: "</code></style><script>document.title = 'ran'</script><img src=x onerror=\"document.title = 'ran'\">"
    b: "{{.}} javascript:document.title='ran' \u202e"
spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}
`

// openExplained opens what virtwright explain prints, in a window of a phone's width.
func openExplained(t *testing.T, output, stdin string, args ...string) context.Context {
	t.Helper()
	ctx := browser.Open(t)
	command := exec.CommandContext(t.Context(), "go", append([]string{"run", "-C", "../..", "./cmd/virtwright", "explain", "-o", output}, args...)...)
	command.Stdin = strings.NewReader(stdin)
	page, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page."+output)
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Run(ctx, chromedp.EmulateViewport(400, 900), browser.Load("file://"+file)); err != nil {
		t.Fatal(err)
	}
	return ctx
}

func TestExplainPage(t *testing.T) {
	ctx := openExplained(t, "html", "", "-f", "cmd/virtwright/testdata/explain/old-appliance.yaml", "-f", "examples/vms/desktop.yaml", "-f", "examples/presets", "-f", "examples/namespaces.yaml")
	const tip = `[...document.querySelectorAll('.tip')].filter(e => e.checkVisibility()).map(e => e.innerText).join()`
	var before, focused, hovered string
	var wide bool
	const lost = `//div[contains(@class, "lost")]`
	if err := chromedp.Run(ctx,
		chromedp.Evaluate(tip, &before),
		chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(tip, &focused),
		chromedp.Evaluate(`document.activeElement.blur()`, nil),
		chromedp.ScrollIntoView(lost), chromedp.QueryAfter(lost, hover, chromedp.NodeVisible), chromedp.Evaluate(tip, &hovered),
		chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide),
	); err != nil {
		t.Fatal(err)
	}
	const first = `Preset cluster/tier-prod (default) would set "Always", but the annotation virtwright.dev/exclude excludes it.`
	const want = "The user wrote {}. The preset sets an alternative to this field."
	if before != "" || focused != first || hovered != want {
		t.Errorf("notes: %q before, %q with the keyboard focus, %q beneath the pointer", before, focused, hovered)
	}
	if wide {
		t.Error("the page scrolls to the side")
	}
	for _, theme := range []string{"light", "dark"} {
		t.Run(theme, func(t *testing.T) {
			features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
			if err := chromedp.Run(ctx, emulation.SetEmulatedMedia().WithFeatures(features)); err != nil {
				t.Fatal(err)
			}
			browser.Accessible(ctx, t, "../../docs/node_modules")
		})
	}
}

// hover moves the pointer to the middle of an element.
func hover(ctx context.Context, _ runtime.ExecutionContextID, nodes ...*cdp.Node) error {
	box, err := dom.GetBoxModel().WithNodeID(nodes[0].NodeID).Do(ctx)
	if err != nil {
		return err
	}
	return chromedp.MouseEvent(input.MouseMoved, (box.Content[0]+box.Content[4])/2, (box.Content[1]+box.Content[5])/2).Do(ctx)
}

// TestExplainPageOfHostileValues checks that markup in a VM is text, and that the page's policy
// allows no script.
func TestExplainPageOfHostileValues(t *testing.T) {
	ctx := openExplained(t, "html", hostile, "-f", "-")
	var title, text string
	var elements int
	if err := chromedp.Run(ctx,
		chromedp.Title(&title), chromedp.Text(".yaml", &text),
		chromedp.Evaluate(`document.querySelectorAll('script, img, a, iframe').length`, &elements),
	); err != nil {
		t.Fatal(err)
	}
	if title != "VirtualMachine default/vm" || elements != 0 || !strings.Contains(text, "<script>") || !strings.Contains(text, "onerror") {
		t.Errorf("title %q, %d elements, text:\n%s", title, elements, text)
	}
}

// TestExplainPicture checks that no two texts of a line overlap.
func TestExplainPicture(t *testing.T) {
	ctx := openExplained(t, "svg", "", "-f", "examples/vms", "-f", "examples/presets", "-f", "examples/namespaces.yaml")
	var lines int
	var overlapping []string
	const texts = `[...document.querySelectorAll('g:has(> .by)')].map(g => [...g.querySelectorAll('text')])`
	if err := chromedp.Run(ctx,
		chromedp.Evaluate(texts+`.length`, &lines),
		chromedp.Evaluate(texts+`.filter(([code, by]) => code.getBoundingClientRect().right > by.getBoundingClientRect().left).map(([code]) => code.textContent)`, &overlapping),
	); err != nil {
		t.Fatal(err)
	}
	if lines < 300 || len(overlapping) > 0 {
		t.Errorf("%d lines; these overlap: %q", lines, overlapping)
	}
}

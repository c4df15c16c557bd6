package site

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/virtwright/virtwright/test/browser"
)

// modules is where make site puts axe-core.
const modules = "../../docs/node_modules"

// open serves the site, and opens a browser. It returns the address of the front page.
func open(t *testing.T) (ctx context.Context, address string) {
	t.Helper()
	requireSite(t)
	server := httptest.NewServer(http.StripPrefix(strings.TrimSuffix(base(), "/"), http.FileServer(http.Dir(built))))
	t.Cleanup(server.Close)
	return browser.Open(t), server.URL + base()
}

// TestPages opens pages of each kind. browser.Open fails the test for errors on the console.
func TestPages(t *testing.T) {
	ctx, address := open(t)
	for page, want := range map[string]string{
		"": "virtwright", "docs/": "Documentation", "docs/operations.html#images": "Operate virtwright",
		"docs/adding-a-rule.html": "Add a validation rule", "examples/presets/sizes.yaml.html": "examples/presets/sizes.yaml",
		"launcher/podspec/": "launcher/podspec", "cmd/virtwright-launcher/": "cmd/virtwright-launcher",
	} {
		for _, scheme := range []string{"light", "dark"} {
			var title string
			var dark, overflows bool
			err := chromedp.Run(ctx, colours(scheme), chromedp.EmulateViewport(400, 800),
				browser.Load(address+page, chromedp.Text("h1", &title), chromedp.WaitReady("html[lang=en]")),
				chromedp.Evaluate(`document.documentElement.classList.contains("dark")`, &dark),
				chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &overflows))
			if err != nil || !strings.Contains(title, want) || dark != (scheme == "dark") || overflows {
				t.Errorf("%q, %s: title %q, dark %t, wider than the window %t, %v", page, scheme, title, dark, overflows, err)
			}
		}
	}
}

// TestSearch finds a page by its text, and opens it by the keyboard.
func TestSearch(t *testing.T) {
	ctx, address := open(t)
	var title string
	err := chromedp.Run(ctx, browser.Load(address), chromedp.Click(".VPNavBarSearch button"),
		chromedp.SendKeys(".VPLocalSearchBox input", "preset exception"), chromedp.WaitVisible(`.VPLocalSearchBox .result[href*="docs/exceptions.html"]`),
		chromedp.Click(`.VPLocalSearchBox .result[href*="docs/exceptions.html"]`), chromedp.WaitNotPresent(".VPLocalSearchBox"), chromedp.Text(".vp-doc h1", &title))
	if err != nil || !strings.Contains(title, "Let some VMs deviate") {
		t.Errorf("opened %q, %v", title, err)
	}
}

// TestPlayground shows a result on the front page before it loads the engine. Then it expands a VM
// there, and gives the playground the colours of the site.
func TestPlayground(t *testing.T) {
	ctx, address := open(t)
	const inside = `document.querySelector("iframe")?.contentDocument?.`
	const engines = `performance.getEntriesByType("resource").filter((r) => r.name.includes("/playground/")).length`
	var title, result string
	var loaded int
	err := chromedp.Run(ctx, colours("light"), chromedp.EmulateViewport(1400, 800), browser.Load(address),
		chromedp.Text(".playground .example", &result), chromedp.Sleep(time.Second), chromedp.Evaluate(engines, &loaded),
		chromedp.Click(".playground button"), chromedp.Poll(inside+`getElementById("lines")?.textContent.includes("runStrategy")`, nil),
		chromedp.Click(".VPNavBarAppearance button"), chromedp.Poll(inside+`documentElement.dataset.theme === "dark"`, nil),
		chromedp.Click(".VPHero a[href$='/playground/']"), chromedp.WaitVisible("#lines"), chromedp.Text("h1", &title))
	if err != nil || !strings.Contains(title, "playground") {
		t.Errorf("opened %q, %v", title, err)
	}
	if loaded != 0 || !strings.Contains(result, "golden-image") {
		t.Errorf("the front page loads %d files of the playground at once, and shows %q", loaded, result)
	}
}

// TestAccessible checks pages with axe-core, in both colour schemes and in windows of two widths.
func TestAccessible(t *testing.T) {
	ctx, address := open(t)
	for _, page := range []string{"", "docs/cli.html", "docs/rules.html", "examples/presets/sizes.yaml.html"} {
		for scheme, width := range map[string]int64{"light": 400, "dark": 1400} {
			t.Run(scheme+" "+page, func(t *testing.T) {
				if err := chromedp.Run(ctx, colours(scheme), chromedp.EmulateViewport(width, 800), browser.Load(address+page, chromedp.WaitVisible("h1"))); err != nil {
					t.Fatal(err)
				}
				browser.Accessible(ctx, t, modules)
			})
		}
	}
}

// colours makes the page prefer a colour scheme, without transitions: axe-core measures contrasts.
func colours(scheme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	})
}

package browser_test

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// module runs the body of an async function that uses a name of a module of the page.
func (p *playground) module(file, name, body string) (value string) {
	p.Helper()
	awaited := func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }
	script := fmt.Sprintf(`(async () => { const {%s} = await import(new URL(%q, location)); %s })()`, name, file, body)
	p.run(chromedp.Evaluate(script, &value, awaited))
	return value
}

// TestPlaygroundLinkLimits checks that a small link with a large state does not block the page, and
// that the page makes no link that it rejects.
func TestPlaygroundLinkLimits(t *testing.T) {
	p := open(t, "")
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil { // then the bytes can be repeated
		t.Fatal(err)
	}
	bomb := base64.RawURLEncoding.EncodeToString(bytes.Repeat(packed.Bytes(), 1024))
	p.run(chromedp.Evaluate("window.bomb = "+quoted(t, "#s="+bomb)+"; 0", nil))
	if got := p.module("link.js", "decode", `const began = performance.now(), reason = await decode(bomb).catch((error) => error.message);
		return reason + (performance.now() - began < 1000 ? "" : " after more than a second")`); got != "it holds more than 1 MB" {
		t.Errorf("a link with 1 GB: %s", got)
	}
	if got := p.module("link.js", "encode", `return encode({vm: "ü".repeat(300000), presets: "x".repeat(500000), mode: ""}).catch((error) => error.message)`); !strings.Contains(got, "larger than 1 MB") {
		t.Errorf("a link for 1.1 MB: %.80s", got)
	}
}

// TestPlaygroundRestart checks that an input that came while the engine failed is still evaluated.
func TestPlaygroundRestart(t *testing.T) {
	p := open(t, "")
	got := p.module("engine.js", "Engine", `return new Promise((done) => {
		const reports = [];
		const engine = new Engine({progress() {}, ready() {}, slow() {}, failed: () => reports.push("failed"), result(output) {
			if (output.vms.length) done([...reports, output.vms[0].name].join(" "));
			if (reports.length || output.vms.length) return;
			engine.evaluate({vm: "[".repeat(100000), presets: "", mode: ""}, 0);
			setTimeout(() => engine.evaluate({vm: "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: later}", presets: "", mode: ""}, 0), 5);
		}});
		engine.evaluate({vm: "", presets: "", mode: ""}, 0);
		setTimeout(() => done("nothing " + reports), 15000);
	})`)
	if !strings.HasSuffix(got, "later") {
		t.Errorf("got %s", got)
	}
	t.Log(got)
}

// TestPlaygroundRetry checks that an input which was stopped can be evaluated again with more time.
// The page's clock runs fast, so that the first evaluation is stopped.
func TestPlaygroundRetry(t *testing.T) {
	p := open(t, "")
	status, retry := `document.getElementById("status").textContent`, `document.getElementById("retry")`
	p.run(chromedp.Evaluate(`window.real = setTimeout; window.setTimeout = (f, ms) => real(f, ms === 2000 ? 0 : ms); 0`, nil))
	p.run(typed("vm", "# slow"))
	p.want(status + `.startsWith("Stopped after 2 s") && !` + retry + `.hidden`)
	p.run(chromedp.Click("#retry"))
	p.want("!" + status + `.startsWith("Stopped")`)
	if got := p.text(status + " + " + retry + ".hidden"); got != "Accepted.true" {
		t.Errorf("after another try: %s", got)
	}
}

// TestPlaygroundForcedColors checks that the colors of the system do not hide origins or the chosen
// line.
func TestPlaygroundForcedColors(t *testing.T) {
	p := open(t, "")
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}))
	p.run(chromedp.Evaluate(`document.getElementById("tab-expanded").click(); document.getElementById("lines").focus()`, nil), chromedp.KeyEvent(kb.Home))
	differ := func(what, expression string) {
		t.Helper()
		if got := p.text("new Set(" + expression + ").size"); got == "1" {
			t.Errorf("%s have the same color", what)
		}
	}
	differ("origins of the legend", `[...document.querySelectorAll("#legend i")].map((e) => getComputedStyle(e).backgroundColor)`)
	differ("origins of lines", `[...document.querySelectorAll("#lines .line[class*=origin-]")].map((e) => getComputedStyle(e).borderLeftColor)`)
	differ("the chosen line and the others", `[...document.querySelectorAll("#lines .line")].map((e) => getComputedStyle(e).backgroundColor.replace(/, 0\)/, ")"))`)
}

// TestPlaygroundLinkReplacesExample checks that a later link is not called an example.
func TestPlaygroundLinkReplacesExample(t *testing.T) {
	p := open(t, "")
	if got := p.text(`document.getElementById("example").value`); got != "0" {
		t.Errorf("the page starts with example %q", got)
	}
	p.after(chromedp.Evaluate("location.hash = "+quoted(t, fragment(t, "# mine", "")), nil))
	if got := p.text(`document.getElementById("example").value`); got != "" {
		t.Errorf("the link is called example %q", got)
	}
}

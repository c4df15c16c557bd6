package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/test/browser"
)

// maxEngine is the largest size of the compressed engine, in bytes.
const maxEngine = 9_500_000

// harness is a page that can start engines.
const harness = `<!doctype html><link rel="icon" href="data:,"><script src="wasm_exec.js"></script><script>
	async function start(file) {
		const packed = (await fetch(file)).body;
		const module = new Response(packed.pipeThrough(new DecompressionStream("gzip")), {headers: {"Content-Type": "application/wasm"}});
		const go = new Go();
		const {instance} = await WebAssembly.instantiateStreaming(module, go.importObject);
		go.run(instance);
		while (!globalThis.virtwright) await new Promise((done) => setTimeout(done));
	}</script>`

// chromium runs engines in a page.
type chromium struct {
	testing.TB
	page    context.Context
	address string
}

// openHarness serves the files of a folder and opens the harness.
func openHarness(t testing.TB, folder string) *chromium {
	t.Helper()
	ctx := browser.Open(t)
	files := http.FileServerFS(os.DirFS(folder))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(harness))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &chromium{t, ctx, server.URL}
}

// run evaluates JavaScript and waits for its result.
func (c *chromium) run(script string, out any) {
	c.Helper()
	awaited := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	if err := chromedp.Run(c.page, chromedp.Evaluate(script, out, awaited)); err != nil {
		c.Fatal(err)
	}
}

// start loads the page again and starts an engine. It returns the time until the first result, in
// milliseconds.
func (c *chromium) start(file string, in playground.Input) (ms float64) {
	c.Helper()
	if err := chromedp.Run(c.page, browser.Load(c.address)); err != nil {
		c.Fatal(err)
	}
	c.run(fmt.Sprintf(`(async () => {
		const began = performance.now();
		await start(%q);
		virtwright.evaluate(%s);
		return performance.now() - began;
	})()`, file, argument(c, in)), &ms)
	return ms
}

// evaluate returns a result, and the time that it took, in milliseconds.
func (c *chromium) evaluate(in playground.Input) (out playground.Output, ms float64) {
	c.Helper()
	var answer struct {
		Output playground.Output
		MS     float64
	}
	c.run(fmt.Sprintf(`(() => {
		const text = %s, began = performance.now(), output = virtwright.evaluate(text), ms = performance.now() - began;
		return {output: JSON.parse(output), ms};
	})()`, argument(c, in)), &answer)
	return answer.Output, answer.MS
}

// argument returns the input as the engine takes it: a text of JavaScript that holds JSON.
func argument(t testing.TB, in playground.Input) string {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// buildEngine compiles the engine into a folder.
func buildEngine(t testing.TB) (folder string) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles the engine, which takes a minute")
	}
	folder = t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "run", "./cmd/virtwright/internal/playground/build", folder)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(filepath.Join(folder, "engine.wasm.gz")); err != nil || info.Size() > maxEngine {
		t.Errorf("the engine is too large: %v, %v", info, err)
	}
	return folder
}

// TestPlaygroundPage opens the page as the command serves it: with files, and with the link that
// explain prints. The browser must find no violation of the server's content security policy.
func TestPlaygroundPage(t *testing.T) {
	args := []string{"-f", exampleVMs + "/web.yaml", "-f", examplePresets, "-f", exampleNamespaces}
	want := strings.TrimSpace(call(t, "", append([]string{"expand"}, args...)...).fine(t).out)
	files := os.DirFS(buildEngine(t))
	with, without := serveFiles(t, files, args...), serveFiles(t, files)
	link := call(t, "", append([]string{"explain", "--link", without.String()}, args...)...).fine(t).out
	for name, address := range map[string]string{"files": with.String(), "link": strings.TrimSpace(link)} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			const ready = `document.body.dataset.runs && document.querySelector("#lines .line")`
			if err := chromedp.Run(browser.Open(t), browser.Load(address), chromedp.Poll(ready, nil, chromedp.WithPollingTimeout(time.Minute)),
				chromedp.Evaluate(`[...document.querySelectorAll("#lines .line:not(.removed)")].map((l) => l.children[0].textContent + l.children[1].textContent)`, &lines)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("-expand, +page:\n%s", diff)
			}
		})
	}
}

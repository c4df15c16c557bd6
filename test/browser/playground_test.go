package browser_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/virtwright/virtwright/test/browser"
)

const root = "../../"

// folder holds the playground while tests run.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "playground-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// build fills folder once for all tests.
var build = sync.OnceValue(func() error {
	build := exec.Command("go", "run", "./cmd/virtwright/internal/playground/build", folder,
		"-X github.com/virtwright/virtwright/cmd/virtwright/internal/version.Release=v1.2.3")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the playground: %w\n%s", err, out)
	}
	return nil
})

// playground is the page in a browser, as a static server in a folder serves it.
type playground struct {
	*testing.T
	ctx  context.Context
	link string
}

// open opens the page, with the end of its address, and waits for its first result. The state of
// the server has the token secret.
func open(t *testing.T, end string) *playground {
	t.Helper()
	ctx := browser.Open(t)
	if err := build(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/some/folder/", http.StripPrefix("/some/folder/", http.FileServer(http.Dir(folder))))
	mux.HandleFunc("/some/folder/state.json", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "token=secret" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"vm": "kind: VirtualMachine # of the cluster", "presets": "# all", "mode": "addon"}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p := &playground{T: t, ctx: ctx, link: server.URL + "/some/folder/"}
	p.run(chromedp.EmulateViewport(1400, 860), browser.Load(p.link+end))
	p.want("document.body?.dataset.runs")
	return p
}

func (p *playground) run(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// text returns the value of an expression as text.
func (p *playground) text(expression string) string {
	p.Helper()
	var value string
	p.run(chromedp.Evaluate("String("+expression+")", &value))
	return value
}

// want fails the test if the expression is not true soon.
func (p *playground) want(expression string) {
	p.Helper()
	if err := chromedp.Run(p.ctx, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(40*time.Second))); err != nil {
		p.Fatalf("%s: %v; status: %s; detail: %s", expression, err, p.text("document.getElementById('status').textContent"), p.text("document.getElementById('detail').textContent"))
	}
}

// after waits for the result that follows the actions. A busy machine may take longer than the page
// allows a run; then it retries, as a reader of the page would.
func (p *playground) after(actions ...chromedp.Action) {
	p.Helper()
	ran := "Number(document.body.dataset.runs) > " + p.text("document.body.dataset.runs")
	p.run(actions...)
	const stopped = `document.getElementById("status").textContent.startsWith("Stopped after 2 s")`
	p.want(ran + " || " + stopped)
	p.text(stopped + ` && document.getElementById("retry").click()`)
	p.want(ran)
}

// choose sets a select of the toolbar.
func choose(id, value string) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf(`{const s = document.getElementById(%q); s.value = %q; s.dispatchEvent(new Event("change"))}`, id, value), nil)
}

// typed sends text to an editor, at the end of its own text.
func typed(editor, text string) chromedp.Action {
	return chromedp.Tasks{
		chromedp.Evaluate(fmt.Sprintf(`document.getElementById(%q).shadowRoot.querySelector(".cm-content").focus()`, editor), nil),
		chromedp.KeyEvent(kb.End, chromedp.KeyModifiers(input.ModifierCtrl)), chromedp.KeyEvent(text),
	}
}

// editorText returns the lines that an editor shows.
func (p *playground) editorText(id string) string {
	p.Helper()
	return p.text(fmt.Sprintf(`[...document.getElementById(%q).shadowRoot.querySelectorAll(".cm-line")].map((l) => l.textContent).join("\n")`, id))
}

// fragment encodes a state as links do.
func fragment(t *testing.T, vm, presets string) string {
	t.Helper()
	state, err := json.Marshal(map[string]string{"vm": vm, "presets": presets, "mode": "standalone"})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(state); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return "#s=" + base64.RawURLEncoding.EncodeToString(packed.Bytes())
}

const errorMarks = `document.getElementById("presets").shadowRoot.querySelectorAll(".cm-lint-marker-error").length`

func TestPlaygroundExamples(t *testing.T) {
	p := open(t, "")
	var examples []struct{ Title string }
	content, err := os.ReadFile(filepath.Join(root, "cmd/virtwright/internal/playground/web/examples.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &examples); err != nil || len(examples) < 6 {
		t.Fatalf("read %d examples: %v", len(examples), err)
	}
	for i, example := range examples {
		t.Run(example.Title, func(t *testing.T) {
			p := &playground{T: t, ctx: p.ctx}
			p.after(choose("example", fmt.Sprint(i)))
			if lines := p.text(`document.querySelectorAll("#lines .line[class*=origin-]").length`); lines == "0" {
				t.Error("no line has an origin")
			}
			if domain := p.text(`document.getElementById("domain").textContent`); !strings.HasPrefix(domain, "<domain") {
				t.Errorf("the domain is %.80q", domain)
			}
			if matches := p.text(`document.querySelectorAll("#matches .matched").length`); matches == "0" {
				t.Error("no preset matched")
			}
			errors := p.text(`[...document.querySelectorAll("#problems .error, #problems .note")].map((e) => e.textContent).join()`)
			if example.Title == "A misspelt field" {
				if !strings.Contains(errors, "memroy") || p.text(errorMarks) != "1" {
					t.Errorf("problems: %q", errors)
				}
			} else if errors != "" {
				t.Errorf("problems: %s", errors)
			}
		})
	}
}

// TestPlaygroundVersion checks that the page shows the version of the engine, as the command does.
func TestPlaygroundVersion(t *testing.T) {
	p := open(t, "")
	if got, want := p.text(`document.getElementById("version").textContent`), "virtwright v1.2.3 "+runtime.Version(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlaygroundEdit(t *testing.T) {
	p := open(t, "")
	p.after(typed("vm", "spec: {runStrategy: Halted}"))
	halted := `[...document.querySelectorAll("#lines .line")].find((l) => l.textContent.includes("runStrategy: Halted"))`
	p.want(halted + `?.matches(".origin-user.noted")`)
	p.after(choose("mode", "addon"))
	p.want(halted + " !== undefined")
	if got := p.text("document.getElementById('example').value"); got != "" {
		t.Errorf("the example is still %q after an edit", got)
	}

	detail := `document.getElementById("detail").textContent`
	var box struct{ X, Y float64 }
	p.run(chromedp.Evaluate(halted+`.scrollIntoView({block: "center"})`, nil), chromedp.Evaluate(`{const b = `+halted+`.getBoundingClientRect(); ({X: b.x + 50, Y: b.y + b.height / 2})}`, &box))
	p.run(chromedp.MouseEvent(input.MouseMoved, box.X, box.Y))
	p.want(detail + `.includes("golden-image")`)
	hovered := p.text(detail)

	p.run(chromedp.MouseEvent(input.MouseMoved, 1, 1), chromedp.Evaluate(`document.getElementById("lines").focus()`, nil), chromedp.KeyEvent(kb.Home))
	p.want(`!` + detail + `.includes("golden-image")`)
	for range 100 {
		if p.text(`document.querySelector("#lines [aria-selected=true]").textContent.includes("Halted")`) == "true" {
			break
		}
		p.run(chromedp.KeyEvent(kb.ArrowDown))
	}
	if got := p.text(detail); got != hovered {
		t.Errorf("the keyboard shows %q, the mouse %q", got, hovered)
	}
	if got := p.text(`document.getElementById(document.getElementById("lines").getAttribute("aria-activedescendant")).textContent`); !strings.Contains(got, "golden-image") {
		t.Errorf("a screen reader says %q", got)
	}
}

func TestPlaygroundProblems(t *testing.T) {
	p := open(t, "")
	p.after(choose("example", "7"), chromedp.Click("#tab-problems"))
	p.want(errorMarks + " === 1")
	where := p.text(`document.querySelector("#problems .error small").textContent`)
	p.run(chromedp.Click("#problems .error button"))
	p.want(`document.activeElement.id === "presets"`)
	at := p.text(`document.getElementById("presets").shadowRoot.querySelector(".cm-lineNumbers .cm-activeLineGutter").textContent`)
	if where != "Presets, line "+at || !strings.Contains(p.text(`document.getElementById("presets").shadowRoot.querySelector(".cm-lintRange-error").textContent`), "memroy") {
		t.Errorf("the problem is at %q, the cursor at line %s", where, at)
	}
	p.after(chromedp.KeyEvent("\n"), choose("example", "0"))
	p.want(errorMarks + " === 0")
}

// TestPlaygroundOrigin leads from a line, and from a preset that matched, to the preset's name.
func TestPlaygroundOrigin(t *testing.T) {
	p := open(t, fragment(t, "kind: VirtualMachine\napiVersion: kubevirt.io/v1\nmetadata: {name: a, namespace: b}\n",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n---\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\n"+
			"metadata:\n  name: web.1\nspec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}\n"))
	cursor := `document.getElementById("presets").shadowRoot.querySelector(".cm-lineNumbers .cm-activeLineGutter").textContent`
	for _, way := range [][]string{
		{`[...document.querySelectorAll("#lines .line")].find((l) => l.textContent.includes("1Gi")).click()`, `document.querySelector("#detail button").click()`},
		{`document.getElementById("tab-matches").click()`, `document.querySelector("#matches button").click()`},
	} {
		p.run(chromedp.Evaluate(`document.getElementById("vm").focus()`, nil), chromedp.Evaluate(way[0], nil), chromedp.Evaluate(way[1], nil))
		p.want(`document.activeElement.id === "presets"`)
		if at := p.text(cursor); at != "8" {
			t.Errorf("%s leads to line %s", way[1], at)
		}
	}
}

func TestPlaygroundLink(t *testing.T) {
	vm := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: überall, namespace: lab}"
	p := open(t, fragment(t, vm, "# keine"))
	if got := p.editorText("vm"); got != vm {
		t.Errorf("the link's VM is %q", got)
	}
	p.after(typed("vm", "\nspec: {running: true}"))
	p.after(choose("mode", "addon"))
	p.run(chromedp.Click("#share"))
	p.want(`document.getElementById("status").textContent.startsWith("The link is")`)
	edited, hash := p.editorText("vm"), p.text("location.hash")
	p.run(browser.Load(p.link + hash))
	p.want("document.body?.dataset.runs")
	if got := p.editorText("vm"); got != edited || p.editorText("presets") != "# keine" || p.text("document.getElementById('mode').value") != "addon" {
		t.Errorf("the shared VM is %q, not %q", got, edited)
	}
	if strings.Contains(hash, "=") && strings.Count(hash, "=") > 1 || strings.ContainsAny(hash, "+/") {
		t.Errorf("the link is not base64url: %s", hash)
	}
	for _, damaged := range []string{"#s=AAAA", "#s=%%%", hash[:len(hash)/2], fragment(t, strings.Repeat("a", 2<<20), "")} {
		p.run(browser.Load(p.link + damaged))
		p.want("document.body?.dataset.runs")
		if status := p.text("document.getElementById('status').textContent"); !strings.Contains(status, "The link cannot be read") {
			t.Errorf("%.30s: the status is %q", damaged, status)
		}
		if got := p.editorText("vm"); !strings.Contains(got, "tiny") {
			t.Errorf("%.30s: the VM is %q", damaged, got)
		}
	}
}

// TestPlaygroundState checks that the page shows the server's state, and that links do not contain
// the token.
func TestPlaygroundState(t *testing.T) {
	p := open(t, "?token=secret")
	if vm := p.editorText("vm"); vm != "kind: VirtualMachine # of the cluster" || p.text("document.getElementById('mode').value") != "addon" {
		t.Errorf("the VM is %q", vm)
	}
	p.run(chromedp.Evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text }; 0`, nil), chromedp.Click("#share"))
	p.want("window.copied")
	if link := p.text("window.copied"); !strings.HasPrefix(link, p.link+"#s=") {
		t.Errorf("the link is %s", link)
	}
}

func TestPlaygroundKeyboard(t *testing.T) {
	p := open(t, "")
	focus := func() string { return p.text(`document.activeElement.id`) }
	tab := func(want string) {
		t.Helper()
		p.run(chromedp.KeyEvent(kb.Tab))
		if got := focus(); got != want {
			t.Errorf("Tab leads to %q, not %q", got, want)
		}
	}
	for _, id := range []string{"example", "mode", "theme", "share", "vm"} {
		tab(id)
	}
	p.run(chromedp.KeyEvent(kb.Tab)) // indents
	if focus() != "vm" || !strings.HasPrefix(p.editorText("vm"), "  #") {
		t.Errorf("Tab does not indent: %q has the focus", focus())
	}
	p.run(chromedp.KeyEvent(kb.Escape))
	tab("presets")
	p.run(chromedp.KeyEvent(kb.Escape))
	for _, id := range []string{"tab-expanded", "copy", "command", "lines"} {
		tab(id)
	}
	p.run(chromedp.Focus("#tab-expanded", chromedp.ByQuery))
	for _, step := range []struct{ key, tab, panel string }{
		{kb.ArrowRight, "tab-sparse", "sparse"}, {kb.ArrowRight, "tab-matches", "matches"}, {kb.ArrowRight, "tab-domain", "domain"}, {kb.End, "tab-problems", "problems"},
		{kb.ArrowRight, "tab-expanded", "expanded"}, {kb.ArrowLeft, "tab-problems", "problems"}, {kb.Home, "tab-expanded", "expanded"},
	} {
		p.run(chromedp.KeyEvent(step.key))
		shown := p.text(`[...document.querySelectorAll("[role=tabpanel]:not([hidden])")].map((e) => e.id)`)
		if focus() != step.tab || shown != step.panel {
			t.Errorf("the arrow leads to %s with panel %s, not to %s", focus(), shown, step.tab)
		}
	}
}

func TestPlaygroundLooks(t *testing.T) {
	p := open(t, "")
	background := `getComputedStyle(document.body).backgroundColor`
	scheme := func(value string) chromedp.Action {
		return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}})
	}
	seen := map[string]string{}
	for _, row := range []struct{ system, theme, want string }{
		{"light", "", "light"}, {"dark", "", "dark"}, {"dark", "light", "light"}, {"light", "dark", "dark"},
	} {
		p.run(scheme(row.system), choose("theme", row.theme))
		if got := p.text(background); seen[row.want] == "" {
			seen[row.want] = got
		} else if got != seen[row.want] {
			t.Errorf("system %s, theme %q: the background is %s", row.system, row.theme, got)
		}
	}
	if seen["light"] == seen["dark"] {
		t.Error("dark and light look alike")
	}
}

// TestPlaygroundIsNarrow opens each example in a window of 320 pixels. A small phone has this
// width, and so does a screen of 1280 pixels at a zoom of 400 percent.
func TestPlaygroundIsNarrow(t *testing.T) {
	p := open(t, "")
	const narrowest = 320
	p.run(emulation.SetDeviceMetricsOverride(narrowest, 800, 1, true))
	for i := range 9 {
		p.after(choose("example", fmt.Sprint(i)))
		for _, tab := range []string{"expanded", "matches", "domain", "problems"} {
			p.run(chromedp.Evaluate(`document.getElementById("tab-`+tab+`").click()`, nil))
			if width := p.text("document.documentElement.scrollWidth"); width != fmt.Sprint(narrowest) {
				t.Errorf("example %d, %s: the page is %s px wide", i, tab, width)
			}
		}
	}
}

func TestPlaygroundAccessible(t *testing.T) {
	p := open(t, "")
	for _, theme := range []string{"light", "dark"} {
		p.run(choose("theme", theme))
		for _, tab := range []string{"expanded", "matches", "domain", "problems"} {
			p.after(choose("example", "7"), chromedp.Evaluate(`document.getElementById("tab-`+tab+`").click(); document.getElementById("lines").focus()`, nil))
			p.run(chromedp.Sleep(1500 * time.Millisecond)) // the last change fades
			browser.Accessible(p.ctx, t, root+"cmd/virtwright/internal/playground/web/node_modules")
		}
	}
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	content, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

package browser_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestPlaygroundTests shows failed and passed cases of tests, at their lines.
func TestPlaygroundTests(t *testing.T) {
	const tests = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: cpus}\ncases:\n" +
		"- {name: one, vm: {spec: {runStrategy: Halted, template: &t {spec: {domain: {memory: {guest: 1Gi}}}}}}, expect: {vm: {spec: {runStrategy: Halted}}}}\n" +
		"- {name: two, vm: {spec: {runStrategy: Halted, template: *t}}, expect: {vm: {spec: {runStrategy: Always}}}}\n"
	p := open(t, fragment(t, "", tests))
	if got := p.text(`document.getElementById("status").textContent`); got != "1 of 2 test cases failed." {
		t.Errorf("the status is %q", got)
	}
	p.want(errorMarks + ` === 1`)
	cards := p.text(`[...document.querySelectorAll("#problems li")].map((e) => [...e.firstChild.children].map((c) => c.textContent).join("|")).join()`)
	if want := "passed|Presets, line 5|cpus: one|,failed|Presets, line 6|cpus: two|spec.runStrategy\n  - \"Always\"\n  + \"Halted\"   user\n"; cards != want {
		t.Errorf("got %q, want %q", cards, want)
	}
}

// TestPlaygroundCommand copies a command for each tab, with the files that are not empty.
func TestPlaygroundCommand(t *testing.T) {
	p := open(t, fragment(t, "kind: VM", "---\n# no presets\n"))
	p.run(chromedp.Evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text }; 0`, nil))
	copied := func(tab, want string) {
		t.Helper()
		p.run(chromedp.Click("#"+tab), chromedp.Click("#command"))
		p.want(`window.copied === ` + quoted(t, want) + ` && document.getElementById("status").textContent === "Copied: " + window.copied`)
	}
	copied("tab-expanded", "virtwright explain -o yaml -f vm.yaml --mode standalone")
	p.after(typed("presets", "kind: preset"), choose("mode", "addon"))
	copied("tab-sparse", "virtwright sparsify -o yaml -f vm.yaml -f presets.yaml --mode addon")
	copied("tab-matches", "virtwright explain --all -f vm.yaml -f presets.yaml --mode addon")
	copied("tab-domain", "virtwright render -f vm.yaml -f presets.yaml --mode addon")
	copied("tab-problems", "virtwright validate -f vm.yaml -f presets.yaml --mode addon")
	p = open(t, fragment(t, "# no VM", "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: cpus}\ncases: [{name: one, vmFile: vm.yaml, expect: {}}]\n"))
	p.want(`document.getElementById("problems").textContent.includes("files cannot be read here")`)
	p = open(t, fragment(t, "", "# nothing"))
	p.run(chromedp.Click("#command"))
	p.want(`document.getElementById("status").textContent.startsWith("There is nothing to run")`)
}

// TestPlaygroundSparse shows the sparse manifest of the chosen VM, also after an edit and in
// another mode.
func TestPlaygroundSparse(t *testing.T) {
	p := open(t, fragment(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}}}}}\n---\n"+
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: b}\nspec:\n  runStrategy: Manual\n  template: {spec: {domain: {memory: {guest: 2Gi}}}}\n", ""))
	p.after(chromedp.Click("#tab-sparse"))
	shows := `document.getElementById("sparse").textContent`
	p.want(shows + `.includes("it has 1 field.") && ` + shows + `.includes("guest: 1Gi") && !` + shows + `.includes("runStrategy")`)
	p.after(choose("chosen", "1"))
	p.want(shows + `.includes("runStrategy: Manual")`)
	p.after(typed("vm", "  updateVolumesStrategy: Migration"))
	p.want(shows + `.includes("updateVolumesStrategy")`)
	p.after(choose("mode", "addon"))
	p.want(shows + `.includes("guest: 2Gi")`)
	p.after(choose("example", "0"))
	p.want(`document.getElementById("status").textContent.startsWith("Accepted") && ` + shows + `.includes("A create of this manifest")`)
}

// TestPlaygroundSparseTooSlow makes a large VM sparse. The other tabs show the result all the same.
func TestPlaygroundSparseTooSlow(t *testing.T) {
	vm := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec:\n  runStrategy: Halted\n  template:\n    spec:\n      domain:\n        memory: {guest: 1Gi}\n        devices:\n          disks:\n"
	volumes := "      volumes:\n"
	for i := range 500 {
		vm += fmt.Sprintf("          - {name: d%d, disk: {bus: virtio}}\n", i)
		volumes += fmt.Sprintf("      - {name: d%d, emptyDisk: {capacity: 1Gi}}\n", i)
	}
	p := open(t, fragment(t, vm+volumes, ""))
	p.run(chromedp.Click("#tab-sparse"))
	slow := `document.getElementById("sparse").textContent.includes("takes too long")`
	p.want(slow)
	p.run(choose("mode", "addon"))
	p.want(`!document.getElementById("lines").textContent.includes("pci-topology-version")`)
	p.want(slow)
}

// TestPlaygroundTouch shows hints for the input device.
func TestPlaygroundTouch(t *testing.T) {
	p := open(t, "")
	hints := `document.getElementById("detail").textContent + "|" + getComputedStyle(document.querySelector(".hint")).display`
	if got, want := p.text(hints), "Point at a line, or use the arrow keys, to see its origin.|block"; got != want {
		t.Errorf("with a mouse: %q", got)
	}
	p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "pointer", Value: "coarse"}}), emulation.SetTouchEmulationEnabled(true))
	p.after(choose("example", "1"))
	if got, want := p.text(hints), "Tap a line to see its origin.|none"; got != want {
		t.Errorf("on a touch screen: %q", got)
	}
}

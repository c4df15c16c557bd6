package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

var undo = chromedp.KeyEvent("z", chromedp.KeyModifiers(input.ModifierCtrl))

// TestPlaygroundKeepsText undoes edits only, and keeps them when the page is loaded again.
func TestPlaygroundKeepsText(t *testing.T) {
	p := open(t, fragment(t, "kind: VirtualMachine", "# presets"))
	p.run(chromedp.Focus(`document.getElementById("vm").shadowRoot.querySelector(".cm-content")`, chromedp.ByJSPath), undo)
	if text := p.editorText("vm"); text != "kind: VirtualMachine" {
		t.Fatalf("undo on a new page leaves %q", text)
	}
	p.after(typed("vm", " # mine"))
	if hash := p.text("location.hash"); hash != "" {
		t.Errorf("the address still has the text from before the edit: %s", hash)
	}
	p.run(chromedp.Reload())
	p.want("document.body?.dataset.runs")
	if text := p.editorText("vm"); text != "kind: VirtualMachine # mine" {
		t.Errorf("after a reload the editor has %q", text)
	}
	p.after(choose("example", "0"))
	p.run(chromedp.Focus(`document.getElementById("vm").shadowRoot.querySelector(".cm-content")`, chromedp.ByJSPath), undo)
	if text := p.editorText("vm"); strings.Contains(text, "# mine") || !strings.Contains(text, "kind: VirtualMachine") {
		t.Errorf("undo after the choice of an example leaves %q", text)
	}
}

// TestPlaygroundVerdict says in words whether a cluster takes the VM.
func TestPlaygroundVerdict(t *testing.T) {
	const vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: v, namespace: lab}\nspec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n"
	for want, state := range map[string][2]string{
		"Accepted":         {vm, ""},
		"Rejected, 1 err":  {strings.Replace(vm, "Halted", "Halt", 1), ""},
		"Rejected presets": {vm, "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: p}\nspec: {defaults: {spec: {runnig: true}}}\n"},
		"No VM.":           {"", ""},
		"No VM, 1 warning": {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", ""},
	} {
		p := open(t, fragment(t, state[0], state[1]))
		if got := p.text(`document.getElementById("status").textContent`); !strings.HasPrefix(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
		if got := p.text(`document.getElementById("legend").textContent`); strings.Contains(want, "warning") != strings.Contains(got, "paste a VirtualMachine") {
			t.Errorf("%s: the result says %q", want, got)
		}
	}
}

package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestPlaygroundPolicy(t *testing.T) {
	p := open(t, "")
	policy := p.text(`document.querySelector("meta[http-equiv=Content-Security-Policy]").content`)
	for _, want := range []string{"default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "connect-src 'self'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy has no %q: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe-inline") || strings.Contains(policy, "unsafe-eval'") && !strings.Contains(policy, "'wasm-unsafe-eval'") {
		t.Errorf("the policy allows inline code: %s", policy)
	}
	// The page asks only its own server.
	foreign := p.text(`performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith(location.origin) && !n.startsWith("data:"))`)
	if foreign != "" {
		t.Errorf("the page loads %s", foreign)
	}
}

// TestPlaygroundHostile checks that no input runs script or blocks the page.
func TestPlaygroundHostile(t *testing.T) {
	const script = `<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>`
	head := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: a\n"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	var many strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&many, "---\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: p%d}\nspec:\n  match:\n    conditions:\n"+
			"    - {name: c, expression: 'object.metadata.name.matches(\"a%d\") || [1,2,3].all(x, x > %d)'}\n  defaults: {metadata: {labels: {l%d: x}}}\n", i, i, i, i)
	}
	for name, texts := range map[string][2]string{
		"script in names":  {"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata:\n  name: '" + script + "'\n  namespace: '" + script + "'", "kind: '" + script + "'\n"},
		"script in values": {head + "  labels: {'" + script + "': '" + script + "'}\nspec:\n  '" + script + "': 1\n  runStrategy: '" + script + "'", ""},
		"script in preset": {head, "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: '" + script + "'}\nspec: {'" + script + "': 1}"},
		"alias bomb":       {bomb, bomb},
		"bomb in a VM":     {head + "spec:\n  x:\n    " + strings.ReplaceAll(bomb, "\n", "\n    "), ""},
		"deep nesting":     {head + "spec: " + strings.Repeat("[", 20000), strings.Repeat("{a: ", 20000)},
		"almost 1 MB":      {head + "  annotations:\n    a: " + strings.Repeat("x", 990_000), ""},
		"1 MB of lines":    {head + "  annotations:\n" + strings.Repeat("    a: x\n", 110_000), ""},
		"2,000 presets":    {head, many.String()},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, "")
			p.run(chromedp.Evaluate(`{let last = performance.now(); window.worst = 0;
				setInterval(() => { const now = performance.now(); window.worst = Math.max(window.worst, now - last); last = now; }, 10); 0}`, nil))
			p.run(chromedp.Evaluate("document.getElementById('status').textContent = 'before'; location.hash = "+quoted(t, fragment(t, texts[0], texts[1])), nil))
			p.want(`document.getElementById("status").textContent !== "before"`)
			p.run(chromedp.Sleep(300 * time.Millisecond))
			t.Logf("status: %s; longest pause: %s ms", p.text("document.getElementById('status').textContent"), p.text("Math.round(window.worst)"))
			p.want("window.worst < 2000")
			if p.text("window.hacked") != "undefined" || p.text(`document.querySelectorAll("img, main script").length`) != "0" {
				t.Error("the input became markup")
			}
			p.after(choose("example", "0"))
			p.want(`!("trouble" in document.body.dataset) && document.querySelectorAll("#lines .origin-preset-default").length > 0`)
		})
	}
}

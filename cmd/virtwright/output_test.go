package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/golden"
)

// screen is a terminal that records the output.
type screen struct{ bytes.Buffer }

// IsTerminal returns true.
func (*screen) IsTerminal() bool { return true }

// TestTerminal compares output on a terminal and in a pipe with golden files.
func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	vm := exampleVMs + "/desktop.yaml"
	for name, args := range map[string][]string{
		"explain":  {"explain", "-f", vm, "-f", examplePresets, "spec.template.spec.domain.cpu"},
		"yaml":     {"explain", "-f", exampleVMs + "/appliance.yaml", "-f", examplePresets, "-f", exampleNamespaces, "-o", "yaml"},
		"diff":     {"expand", "-f", vm, "-f", examplePresets, "-o", "diff"},
		"plan":     {"plan", "-f", planNew, "-f", planVMs, "--base-dir", planOld, "-o", "diff"},
		"lint":     {"lint", "-f", "testdata/lint/defects/01-memory-typo.yaml", "-f", "testdata/lint/defects/33-default-under-override.yaml"},
		"test":     {"test", "-f", "testdata/suite/failing", "--coverage"},
		"validate": {"validate", "-f", exampleRejected, "-f", examplePresets, "-f", exampleNamespaces},
		"error":    {"expand", "-f", exampleRejected + "/passthrough.yaml", "-f", examplePresets, "-f", exampleNamespaces},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs screen
			run(t.Context(), append([]string{program}, args...), streams{strings.NewReader(""), &out, &errs})
			shown := out.String() + errs.String()
			golden.Equal(t, "testdata/terminal/"+name+".terminal.out.txt", strings.ReplaceAll(shown, "\x1b", "␛"))
			piped := call(t, "", args...)
			golden.Equal(t, "testdata/terminal/"+name+".pipe.out.txt", piped.out+piped.err)
			if withoutColours(shown) != piped.out+piped.err {
				t.Errorf("without colours, a terminal differs from a pipe:\n%s", cmp.Diff(piped.out+piped.err, withoutColours(shown)))
			}
			for variable, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
				t.Setenv(variable, value)
				var out, errs screen
				run(t.Context(), append([]string{program}, args...), streams{strings.NewReader(""), &out, &errs})
				if strings.Contains(out.String()+errs.String(), "\x1b") {
					t.Errorf("colours with %s=%s", variable, value)
				}
				t.Setenv(variable, "")
			}
		})
	}
	golden.Stale(t, "testdata/terminal/*.out.txt")
}

// TestAlign checks columns of wide, combining and coloured text, long first cells and titles.
func TestAlign(t *testing.T) {
	var out strings.Builder
	err := align(&out, [][]string{
		{"A", "B", "C"}, {"日本語", "🎉", "x"}, {"e\u0301", "\x1b", "x"}, {"title that is long"}, {"longer than 8", style(true).paint(red, "b"), "x"}, {"z", "", ""},
	}, 2, 8)
	if err != nil {
		t.Fatal(err)
	}
	want := `A       B       C
日本語  🎉      x
é       \u001b  x
title that is long
longer than 8
        ` + style(true).paint(red, "b") + `       x
z
`
	if diff := cmp.Diff(want, strings.ReplaceAll(out.String(), "e\u0301", "é")); diff != "" {
		t.Error(diff)
	}
}

func withoutColours(text string) string {
	for _, code := range []string{"0", plainText, red, green, yellow, magenta, cyan, blue, grey} {
		text = strings.ReplaceAll(text, "\x1b["+code+"m", "")
	}
	return text
}

func TestProgress(t *testing.T) {
	t.Setenv("TERM", "xterm")
	var errs screen
	p := newProgress(streams{nil, &bytes.Buffer{}, &errs}, "expanded", 100000)
	now := p.started
	p.now = func() time.Time { return now }
	p.at(1)
	p.clear()
	if errs.Len() > 0 {
		t.Errorf("short work shows %q", &errs)
	}
	now = now.Add(2 * time.Second)
	p.at(12300)
	p.at(12301)
	p.clear()
	if got, want := errs.String(), "\r\x1b[Kexpanded 12,300 of 100,000 VMs\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Progress is not shown in pipes, or if standard output is the same terminal.
	for _, s := range []streams{{nil, &screen{}, &screen{}}, {nil, &bytes.Buffer{}, &bytes.Buffer{}}} {
		if newProgress(s, "expanded", 1).out != nil {
			t.Error("progress is shown")
		}
	}
}

package browser_test

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/virtwright/virtwright/test/browser"
)

func TestOpen(t *testing.T) {
	ctx := browser.Open(t)
	var text string
	if err := chromedp.Run(ctx, browser.Load("data:text/html,<p>one</p>"), chromedp.Text("p", &text)); err != nil || text != "one" {
		t.Errorf("read %q, %v", text, err)
	}
}

// recorder keeps errors instead of failing the test.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

// TestOpenReportsErrors checks that errors of a page reach the test.
func TestOpenReportsErrors(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		browser.Open(t)
	}
	for script, want := range map[string]string{
		"console.error('bad', 1)": `error "bad" 1`, "console.warn('odd')": `warning "odd"`, "throw new Error('thrown')": "thrown",
		"document.body.innerHTML = '<img src=http://127.0.0.1:1/>'": "Failed to load", "console.log('fine')": "",
	} {
		got := &recorder{TB: t}
		ctx := browser.Open(got)
		page := "data:text/html,<body><script>" + script + ";setTimeout(() => document.body.append(document.createElement('b')), 300)</script>"
		if err := chromedp.Run(ctx, browser.Load(page), chromedp.WaitReady("b")); err != nil {
			t.Error(err)
		}
		got.mu.Lock()
		said := strings.Join(got.said, "\n")
		got.mu.Unlock()
		if !strings.Contains(said, want) || (want == "") != (said == "") {
			t.Errorf("%s: reported %q, not %q", script, said, want)
		}
	}
}

// Package browser opens pages in headless Chromium for tests.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// variable says "require" where a test must not be skipped, as in CI.
const variable = "VIRTWRIGHT_BROWSER"

// patience is how long a page may be in use. A page that hangs fails its test.
const patience = 20 * time.Minute

// Open returns the context of a new Chromium with an empty profile and one page for chromedp. It
// skips the test if Chromium is missing, unless VIRTWRIGHT_BROWSER=require. The test fails if the
// page logs an error or a warning, throws an exception, or violates its content security policy.
func Open(t testing.TB) context.Context {
	t.Helper()
	program, err := find()
	if err != nil {
		if os.Getenv(variable) == "require" {
			t.Fatal(err)
		}
		t.Skipf("%v (%s=require fails instead)", err, variable)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, // for root in containers
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true))
	ctx, cancel := context.WithTimeout(context.Background(), patience) // Chromium ends after the test, when its profile is still needed
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until Chromium has ended
		leave()
		stop()
		cancel()
	})
	chromedp.ListenTarget(ctx, func(event any) {
		if text := complaint(event); text != "" {
			t.Errorf("the page says: %s", text)
		}
	})
	if err := chromedp.Run(ctx, log.Enable()); err != nil {
		t.Fatalf("cannot start %s: %v", program, err)
	}
	return ctx
}

// Load navigates to a page and runs the actions. It tries again after a minute: chromedp waits
// forever for a load event or a node that it missed, which happens on a busy machine.
func Load(address string, actions ...chromedp.Action) chromedp.Action {
	const attempts = 4
	load := append(chromedp.Tasks{chromedp.Navigate("about:blank"), chromedp.Navigate(address)}, actions...)
	return chromedp.ActionFunc(func(ctx context.Context) error {
		var err error
		for range attempts {
			attempt, cancel := context.WithTimeout(ctx, time.Minute)
			err = load.Do(attempt)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
		return fmt.Errorf("%s did not load in %d attempts: %w", address, attempts, err)
	})
}

func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("install Chromium: neither chromium nor google-chrome is in $PATH")
}

// complaint returns the text of an error or a warning of a page; empty for other events.
func complaint(event any) string {
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		text := event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		return text
	case *runtime.EventConsoleAPICalled:
		if event.Type != runtime.APITypeError && event.Type != runtime.APITypeWarning {
			return ""
		}
		words := []string{string(event.Type)}
		for _, arg := range event.Args {
			words = append(words, string(arg.Value)+arg.Description)
		}
		return strings.Join(words, " ")
	case *log.EventEntryAdded:
		if event.Entry.Level == log.LevelError || event.Entry.Level == log.LevelWarning {
			return event.Entry.Text + " " + event.Entry.URL
		}
	}
	return ""
}

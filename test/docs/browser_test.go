package docs

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/virtwright/virtwright/test/browser"
)

// TestPicturesOpen checks that a browser shows each picture, because browsers reject SVG that is
// not well-formed.
func TestPicturesOpen(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/pictures/*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pictures: %v", err)
	}
	ctx := browser.Open(t)
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		var texts int
		if err := chromedp.Run(ctx, browser.Load("file://"+path), chromedp.Evaluate(`document.querySelectorAll("svg text").length`, &texts)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if texts == 0 {
			t.Errorf("%s: the browser shows no text", file)
		}
	}
}

package domain

import (
	"path"
	"strings"
	"testing"
)

func TestFileName(t *testing.T) {
	for text, want := range map[string]string{
		"web-1.shop":               "web-1.shop",
		"quay.io/os/fedora:42":     "quay.io%2Fos%2Ffedora:42",
		"quay.io/os_fedora@sha:1":  "quay.io%2Fos_fedora@sha:1",
		"100%":                     "100%25",
		`a\b c`:                    "a%5Cb%20c",
		"":                         "%",
		".":                        "%2E",
		"...":                      "%2E..",
		"..a":                      "..a",
		"é\u00a0":                  "é%C2%A0",
		"\xff\xfe":                 "%FF%FE",
		"\uFFFD":                   "%EF%BF%BD",
		strings.Repeat("a", 255):   strings.Repeat("a", 255),
		strings.Repeat("a", 256):   strings.Repeat("a", 237) + "%-02d7160d77e18c64",
		strings.Repeat("a/", 2000): "",
	} {
		got := fileName(text)
		if want != "" && got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		if len(got) > maxFileName || strings.Contains(got, "/") || path.Clean("/x/"+got) != "/x/"+got {
			t.Errorf("%q: %s is no file name", text, got)
		}
	}
}

// FuzzFileName looks for two texts with one name.
func FuzzFileName(f *testing.F) {
	f.Add("quay.io/a_b:1", "quay.io/a/b:1")
	f.Add("a%2Fb", "a/b")
	f.Add("", "%")
	f.Add("..", "%2E.")
	f.Add(strings.Repeat("x", 256), fileName(strings.Repeat("x", 256)))
	f.Fuzz(func(t *testing.T, a, b string) {
		if a != b && fileName(a) == fileName(b) {
			t.Errorf("%q and %q have the same name: %s", a, b, fileName(a))
		}
		if got := fileName(a); len(got) > maxFileName || got == "." || got == ".." || strings.ContainsAny(got, "/\x00") {
			t.Errorf("%q: %s is no file name", a, got)
		}
	})
}

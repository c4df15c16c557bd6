package presets

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"plain, größer, 日本, \"quoted\", \\n": "plain, größer, 日本, \"quoted\", \\n",
		"two\nlines\tand a tab":              "two\nlines\tand a tab",
		"\x1b[2J\x1b]52;c;eA==\a":            `\u001b[2J\u001b]52;c;eA==\u0007`,
		"a\b\r\x00\x7f":                      `a\u0008\u000d\u0000\u007f`,
		"\u009b31m\u0080":                    `\u009b31m\u0080`,
		"\x9b31m, \xff":                      `\x9b31m, \xff`,
		"\u202eright\u2066":                  `\u202eright\u2066`,
		"replaced: \uFFFD":                   "replaced: \uFFFD",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got, want := EscapeLine("a\nb\tc\x1b"), `a\nb\tc\u001b`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEscapeAllCharacters checks every character of the first plane, once in a text and once alone.
func TestEscapeAllCharacters(t *testing.T) {
	kept := 0
	for r := range rune(0x10000) {
		got := Escape("a" + string(r))
		obeyed := r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if obeyed && (strings.ContainsRune(got, r) || len(got) != len(`a\u001b`)) {
			t.Errorf("%U became %q", r, got)
		}
		if got == "a"+string(r) {
			kept++
		}
		if again := Escape(got); again != got || !utf8.ValidString(got) {
			t.Errorf("%U became %q, and then %q", r, got, again)
		}
	}
	if kept < 0xff00 {
		t.Errorf("only %d characters were kept", kept)
	}
}

func TestEscapeStatus(t *testing.T) {
	shared := &metav1.StatusDetails{Name: "\x1b", Causes: []metav1.StatusCause{{Field: "\x1b", Message: "\x1b"}}}
	status := metav1.Status{Message: "\x1b", Details: shared}
	EscapeStatus(&status)
	cause := status.Details.Causes[0]
	for _, text := range []string{status.Message, status.Details.Name, cause.Field, cause.Message} {
		if text != `\u001b` {
			t.Errorf("got %q", text)
		}
	}
	if shared.Name != "\x1b" {
		t.Error("shared details were changed")
	}
	EscapeStatus(&metav1.Status{})
}

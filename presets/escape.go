package presets

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Escape escapes control characters, and characters that change the direction of text, as in Go and
// JSON strings: \u001b. It keeps line breaks and tabs. Without it, text of an object that is
// printed could control the reader's terminal. Invalid UTF-8 is escaped by bytes: \x9b.
func Escape(text string) string { return escape(text, "\n\t") }

// EscapeLine is Escape for text in one line: it also escapes line breaks and tabs.
func EscapeLine(text string) string { return escape(text, "") }

// EscapeStatus applies Escape to all text of an error for clients.
func EscapeStatus(status *metav1.Status) {
	status.Message = Escape(status.Message)
	if status.Details == nil {
		return
	}
	details := status.Details.DeepCopy()
	details.Name = Escape(details.Name)
	for i := range details.Causes {
		cause := &details.Causes[i]
		cause.Field, cause.Message = Escape(cause.Field), Escape(cause.Message)
	}
	status.Details = details
}

func escape(text, kept string) string {
	obeyed := func(r rune) bool { return controls(r) && !strings.ContainsRune(kept, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, obeyed) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case !obeyed(r):
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\t':
			out.WriteString(`\t`)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out.String()
}

// controls reports whether a terminal may obey a character instead of showing it, or XML forbids
// it.
func controls(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\uFFFE' || r == '\uFFFF'
}

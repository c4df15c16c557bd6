package partialobject

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEventNote(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", maxNoteBytes), strings.Repeat("x", 5000), "x" + strings.Repeat("é", 5000)} {
		got := EventNote(text)
		if len(got) > 1024 || !utf8.ValidString(got) || (len(text) <= maxNoteBytes) != (got == text) {
			t.Errorf("%d bytes became %d: valid %t", len(text), len(got), utf8.ValidString(got))
		}
	}
	if got := EventNote("a\x1b[2J\n"); got != `a\u001b[2J`+"\n" {
		t.Errorf("got %q", got)
	}
}

package machine

import (
	"strings"

	"github.com/virtwright/virtwright/presets"
)

// longestNote is what API servers take of the note of an event, in bytes, but for
// the sign that there is more.
const longestNote = 1020

// Note is as much of a text as the note of an event may have: API servers refuse
// longer ones.
func Note(text string) string {
	return presets.Cut(strings.ToValidUTF8(text, ""), longestNote)
}

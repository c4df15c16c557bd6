package tree

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const maxShown = 40

// Show returns a value as JSON for a message, truncated if it is long.
func Show(v any) string { return Truncate(Format(v), maxShown) }

// Format formats a value as JSON on one line, for people: < is not escaped.
func Format(v any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Truncate returns the first bytes of a longer text, and "…". It never splits a character.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// List joins the first texts of a list, and counts the others.
func List(texts []string, most int) string {
	out := strings.Join(texts[:min(len(texts), most)], ", ")
	if more := len(texts) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

package presets

import (
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxProblems is how many bytes the problems of one answer take together. An
	// answer has them twice, in its message and as causes.
	maxProblems = 6 << 10
	// maxPath, maxValue and maxDetail are how many bytes a problem shows of its
	// field, of the value in it, and of what is wrong with it.
	maxPath, maxValue, maxDetail = 256, 128, 1 << 10
)

// Cut returns text, or its first bytes and "…" where it is longer than most
// bytes. It never splits a character.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// Shorten bounds what messages repeat of an object that a user sent: all problems
// together, and of each the field, the value and the detail. It changes the
// problems in place.
func Shorten(problems field.ErrorList) field.ErrorList {
	size := 0
	for i, p := range problems {
		p.Field, p.Detail = Cut(p.Field, maxPath), Cut(p.Detail, maxDetail)
		if text := fmt.Sprint(p.BadValue); len(text) > maxValue {
			p.BadValue = Cut(text, maxValue)
		}
		if size += len(p.Error()); size > maxProblems && i > 0 {
			return append(problems[:i:i], field.Forbidden(field.NewPath("spec"), fmt.Sprintf("and %d more problems", len(problems)-i)))
		}
	}
	return problems
}

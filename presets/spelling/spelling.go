// Package spelling finds the name that a misspelt one means.
package spelling

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// DidYouMean returns `; did you mean "memory"?` with the Nearest candidate; "" if there is none.
func DidYouMean(name string, candidates iter.Seq[string]) string {
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Nearest returns the candidate with the smallest edit distance to name; "" if none is close enough
// to be a typo.
func Nearest(name string, candidates iter.Seq[string]) string {
	if near := similar(name, candidates, min(len(name)/3+1, max(2, len(name)/4))); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Typos returns the candidates that name may misspell, nearest first. Some names are similar on
// purpose: web1 and web2, team-a and team-b, large and xlarge.
func Typos(name string, candidates iter.Seq[string]) []string {
	edits := min(maxTypos, len(name)/3)
	if edits == 0 {
		return nil
	}
	return slices.DeleteFunc(similar(name, candidates, edits), func(c string) bool { return c == name || isVariant(name, c) })
}

// similar returns the candidates at most so many edits from name, nearest first. Case is ignored.
func similar(name string, candidates iter.Seq[string], edits int) []string {
	var out []string
	for c := range candidates {
		// The difference in length is a cheap lower bound.
		if max(len(name)-len(c), len(c)-len(name)) <= edits && Distance(name, c) <= edits {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(Distance(name, a), Distance(name, b)), cmp.Compare(a, b))
	})
	return out
}

// Distance is the number of characters to insert, delete or change, without regard to case.
func Distance(a, b string) int {
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}

// isVariant reports whether two names differ on purpose: in digits, in a part of one or two
// characters, or in a prefix.
func isVariant(a, b string) bool {
	if strings.EqualFold(a, b) {
		return false
	}
	if isRenumbered(a, b) || strings.HasSuffix(a, b) || strings.HasSuffix(b, a) {
		return true
	}
	isSeparator := func(r rune) bool { return strings.ContainsRune("-_./", r) }
	left, right := strings.FieldsFunc(a, isSeparator), strings.FieldsFunc(b, isSeparator)
	if len(left) != len(right) || len(left) == 1 {
		return false
	}
	for i := range left {
		if left[i] != right[i] && max(len(left[i]), len(right[i])) <= 2 {
			return true
		}
	}
	return false
}

// isRenumbered reports whether two names differ in digits only. Four or more digits in another
// order are a mistake: win2202 and win2022.
func isRenumbered(a, b string) bool {
	textOf, digitsOf := splitDigits(a)
	text, digits := splitDigits(b)
	return textOf == text && (len(digits) < 4 || !slices.Equal(digitsOf, digits))
}

// splitDigits returns the text without digits, and the digits in ascending order.
func splitDigits(name string) (text string, digits []rune) {
	text = strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return r
		}
		digits = append(digits, r)
		return -1
	}, name)
	slices.Sort(digits)
	return text, digits
}

// maxTypos is how many edits a misspelled label may need.
const maxTypos = 2

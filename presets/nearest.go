package presets

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Nearest returns the candidate with the smallest edit distance to name, or ""
// when none is near enough to be a slip of the finger.
func Nearest(name string, candidates iter.Seq[string]) string {
	best, least := "", min(len(name)/3+2, max(2, len(name)/4)+1)
	for c := range candidates {
		if max(len(name)-len(c), len(c)-len(name)) > least { // they are that far apart at least
			continue
		}
		if d := editDistance(name, c); d < least || d == least && best != "" && c < best {
			best, least = c, d
		}
	}
	return best
}

// typos returns the candidates that name may be a misspelling of, nearest first: at most two
// edits away, and at most a third of its length. Some names are near and still no
// misspellings of each other: web1 and web2, team-a and team-b, large and xlarge.
func typos(name string, candidates []string) []string {
	allowed := min(maxTypos, len(name)/3)
	if allowed == 0 {
		return nil
	}
	var out []string
	for _, c := range candidates {
		if max(len(name)-len(c), len(c)-len(name)) <= allowed && c != name && editDistance(name, c) <= allowed && !isVariant(name, c) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(editDistance(name, a), editDistance(name, b)) })
	return out
}

// isVariant reports whether two names differ as people vary names: in digits, in a part of
// one or two characters, or in a prefix.
func isVariant(a, b string) bool {
	if strings.EqualFold(a, b) {
		return false
	}
	if withoutDigits(a) == withoutDigits(b) || strings.HasSuffix(a, b) || strings.HasSuffix(b, a) {
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

func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// editDistance counts the insertions, deletions and replacements (Levenshtein)
// between two short ASCII names, ignoring case.
func editDistance(a, b string) int {
	var few [64]int // most names are short
	row := few[:]
	if len(b) >= len(row) {
		row = make([]int, len(b)+1)
	}
	row = row[:len(b)+1]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i]|0x20 == b[j]|0x20 {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

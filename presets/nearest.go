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
	best, least := "", len(name)/3+2
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
// edits away, and one where name is short. Names that only count otherwise, such as web1 and
// web2, are no misspellings of each other.
func typos(name string, candidates iter.Seq[string]) []string {
	allowed := min(maxTypos, len(name)/3)
	if allowed == 0 {
		return nil
	}
	var out []string
	compared := 0
	for c := range candidates {
		if max(len(name)-len(c), len(c)-len(name)) > allowed {
			continue
		}
		if compared++; compared > maxCompared {
			break
		}
		if c != name && editDistance(name, c) <= allowed && withoutDigits(name) != withoutDigits(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(editDistance(name, a), editDistance(name, b)), cmp.Compare(a, b))
	})
	return out
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

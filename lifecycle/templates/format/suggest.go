package format

import (
	"fmt"
	"slices"
	"strings"
)

// mostSuggestions is how many parameters an error names.
const mostSuggestions = 5

// suggestion names the parameters that are like one that is not there, or some
// of all if none is.
func suggestion(name string, known []string) string {
	var near []string
	for _, candidate := range known {
		if alike(strings.ToUpper(name), strings.ToUpper(candidate)) {
			near = append(near, candidate)
		}
	}
	switch {
	case len(known) == 0:
		return "it has none"
	case len(near) > 0:
		return "near it are " + some(near)
	}
	return "it has " + some(known)
}

func some(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) <= mostSuggestions {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostSuggestions], ", "), len(names)-mostSuggestions)
}

// longestCompared keeps the comparison of names short.
const longestCompared = 200

func alike(a, b string) bool {
	if a == "" || b == "" || len(a) > longestCompared || len(b) > longestCompared {
		return false
	}
	return strings.Contains(b, a) || strings.Contains(a, b) || distance(a, b) <= max(len(a), len(b))/4
}

// distance is how many bytes must be put in, left out or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

package validation

import (
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fewNames is up to how many names comparing each with each is quicker than a map.
const fewNames = 8

// repeated yields each position whose name stands earlier in a list too, with
// the first position of that name. Empty names repeat nothing.
func repeated(length int, name func(i int) string) iter.Seq2[int, int] {
	return func(yield func(i, first int) bool) {
		var positions map[string]int
		if length > fewNames {
			positions = make(map[string]int, length)
		}
		for i := range length {
			first, again := firstOf(positions, i, name)
			if again && !yield(i, first) {
				return
			}
		}
	}
}

// firstOf is where the name of position i stands first, and whether that is
// earlier.
func firstOf(positions map[string]int, i int, name func(i int) string) (int, bool) {
	text := name(i)
	if text == "" {
		return i, false
	}
	if positions == nil {
		for earlier := range i {
			if name(earlier) == text {
				return earlier, true
			}
		}
		return i, false
	}
	first, again := positions[text]
	if !again {
		positions[text] = i
	}
	return first, again
}

// duplicate is the problem of a name that something else has already.
func duplicate(at *field.Path, name, earlier string, first int) *field.Error {
	err := field.Duplicate(at, name)
	err.Detail = fmt.Sprintf("%s[%d] has that name already; every name must be given once", earlier, first)
	return err
}

// unsupported is the problem of a value that is none of a few, with the
// nearest of them.
func (r *Report) unsupported(at *field.Path, value string, allowed ...string) *field.Error {
	err := field.NotSupported(at, value, allowed)
	err.Detail += r.Suggest(value, slices.Values(allowed))
	return err
}

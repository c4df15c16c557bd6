package presets

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
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
		if max(len(name)-len(c), len(c)-len(name)) <= edits && editDistance(name, c) <= edits {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(editDistance(name, a), editDistance(name, b)), cmp.Compare(a, b))
	})
	return out
}

func editDistance(a, b string) int {
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

var otherNames = map[string]string{"registryDisk": "containerDisk", "mac": "macAddress"}

// maxTypos is how many edits a misspelled label may need.
const maxTypos = 2

// maxDescent is how many objects deep a field is searched that was written too high.
const maxDescent = 3

const maxPlaces = 3

// unknownField suggests another field for one that s lacks. Parent may be nil.
func unknownField(name string, s, parent *schema) string {
	unknown := fmt.Sprintf("unknown field %q", name)
	if meant := otherNames[name]; s.fields[meant] != nil {
		return fmt.Sprintf("%s; did you mean %q?", unknown, meant)
	}
	if name == "dev" && s.fields["bus"] != nil {
		return unknown + "; guests name their disks themselves, so leave it out"
	}
	if s.fields["requests"] != nil && (name == "cpu" || name == "memory") {
		return unknown + "; it belongs under requests, or limits"
	}
	if below := fieldBelow(name, s); len(below) > 0 {
		return fmt.Sprintf("%s; it belongs under %s", unknown, strings.Join(below, " or "))
	}
	if parent != nil && parent.fields[name] != nil {
		return unknown + "; it belongs one level higher"
	}
	return unknown + nearField(name, s)
}

// nearField suggests the field of s that name may be a misspelling of, or else lists all fields.
func nearField(name string, s *schema) string {
	if near := cmp.Or(onlyPrefixed(name, s), Nearest(name, maps.Keys(s.fields))); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; known fields: " + strings.Join(slices.Sorted(maps.Keys(s.fields)), ", ")
}

// fieldBelow returns the paths of the nearest objects beneath s that have the field, if few have.
func fieldBelow(name string, s *schema) []string {
	level := map[string]*schema{"": s}
	for range maxDescent {
		next := map[string]*schema{}
		var found []string
		for parent, at := range level {
			for field, sub := range at.fields {
				if sub.shape != shapeObject {
					continue
				}
				path := strings.TrimPrefix(parent+"."+field, ".")
				next[path] = sub
				if sub.fields[name] != nil {
					found = append(found, path)
				}
			}
		}
		if len(found) > maxPlaces {
			return nil
		}
		if len(found) > 0 {
			return slices.Sorted(slices.Values(found))
		}
		level = next
	}
	return nil
}

func onlyPrefixed(name string, s *schema) string {
	var out []string
	for field := range s.fields {
		if strings.HasPrefix(strings.ToLower(field), strings.ToLower(name)) {
			out = append(out, field)
		}
	}
	if len(out) != 1 || len(name) < 3 {
		return ""
	}
	return out[0]
}

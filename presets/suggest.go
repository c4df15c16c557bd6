package presets

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the candidate with the smallest edit distance to name; "" if none is close enough
// to be a typo.
func Nearest(name string, candidates iter.Seq[string]) string {
	best, least := "", min(len(name)/3+2, max(2, len(name)/4)+1)
	for c := range candidates {
		if max(len(name)-len(c), len(c)-len(name)) > least { // the distance is at least that
			continue
		}
		if d := editDistance(name, c); d < least || d == least && best != "" && c < best {
			best, least = c, d
		}
	}
	return best
}

// Typos returns the candidates that name may misspell, nearest first. Some names are similar on
// purpose: web1 and web2, team-a and team-b, large and xlarge.
func Typos(name string, candidates []string) []string {
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

// isRenumbered reports whether two names differ in digits only. Four or more digits in another
// order are a mistake: win2202 and win2022.
func isRenumbered(a, b string) bool {
	digits := func(name string) []rune {
		out := slices.DeleteFunc([]rune(name), func(r rune) bool { return !unicode.IsDigit(r) })
		slices.Sort(out)
		return out
	}
	isTransposed := len(digits(a)) >= 4 && slices.Equal(digits(a), digits(b))
	return withoutDigits(a) == withoutDigits(b) && !isTransposed
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

func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

func editDistance(a, b string) int {
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}

var otherNames = map[string]string{"registryDisk": "containerDisk", "mac": "macAddress"}

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
	if longer := onlyPrefixed(name, s); longer != "" {
		return fmt.Sprintf("; did you mean %q?", longer)
	}
	if best := Nearest(name, maps.Keys(s.fields)); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; known fields: " + strings.Join(slices.Sorted(maps.Keys(s.fields)), ", ")
}

// fieldBelow returns the paths of the nearest objects beneath s that have the field, if few have.
func fieldBelow(name string, s *schema) []string {
	type place struct {
		path string
		at   *schema
	}
	level := []place{{"", s}}
	for range maxDescent {
		var next []place
		var found []string
		for _, p := range level {
			for _, field := range slices.Sorted(maps.Keys(p.at.fields)) {
				sub := p.at.fields[field]
				if sub.shape != shapeObject {
					continue
				}
				below := place{strings.TrimPrefix(p.path+"."+field, "."), sub}
				next = append(next, below)
				if sub.fields[name] != nil {
					found = append(found, below.path)
				}
			}
		}
		if len(found) > maxPlaces {
			return nil
		}
		if len(found) > 0 {
			return found
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

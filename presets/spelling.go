package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// SameValue reports whether two values of a field of a VM say the same: 4Gi and 4096Mi do.
func SameValue(path provenance.Path, a, b any) bool { return vmSchema().at(path).same(a, b) }

// same reports whether two values of the schema say the same: quantities compare by value, the
// rest by structure.
func (s *schema) same(a, b any) bool {
	if equalJSON(a, b) || s == nil {
		return equalJSON(a, b)
	}
	if s.shape == shapeQuantity {
		return sameQuantity(a, b)
	}
	if x, ok := a.(map[string]any); ok {
		y, isToo := b.(map[string]any)
		return isToo && len(x) == len(y) && s.sameFields(x, y)
	}
	x, isList := a.([]any)
	y, isToo := b.([]any)
	return isList && isToo && slices.EqualFunc(x, y, s.elem.same)
}

func sameQuantity(a, b any) bool {
	x, err := parseQuantity(a)
	y, wrong := parseQuantity(b)
	return err == nil && wrong == nil && x.Cmp(y) == 0
}

func (s *schema) sameFields(a, b map[string]any) bool {
	for name, v := range a {
		if w, ok := b[name]; !ok || !s.field(name).same(v, w) {
			return false
		}
	}
	return true
}

// keepSpelling returns what is to be stored instead of from: to, but quantities of equal value keep
// their spelling. It changes to.
func (s *schema) keepSpelling(from, to any) any {
	switch is := to.(type) {
	case map[string]any:
		if was, ok := from.(map[string]any); ok {
			s.keepInFields(was, is)
		}
	case []any:
		if was, ok := from.([]any); ok {
			s.keepInElements(was, is)
		}
	default:
		if s != nil && s.shape == shapeQuantity && sameQuantity(from, to) {
			return from
		}
	}
	return to
}

func (s *schema) keepInFields(from, to map[string]any) {
	for name, v := range to {
		if old, had := from[name]; had {
			to[name] = s.field(name).keepSpelling(old, v)
		}
	}
}

func (s *schema) keepInElements(from, to []any) {
	if s == nil || s.shape != shapeKeyed || !(&differ{}).aligned(from, to, s) {
		return
	}
	for i := range from {
		to[i] = s.elem.keepSpelling(from[i], to[i])
	}
}

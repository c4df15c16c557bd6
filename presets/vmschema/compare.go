package vmschema

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// IsAligned reports whether to is from with elements changed in place and others appended.
func (s *Schema) IsAligned(from, to []any) bool {
	sameKey := func(a, b any) bool {
		keyA, missingA := ElementKey(s.Keys, tree.AsObject(a))
		keyB, missingB := ElementKey(s.Keys, tree.AsObject(b))
		return missingA == "" && missingB == "" && keyA == keyB
	}
	return len(to) >= len(from) && slices.EqualFunc(from, to[:len(from)], sameKey)
}

// SameValue reports whether two values of a field of a VM are equal, as 4Gi and 4096Mi are.
func SameValue(path provenance.Path, a, b any) bool { return VM().At(path).same(a, b) }

func (s *Schema) same(a, b any) bool {
	if tree.Equal(a, b) || s == nil {
		return tree.Equal(a, b)
	}
	if s.Shape == Quantity {
		return tree.SameQuantity(a, b)
	}
	if x, ok := a.(map[string]any); ok {
		y, isToo := b.(map[string]any)
		return isToo && len(x) == len(y) && s.sameFields(x, y)
	}
	x, isList := a.([]any)
	y, isToo := b.([]any)
	return isList && isToo && slices.EqualFunc(x, y, s.Elem.same)
}

func (s *Schema) sameFields(a, b map[string]any) bool {
	for name, v := range a {
		if w, ok := b[name]; !ok || !s.Field(name).same(v, w) {
			return false
		}
	}
	return true
}

// KeepSpelling gives quantities in to the spelling of equal ones in from, and returns to.
func (s *Schema) KeepSpelling(from, to any) any {
	switch is := to.(type) {
	case map[string]any:
		was := tree.AsObject(from)
		for name, v := range is {
			if old, had := was[name]; had {
				is[name] = s.Field(name).KeepSpelling(old, v)
			}
		}
	case []any:
		s.keepInElements(tree.AsList(from), is)
	default:
		if s != nil && s.Shape == Quantity && tree.SameQuantity(from, to) {
			return from
		}
	}
	return to
}

func (s *Schema) keepInElements(from, to []any) {
	if s == nil || s.Shape != Keyed || !s.IsAligned(from, to) {
		return
	}
	for i := range from {
		to[i] = s.Elem.KeepSpelling(from[i], to[i])
	}
}

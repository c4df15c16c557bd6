package presets

import (
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// equals reports whether v equals the leaf: quantities and numbers compare by value.
func (f *fieldNode) equals(v any) bool {
	if f.quantity != nil {
		if text, ok := v.(string); ok && text == f.value {
			return true
		}
		q, err := tree.ParseQuantity(v)
		return err == nil && q.Cmp(*f.quantity) == 0
	}
	return tree.Equal(f.value, v)
}

// SameValue reports whether two values of a field of a VM are equal, as 4Gi and 4096Mi are.
func SameValue(path provenance.Path, a, b any) bool { return vmSchema().at(path).same(a, b) }

func (s *schema) same(a, b any) bool {
	if tree.Equal(a, b) || s == nil {
		return tree.Equal(a, b)
	}
	if s.shape == shapeQuantity {
		return tree.SameQuantity(a, b)
	}
	if x, ok := a.(map[string]any); ok {
		y, isToo := b.(map[string]any)
		return isToo && len(x) == len(y) && s.sameFields(x, y)
	}
	x, isList := a.([]any)
	y, isToo := b.([]any)
	return isList && isToo && slices.EqualFunc(x, y, s.elem.same)
}

func (s *schema) sameFields(a, b map[string]any) bool {
	for name, v := range a {
		if w, ok := b[name]; !ok || !s.field(name).same(v, w) {
			return false
		}
	}
	return true
}

// keepSpelling gives quantities in to the spelling of equal ones in from, and returns to.
func (s *schema) keepSpelling(from, to any) any {
	switch is := to.(type) {
	case map[string]any:
		was := tree.AsObject(from)
		for name, v := range is {
			if old, had := was[name]; had {
				is[name] = s.field(name).keepSpelling(old, v)
			}
		}
	case []any:
		s.keepInElements(tree.AsList(from), is)
	default:
		if s != nil && s.shape == shapeQuantity && tree.SameQuantity(from, to) {
			return from
		}
	}
	return to
}

func (s *schema) keepInElements(from, to []any) {
	if s == nil || s.shape != shapeKeyed || !isAligned(from, to, s) {
		return
	}
	for i := range from {
		to[i] = s.elem.keepSpelling(from[i], to[i])
	}
}

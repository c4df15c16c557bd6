package vmschema

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// ElementKey returns the key of an element, and the first key field that it lacks.
func ElementKey(keys []ListKey, fields map[string]any) (key, missing string) {
	if len(keys) == 0 {
		return "", "key" // the object has another shape than its schema
	}
	if len(keys) == 1 {
		v, ok := tree.Lookup(fields, keys[0].Field)
		if !ok || v == "" {
			return "", keys[0].Field
		}
		return keyText(v), ""
	}
	values := make([]string, len(keys))
	some := false
	for i, k := range keys {
		values[i] = k.absent
		if v, ok := tree.Lookup(fields, k.Field); ok && v != "" {
			values[i], some = keyText(v), true
		}
	}
	if !some {
		return "", keys[0].Field
	}
	return strings.Join(values, ","), ""
}

func keyText(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return fmt.Sprint(v)
}

// IndexOf returns the index of the first element with a key; -1 if there is none.
func IndexOf(list []any, keys []ListKey, key string) int {
	return slices.IndexFunc(list, func(e any) bool {
		got, missing := ElementKey(keys, tree.AsObject(e))
		return missing == "" && got == key
	})
}

// NextIndexOf is IndexOf, and fast if the element follows element i.
func NextIndexOf(list []any, keys []ListKey, key string, i int) int {
	if i++; i < len(list) && IndexOf(list[i:i+1], keys, key) == 0 {
		return i
	}
	return IndexOf(list, keys, key)
}

// KeyOf returns the key of an element of a keyed list; "" if it has none.
func (s *Schema) KeyOf(e any) string {
	key, _ := ElementKey(s.Keys, tree.AsObject(e))
	return key
}

// ElementOf returns the element of a keyed list with a key; nil if there is none.
func (s *Schema) ElementOf(list []any, key string) any {
	if i := IndexOf(list, s.Keys, key); i >= 0 {
		return list[i]
	}
	return nil
}

// HasUniqueKeys reports whether a value is null or a list in which each element has a key of its
// own.
func (s *Schema) HasUniqueKeys(v any) bool {
	list, ok := v.([]any)
	for i, e := range list {
		if key, missing := ElementKey(s.Keys, tree.AsObject(e)); missing != "" || IndexOf(list[:i], s.Keys, key) >= 0 {
			return false
		}
	}
	return ok || v == nil
}

// ElementsAt yields the elements of the list at p, with their paths. The list may change meanwhile.
func ElementsAt(root map[string]any, p provenance.Path) iter.Seq2[provenance.Path, any] {
	return func(yield func(provenance.Path, any) bool) {
		list := tree.AsList(Value(root, p))
		keys := VM().At(p).Keys
		for _, e := range slices.Clone(list) {
			key, missing := ElementKey(keys, tree.AsObject(e))
			if missing == "" && !yield(p.Element(key), e) {
				return
			}
		}
	}
}

// AlternativesOf yields the members of one-ofs that p is or lies in, with an alternative to each.
func AlternativesOf(p provenance.Path) iter.Seq2[provenance.Path, provenance.Path] {
	return func(yield func(member, alternative provenance.Path) bool) {
		s := VM()
		for i, seg := range p {
			for _, name := range s.Alternatives[seg.Name] {
				if !yield(p[:i+1:i+1], p[:i:i].Field(name)) {
					return
				}
			}
			if s = s.Step(seg); s == nil {
				return
			}
		}
	}
}

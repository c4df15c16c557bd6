package presets

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets/provenance"
)

func parseQuantity(v any) (resource.Quantity, error) {
	switch v := v.(type) {
	case string:
		if hugeQuantity(v) {
			return resource.Quantity{}, errHugeQuantity
		}
		return resource.ParseQuantity(v)
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), nil
	case float64:
		return parseDecimal(v)
	}
	return resource.Quantity{}, fmt.Errorf("cannot read %T as a quantity", v)
}

// equals reports whether v equals the leaf: quantities and numbers compare by value.
func (f *fieldNode) equals(v any) bool {
	if f.quantity != nil {
		if text, ok := v.(string); ok && text == f.value {
			return true
		}
		q, err := parseQuantity(v)
		return err == nil && q.Cmp(*f.quantity) == 0
	}
	return equalJSON(f.value, v)
}

// equalJSON compares decoded JSON; 2 and 2.0 are equal.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case int64:
		return equalInt(a, b)
	case float64:
		if i, ok := b.(int64); ok {
			return equalInt(i, a)
		}
		return a == b
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, m, equalJSON)
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, equalJSON)
	case nil, string, bool:
		return a == b
	}
	return false // a placeholder equals no value
}

func equalInt(a int64, b any) bool {
	f, ok := b.(float64)
	return a == b || ok && float64(a) == f && int64(f) == a
}

func cloneJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = cloneJSON(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneJSON(e)
		}
		return out
	}
	return v
}

func asObject(v any) map[string]any {
	out, _ := v.(map[string]any)
	return out
}

func asList(v any) []any {
	out, _ := v.([]any)
	return out
}

func asText(v any) string {
	out, _ := v.(string)
	return out
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func emptyLike(v any) any {
	if isObject(v) {
		return map[string]any{}
	}
	return []any{}
}

const maxShown = 40

// show returns a value as JSON for a message, truncated if it is long.
func show(v any) string { return Truncate(FormatValue(v), maxShown) }

// FormatValue formats a value as JSON on one line, for people: < is not escaped.
func FormatValue(v any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// HasNewValues reports whether decoded JSON has a leaf that it did not have before: a new field,
// another value, a new list element. Removals and another order do not count. It takes linear time.
func HasNewValues(was, is any) bool {
	switch is := is.(type) {
	case map[string]any:
		before, ok := was.(map[string]any)
		for k, v := range is {
			if !ok || before[k] == nil || HasNewValues(before[k], v) {
				return true
			}
		}
		return false
	case []any:
		return listGrows(asList(was), is)
	}
	return !equalJSON(was, is)
}

func listGrows(was, is []any) bool {
	var elements map[string]bool // of was; built for the first element that moved
	for i, v := range is {
		if i < len(was) && equalJSON(was[i], v) {
			continue
		}
		if elements == nil {
			elements = make(map[string]bool, len(was))
			for _, b := range was {
				elements[jsonText(b)] = true
			}
		}
		if !elements[jsonText(v)] {
			return true
		}
	}
	return false
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	return string(text)
}

// SameValue reports whether two values of a field of a VM are equal, as 4Gi and 4096Mi are.
func SameValue(path provenance.Path, a, b any) bool { return vmSchema().at(path).same(a, b) }

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

// keepSpelling gives quantities in to the spelling of equal ones in from, and returns to.
func (s *schema) keepSpelling(from, to any) any {
	switch is := to.(type) {
	case map[string]any:
		was := asObject(from)
		for name, v := range is {
			if old, had := was[name]; had {
				is[name] = s.field(name).keepSpelling(old, v)
			}
		}
	case []any:
		s.keepInElements(asList(from), is)
	default:
		if s != nil && s.shape == shapeQuantity && sameQuantity(from, to) {
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

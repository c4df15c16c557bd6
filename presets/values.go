package presets

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// parseQuantity reads a quantity as JSON may carry it: a string or a number.
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

// same reports whether v says what the leaf says: quantities and numbers
// compare by value, the rest by structure.
func (p *fieldNode) same(v any) bool {
	if p.quantity != nil {
		if text, ok := v.(string); ok && text == p.value {
			return true
		}
		q, err := parseQuantity(v)
		return err == nil && q.Cmp(*p.quantity) == 0
	}
	return equalJSON(p.value, v)
}

// equalJSON compares decoded JSON; 2 and 2.0 are one number.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case int64:
		return equalInt(a, b)
	case float64:
		return equalFloat(a, b)
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && equalMaps(a, m)
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, equalJSON)
	case nil, string, bool:
		return isScalar(b) && a == b
	}
	return false // a value of ours that stands for none
}

func isScalar(v any) bool {
	switch v.(type) {
	case nil, string, bool:
		return true
	}
	return false
}

func equalFloat(a float64, b any) bool {
	if i, ok := b.(int64); ok {
		return equalInt(i, a)
	}
	f, ok := b.(float64)
	return ok && a == f
}

func equalMaps(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || !equalJSON(v, w) {
			return false
		}
	}
	return true
}

func equalInt(a int64, b any) bool {
	switch b := b.(type) {
	case int64:
		return a == b
	case float64:
		return float64(a) == b && int64(b) == a
	}
	return false
}

// cloneJSON copies decoded JSON deeply.
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

// maxShown is how many bytes of a value are shown in a sentence.
const maxShown = 40

// show renders a value for a message: JSON, cut where it gets long.
func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return Cut(string(b), maxShown)
}

// Package tree reads and compares decoded JSON: objects (map[string]any), lists ([]any), strings,
// bool, int64, float64 and nil.
package tree

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Lookup returns the field at a path of names with dots, as in cpu.cores, and whether it is there
// and not null.
func Lookup(fields map[string]any, dotted string) (any, bool) {
	name, rest, deeper := strings.Cut(dotted, ".")
	v, ok := fields[name]
	if !deeper {
		return v, ok && v != nil
	}
	sub, isMap := v.(map[string]any)
	if !isMap {
		return nil, false
	}
	return Lookup(sub, rest)
}

// Copy copies the field at a path of names with dots from one object to another, if it is there.
func Copy(to, from any, dotted string) {
	name, rest, deeper := strings.Cut(dotted, ".")
	target := AsObject(to)
	v, ok := AsObject(from)[name]
	switch {
	case !ok || target == nil:
	case !deeper:
		target[name] = v
	default:
		if target[name] == nil {
			target[name] = map[string]any{}
		}
		Copy(target[name], v, rest)
	}
}

// Child returns the object in a field, and puts an empty one there in place of anything else.
func Child(object map[string]any, name string) map[string]any {
	child, ok := object[name].(map[string]any)
	if !ok {
		child = map[string]any{}
		object[name] = child
	}
	return child
}

// Equal compares two values; 2 and 2.0 are equal.
func Equal(a, b any) bool {
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
		return ok && maps.EqualFunc(a, m, Equal)
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, Equal)
	case nil, string, bool:
		return a == b
	}
	return false // a placeholder equals no value
}

func equalInt(a int64, b any) bool {
	f, ok := b.(float64)
	return a == b || ok && float64(a) == f && int64(f) == a
}

// Clone returns a deep copy. Whole numbers up to 2^53 become integers in it, as they do in a copy
// that is encoded and decoded.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Clone(e)
		}
		return out
	case float64:
		if i := int64(v); float64(i) == v && -1<<53 <= v && v <= 1<<53 {
			return i
		}
	}
	return v
}

// AsObject returns a value as an object; nil if it is none.
func AsObject(v any) map[string]any {
	out, _ := v.(map[string]any)
	return out
}

// AsList returns a value as a list; nil if it is none.
func AsList(v any) []any {
	out, _ := v.([]any)
	return out
}

// AsText returns a value as a string; "" if it is none.
func AsText(v any) string {
	out, _ := v.(string)
	return out
}

// IsObject reports whether a value is an object.
func IsObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// IsEmpty reports whether a value is an object or a list with nothing in it.
func IsEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// EmptyLike returns an empty object for an object, and else an empty list.
func EmptyLike(v any) any {
	if IsObject(v) {
		return map[string]any{}
	}
	return []any{}
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
		return listGrows(AsList(was), is)
	}
	return !Equal(was, is)
}

func listGrows(was, is []any) bool {
	var elements map[string]bool // of was; built for the first element that moved
	for i, v := range is {
		if i < len(was) && Equal(was[i], v) {
			continue
		}
		if elements == nil {
			elements = make(map[string]bool, len(was))
			for _, b := range was {
				elements[JSON(b)] = true
			}
		}
		if !elements[JSON(v)] {
			return true
		}
	}
	return false
}

// JSON encodes a value on one line.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	return string(text)
}

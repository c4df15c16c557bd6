package presets

import "encoding/json"

// Grows reports whether decoded JSON has a leaf that it had not before: a new
// field, another value, an element of a list that was not in it. What only loses
// something, or is in another order, does not grow. It takes linear time.
func Grows(was, is any) bool {
	switch is := is.(type) {
	case map[string]any:
		before, ok := was.(map[string]any)
		for k, v := range is {
			if !ok || before[k] == nil || Grows(before[k], v) {
				return true
			}
		}
		return false
	case []any:
		before, _ := was.([]any)
		return listGrows(before, is)
	}
	return !equalJSON(was, is)
}

func listGrows(was, is []any) bool {
	var elements map[string]bool // of was, made when positions do not tell
	for i, v := range is {
		if i < len(was) && equalJSON(was[i], v) {
			continue
		}
		if elements == nil {
			elements = make(map[string]bool, len(was))
			for _, b := range was {
				elements[encoded(b)] = true
			}
		}
		if !elements[encoded(v)] {
			return true
		}
	}
	return false
}

// encoded is decoded JSON as text, which is the same for what is the same.
func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // unreachable: it was JSON before
		return ""
	}
	return string(text)
}

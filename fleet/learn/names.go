package learn

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/virtwright/virtwright/presets"
)

// nameMark stands for the name of the VM in texts: a character for private use.
const nameMark = "\ue000"

// commonTexts returns the texts that VMs with different names have, so that they do not come from a
// name.
func commonTexts(vms []VM) map[string]bool {
	of := map[string]string{} // the only name that a text is seen with
	common := map[string]bool{}
	for _, m := range vms {
		eachText(m.Object, func(text string) {
			if first, seen := of[text]; seen && first != m.Name {
				common[text] = true
			}
			of[text] = m.Name
		})
	}
	return common
}

func eachText(v any, visit func(string)) {
	switch at := v.(type) {
	case map[string]any:
		for _, sub := range at {
			eachText(sub, visit)
		}
	case []any:
		for _, sub := range at {
			eachText(sub, visit)
		}
	case string:
		visit(at)
	}
}

// generalized returns a value with nameMark in the place of a name.
func generalized(v any, name string, common map[string]bool) any {
	switch at := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(at))
		for key, sub := range at {
			out[key] = generalized(sub, name, common)
		}
		return out
	case []any:
		out := make([]any, len(at))
		for i, sub := range at {
			out[i] = generalized(sub, name, common)
		}
		return out
	case string:
		if !common[at] {
			return withMark(at, name)
		}
	}
	return v
}

// withMark replaces a name that is a word of a text, as in web-7-root.
func withMark(text, name string) string {
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return text
		}
		before, after := text[:from+i], text[from+i+len(name):]
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		if !isWord(last) && !isWord(first) {
			return before + nameMark + after
		}
		from += i + 1
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// computed returns a value in which texts with nameMark are expressions.
func computed(v any) any {
	switch at := v.(type) {
	case map[string]any:
		for key, sub := range at {
			at[key] = computed(sub)
		}
	case []any:
		for i, sub := range at {
			at[i] = computed(sub)
		}
	case string:
		if before, after, marked := strings.Cut(at, nameMark); marked {
			expression := "object.metadata.name"
			if before != "" {
				expression = quoted(before) + " + " + expression
			}
			if after != "" {
				expression += " + " + quoted(after)
			}
			return map[string]any{presets.ComputedKey: expression}
		}
	}
	return v
}

// quoted returns a text as a literal of CEL.
func quoted(text string) string {
	literal := strconv.Quote(text)
	if plain := literal[1 : len(literal)-1]; !strings.ContainsAny(plain, `\'`) {
		return "'" + plain + "'"
	}
	return literal
}

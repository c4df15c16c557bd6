package condition

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
)

func TestExpressionLimits(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"short":              {"object.metadata.?name.orValue('') == 'a'", ""},
		"a list of names":    {"object.metadata.?name.orValue('') in ['a'" + strings.Repeat(", 'b'", 400) + "]", ""},
		"a pattern":          {`object.metadata.?name.orValue('').matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')`, ""},
		"long":               {"object.metadata.?name.orValue('') == '" + strings.Repeat("a", 5000) + "'", "must have at most 4096 bytes, but has 5039"},
		"many operations":    {strings.TrimSuffix(strings.Repeat("1==1||", 400), "||"), "must have at most 512 operations and values, but has 1599"},
		"macros that double": {"object.metadata.?labels" + strings.Repeat(".optMap(x,x)", 10) + ".hasValue()", "expression count exceeds limit of 512"},
		"nested lists":       {strings.Repeat("[", 60) + strings.Repeat("]", 60) + " == []", "expression recursion limit exceeded: 40"},
		"a large pattern":    {`object.metadata.?name.orValue('').matches('(` + strings.Repeat("a", 100) + `){1000}')`, "must have at most 512 operations and values, but has 12"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(Compiler).Compile(c.text, "must be true or false", cel.BoolType)
			switch {
			case err == nil && c.want != "":
				t.Errorf("want an error with %q", c.want)
			case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

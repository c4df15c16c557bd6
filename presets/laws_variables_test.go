package presets

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/test/cases"
)

// A preset with variables acts as the preset with their expressions in their places.
func TestLawVariablesStandForTheirExpressions(t *testing.T) {
	named := 0
	checkLaw(t, func(t *testing.T, c lawCase) {
		g := generator{Rand: c.Rand, sparseness: 95, computes: true, mayFail: c.seed%2 == 0}
		part := []string{"defaults", "overrides"}[c.Intn(2)]
		plain := map[string]any{part: g.vm()}
		withNames, _ := tree.Clone(plain).(map[string]any)
		var definitions []any
		withNames[part] = nameExpressions(g, withNames[part], &definitions)
		if withNames["variables"] = definitions; len(definitions) > 0 {
			named++
		}
		want, got := compileSpec("", "p9", plain), compileSpec("", "p9", withNames)
		if (want == nil) != (got == nil) {
			t.Fatalf("only one of them compiles:\n%s\n%s", encode(plain), encode(withNames))
		}
		if want == nil {
			return
		}
		unguarded, _ := want.Expressions().Unguarded(0)
		for _, problem := range unguarded {
			if names, _ := got.Expressions().Unguarded(0); !strings.Contains(names.ToAggregate().Error(), problem.Detail) {
				t.Errorf("want the problem %s, got %v", problem.Detail, names)
			}
		}
		wantText, gotText := outcomeOf(t, c, want), outcomeOf(t, c, got)
		if diff := cmp.Diff(wantText, gotText); diff != "" {
			t.Errorf("variables change the outcome (-without +with): %s\n%s\n%s", diff, encode(plain), encode(withNames))
		}
	})
	if named < cases.Of(400)/4 {
		t.Errorf("only %d cases have variables", named)
	}
}

var namedVariables = regexp.MustCompile(` in variables\.\w+|, where .*? is [^"\\]*`)

// outcomeOf returns the VM, or why it is rejected, and the warnings, without names of variables.
func outcomeOf(t *testing.T, c lawCase, preset *Compiled) []string {
	t.Helper()
	out, err := c.engine.Resolve(t.Context(), NewSnapshot(append(slices.Clone(c.presets), preset), nil), Request{
		Kind: VirtualMachine, Object: encode(c.vm), Namespace: Namespace{Name: "ns"},
	})
	if err != nil {
		return []string{namedVariables.ReplaceAllString(err.Error(), "")}
	}
	texts := []string{string(encode(dropRecord(roundTrip(out.Object()))))}
	for _, warning := range out.Warnings {
		texts = append(texts, namedVariables.ReplaceAllString(warning, ""))
	}
	return texts
}

func dropRecord(vm map[string]any) map[string]any {
	clearRecord(vm) // it has the hash of the preset
	return vm
}

// nameExpressions replaces expressions by variables, and some by variables of variables.
func nameExpressions(g generator, v any, definitions *[]any) any {
	switch at := v.(type) {
	case map[string]any:
		text, ok := at[ComputedKey].(string)
		if !ok {
			for name, sub := range at {
				at[name] = nameExpressions(g, sub, definitions)
			}
			return at
		}
		for len(*definitions) < 16 && g.Intn(3) > 0 {
			name := fmt.Sprintf("v%d", len(*definitions))
			*definitions = append(*definitions, map[string]any{"name": name, "expression": text})
			text = "variables." + name
		}
		return map[string]any{ComputedKey: text}
	case []any:
		for i, e := range at {
			at[i] = nameExpressions(g, e, definitions)
		}
	}
	return v
}

package presets

import (
	"fmt"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
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
		unguarded, _ := want.UnguardedExpressions(0)
		for _, problem := range unguarded {
			if names, _ := got.UnguardedExpressions(0); !strings.Contains(names.ToAggregate().Error(), problem.Detail) {
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
		for len(*definitions) < maxVariables && g.Intn(3) > 0 {
			name := fmt.Sprintf("v%d", len(*definitions))
			*definitions = append(*definitions, map[string]any{"name": name, "expression": text})
			text = variablesKey + "." + name
		}
		return map[string]any{ComputedKey: text}
	case []any:
		for i, e := range at {
			at[i] = nameExpressions(g, e, definitions)
		}
	}
	return v
}

// An expression with variables has the cost, the size and the unguarded fields of the expression
// with their expressions in their places, and the same value for each VM.
func TestLawInlinedExpressionsAreThoseWrittenByHand(t *testing.T) {
	compiledOnce, failed, unguarded := 0, 0, 0
	for seed := range int64(cases.Of(1_000)) {
		r := rand.New(rand.NewSource(seed))
		c, plain := &expressionCompiler{}, []string{}
		for i := range 1 + r.Intn(4) {
			named, text := randomExpression(r, plain, 1)
			v := &variable{expression: expression{name: fmt.Sprintf("v%d", i), text: named}, index: i}
			c.variables = append(c.variables, v)
			if err := c.define(v); err != nil {
				t.Fatalf("%s: %v", named, err)
			}
			plain = append(plain, text)
		}
		named, text := randomExpression(r, plain, 2)
		before := c.nodes
		got, err := c.compile(named, "must be true or false", celTypes[vmschema.Bool]...)
		byHand := &expressionCompiler{}
		want, wantErr := byHand.compile(text, "must be true or false", celTypes[vmschema.Bool]...)
		if err != nil || wantErr != nil {
			if wantErr == nil && strings.Contains(err.Error(), "must compile") {
				t.Fatalf("%s: %v", named, err)
			}
			continue // too large, also because of the variables
		}
		compiledOnce++
		if got.most != want.most || got.cost != want.cost || c.nodes-before != byHand.nodes {
			t.Errorf("%s has cost %d and %d nodes, want %d and %d", named, got.most, c.nodes-before, want.most, byHand.nodes)
		}
		selections, wanted := (&analysis{steps: AllSteps}).unguarded(got.syntax), (&analysis{steps: AllSteps}).unguarded(want.syntax)
		if unguarded += len(wanted); !slices.Equal(selections, wanted) {
			t.Errorf("%s: unguarded are %q, want %q", named, selections, wanted)
		}
		for range 5 {
			vm := (generator{Rand: r, sparseness: 40}).vm()
			value, err := valueOf(t, got, vm)
			wantValue, wantErr := valueOf(t, want, vm)
			if failed++; err == nil {
				failed--
			}
			if value != wantValue || (err == nil) != (wantErr == nil) {
				t.Errorf("%s is %v, %v; want %v, %v", named, value, err, wantValue, wantErr)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %v %s", seed, plain, text)
		}
	}
	if compiledOnce < cases.Of(1_000)/2 || failed == 0 || unguarded == 0 {
		t.Errorf("%d expressions compiled, %d failed, %d fields were unguarded", compiledOnce, failed, unguarded)
	}
}

func valueOf(t *testing.T, x expression, vm map[string]any) (any, error) {
	t.Helper()
	e := evaluation{ctx: t.Context(), budget: clusterCost, object: withRequiredParents(roundTrip(vm)), namespace: map[string]any{}}
	return e.value(x)
}

// randomExpression returns an expression with variables, and the same without them.
func randomExpression(r *rand.Rand, variables []string, depth int) (named, plain string) {
	if depth == 0 {
		if i := r.Intn(4); i < len(variables) {
			return fmt.Sprintf("variables.v%d", i), "(" + variables[i] + ")"
		}
		atoms := []string{
			"true", "object.spec.running", "has(object.metadata.labels)", "object.metadata.labels.a == 'x'",
			"object.metadata.?labels.?a.orValue('x') == 'x'", "object.spec.template.spec.domain.cpu.cores > 1",
			"has(object.spec.template.spec.domain.cpu)", "optional.none() == object.spec.?running",
		}
		atom := atoms[r.Intn(len(atoms))]
		return atom, atom
	}
	a, plainA := randomExpression(r, variables, depth-1)
	b, plainB := randomExpression(r, variables, depth-1)
	format := []string{"(%s && %s)", "(%s || %s)", "!(%s) == (%s)", "[1, 2].exists(x, x > 1 && %s && [x].all(x, %s))", "(%s ? [true] : []).map(x, x || %s).size() > 0"}[r.Intn(5)]
	return fmt.Sprintf(format, a, b), fmt.Sprintf(format, plainA, plainB)
}

package condition

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/virtwright/virtwright/test/cases"
)

// An expression with variables has the cost, the size and the unguarded fields of the expression
// with their expressions in their places, and the same value for each VM.
func TestLawInlinedExpressionsAreThoseWrittenByHand(t *testing.T) {
	compiledOnce, failed, unguarded := 0, 0, 0
	for seed := range int64(cases.Of(1_000)) {
		r := rand.New(rand.NewSource(seed))
		c, plain := &Compiler{}, []string{}
		for i := range 1 + r.Intn(4) {
			named, text := randomExpression(r, plain, 1)
			v := &Variable{Expression: Expression{Name: fmt.Sprintf("v%d", i), Text: named}, index: i}
			c.variables = append(c.variables, v)
			if err := c.define(v); err != nil {
				t.Fatalf("%s: %v", named, err)
			}
			plain = append(plain, text)
		}
		named, text := randomExpression(r, plain, 2)
		before := c.nodes
		got, err := c.Compile(named, "must be true or false", cel.BoolType)
		byHand := &Compiler{}
		want, wantErr := byHand.Compile(text, "must be true or false", cel.BoolType)
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
			vm := randomVM(r)
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

func valueOf(t *testing.T, x Expression, vm map[string]any) (any, error) {
	t.Helper()
	e := Evaluation{Context: t.Context(), Budget: MaxCost, Object: vm}
	return e.Value(x)
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

// randomVM returns a VM with some of the fields that random expressions read.
func randomVM(r *rand.Rand) map[string]any {
	meta, spec, domain := map[string]any{}, map[string]any{}, map[string]any{}
	spec["template"] = map[string]any{"spec": map[string]any{"domain": domain}}
	switch r.Intn(3) {
	case 0:
		meta["labels"] = map[string]any{"b": "x"}
	case 1:
		meta["labels"] = map[string]any{"a": []string{"x", "y"}[r.Intn(2)]}
	}
	if r.Intn(2) == 0 {
		spec["running"] = r.Intn(2) == 0
	}
	if r.Intn(2) == 0 {
		domain["cpu"] = map[string]any{"cores": int64(1 + r.Intn(2))}
	}
	return map[string]any{"metadata": meta, "spec": spec}
}

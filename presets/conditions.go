package presets

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	// clusterCost and namespaceCost are the CEL cost that the conditions of all
	// cluster presets, and of all presets of a namespace, may have each time that
	// presets are matched. The units are the API server's: a million takes up to a
	// second. The authors of a namespace cannot use up what cluster presets have.
	clusterCost   = celconfig.RuntimeCELCostBudget / 5
	namespaceCost = celconfig.RuntimeCELCostBudget / 20
	// conditionCost is what one condition may have, estimated and actual.
	conditionCost = celconfig.PerCallLimit
	// untrackedCost is the estimate up to which an evaluation is charged the
	// estimate, which costs no time, and not what it really took.
	untrackedCost = 100

	// assumedItems is how many items a list or map of a VM is taken to have
	// when cost is estimated; KubeVirt allows 256 networks and interfaces.
	assumedItems = 256
	// assumedLength is how long a string of a VM is taken to be.
	assumedLength = 2048
)

// An expression is one compiled CEL expression of a preset: a condition, or the value
// of a field.
type expression struct {
	// text is the source of the expression, and name says what messages call it.
	text, name string
	program    cel.Program
	// cost charged to the budget for an evaluation; 0 means what it took.
	cost uint64
}

// conditionEnv is the environment of the API server's own policies, with the
// variables object and namespaceObject.
var conditionEnv = sync.OnceValues(func() (*cel.Env, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(),
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType), cel.Variable("namespaceObject", cel.DynType)},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
})

func compileConditions(in []v1alpha1.MatchCondition, at *field.Path) ([]expression, field.ErrorList) {
	var errs field.ErrorList
	var out []expression
	seen := map[string]bool{}
	for i, c := range in {
		if c.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"), "messages refer to a condition by its name"))
		}
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		seen[c.Name] = true
		compiled, err := compileExpression(c.Expression, "must be true or false", cel.BoolType)
		compiled.name = fmt.Sprintf("condition %q", c.Name)
		if err != nil {
			errs = append(errs, field.Invalid(at.Index(i).Child("expression"), c.Expression, err.Error()))
			continue
		}
		out = append(out, compiled)
	}
	return out, errs
}

// checkExpression parses an expression and checks its types.
func checkExpression(text string) (*cel.Env, *cel.Ast, error) {
	env, err := conditionEnv()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot set up CEL: %w", err)
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, nil, fmt.Errorf("must compile: %w", issues.Err())
	}
	return env, checked, nil
}

// compileExpression compiles an expression of one of some types, or of a type that only
// its evaluation shows. Want says in a message which types these are.
func compileExpression(text, want string, types ...*cel.Type) (expression, error) {
	env, checked, err := checkExpression(text)
	if err != nil {
		return expression{}, err
	}
	if t := checked.OutputType(); !slices.ContainsFunc(append(types, cel.DynType), t.IsExactType) {
		return expression{}, fmt.Errorf("%s, but is of type %s", want, t)
	}
	estimate, err := env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: vmSizes{}})
	if err != nil {
		return expression{}, fmt.Errorf("cannot estimate cost: %w", err)
	}
	if estimate.Max > conditionCost {
		return expression{}, fmt.Errorf("too costly: the estimate is %s times the limit for a VM with lists of %d items; "+
			"use fewer nested loops", ratio(estimate.Max), assumedItems)
	}
	out := expression{text: text}
	if plain, ok := plainProgram(checked); ok && estimate.Max <= untrackedCost {
		out.program, out.cost = plain, max(estimate.Max, 1)
		return out, nil
	}
	out.program, err = env.Program(checked, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	return out, err
}

// plainEnv has the functions of CEL itself and does not track cost, which the
// API server's environment does whatever one asks.
var plainEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.DefaultUTCTimeZone(true), cel.OptionalTypes())
})

// plainProgram is a program for an expression that calls no function but CEL's own.
func plainProgram(checked *cel.Ast) (cel.Program, bool) {
	env, err := plainEnv()
	if err != nil {
		return nil, false
	}
	own := true
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && !env.HasFunction(e.AsCall().FunctionName()) {
			own = false
		}
	}))
	if !own {
		return nil, false
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize))
	return program, err == nil
}

func ratio(cost uint64) string {
	if cost == math.MaxUint64 {
		return "far more than a thousand"
	}
	return fmt.Sprintf("%.1f", float64(cost)/conditionCost)
}

// vmSizes bounds what a condition may meet, since a VM has no schema in CEL.
type vmSizes struct{}

func (vmSizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	switch element.Type().Kind() {
	case cel.StringKind, cel.BytesKind:
		return &checker.SizeEstimate{Max: assumedLength}
	}
	return &checker.SizeEstimate{Max: assumedItems}
}

func (vmSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// An evaluation runs conditions of one request on one object, within a budget.
type evaluation struct {
	ctx    context.Context
	object map[string]any
	// namespaceOf is turned into namespace when a condition first asks.
	namespaceOf *Namespace
	namespace   map[string]any
	// left of the budget of the presets that are being matched.
	left int64
}

var errBudget = errors.New("the conditions of all presets together cost too much for one request")

// ResolveName makes an evaluation the CEL activation of its conditions.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return e.object, true
	case "namespaceObject":
		if e.namespace == nil && e.namespaceOf != nil {
			e.namespace = e.namespaceOf.object()
		}
		return e.namespace, true
	}
	return nil, false
}

// Parent is part of the CEL activation; there is none.
func (e *evaluation) Parent() interpreter.Activation { return nil }

// holds reports whether a condition is true.
func (e *evaluation) holds(c expression) (bool, error) {
	v, err := e.value(c)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("cannot use %s: it must be true or false, but is %s", c.name, show(v))
	}
	return b, nil
}

// value evaluates an expression.
func (e *evaluation) value(x expression) (any, error) {
	if e.left <= 0 {
		return nil, errBudget
	}
	e.left -= int64(x.cost)
	var out ref.Val
	var err error
	if x.cost != 0 {
		out, _, err = x.program.Eval(e)
	} else {
		var details *cel.EvalDetails
		out, details, err = x.program.ContextEval(e.ctx, e)
		if details != nil && details.ActualCost() != nil {
			e.left -= int64(min(*details.ActualCost(), math.MaxInt32))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot evaluate %s: %w", x.name, err)
	}
	return out.Value(), nil
}

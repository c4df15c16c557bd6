package condition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/tree"
)

const (
	// MaxCost is the limit for one expression, estimated and actual, in units of CEL cost. A
	// million takes up to a second.
	MaxCost = celconfig.PerCallLimit
	// untrackedCost is the highest estimate that is charged instead of the slower measured cost.
	untrackedCost = 100

	assumedItems  = 256 // in a list or map; KubeVirt allows 256 networks and interfaces
	assumedLength = 2048
)

// An Expression is a compiled CEL expression of a preset: a condition, or the value of a field.
type Expression struct {
	Text string // with the variables that it uses
	Name string // for messages

	program cel.Program
	cost    uint64              // of an evaluation; 0 means that the actual cost is charged
	most    uint64              // the estimated maximum cost
	syntax  ast.Expr            // checked, with variables inlined
	origins map[int64]*Variable // the variables that nodes of syntax come from, by ID
}

// policyEnv is the API server's environment for policies, with object and namespaceObject.
var policyEnv = sync.OnceValues(func() (*cel.Env, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: environment.DefaultCompatibilityVersion(),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("namespaceObject", cel.DynType),
			cel.ParserRecursionLimit(maxNesting), cel.ExpressionNodeLimit(maxNodes),
		},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
})

// Conditions compiles the conditions of a preset.
func (c *Compiler) Conditions(in []v1alpha1.MatchCondition, at *field.Path, errs *field.ErrorList) []Expression {
	var out []Expression
	seen := map[string]bool{}
	for i, m := range in {
		if m.Name == "" {
			*errs = append(*errs, field.Required(at.Index(i).Child("name"), "messages refer to a condition by its name"))
		}
		if seen[m.Name] {
			*errs = append(*errs, field.Duplicate(at.Index(i).Child("name"), m.Name))
		}
		seen[m.Name] = true
		compiled, err := c.Compile(m.Expression, "must be true or false", cel.BoolType)
		compiled.Name = fmt.Sprintf("condition %q", m.Name)
		if err != nil {
			*errs = append(*errs, field.Invalid(at.Index(i).Child("expression"), m.Expression, err.Error()))
			continue
		}
		out = append(out, compiled)
	}
	return out
}

// vmSizes bounds the sizes of values, since a VM has no schema in CEL.
type vmSizes struct{}

func (vmSizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if kind := element.Type().Kind(); kind == cel.StringKind || kind == cel.BytesKind {
		return &checker.SizeEstimate{Max: assumedLength}
	}
	return &checker.SizeEstimate{Max: assumedItems}
}

func (vmSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// An Evaluation evaluates the expressions of one request, within a budget.
type Evaluation struct {
	Context context.Context
	Object  map[string]any
	// Namespace returns the variable namespaceObject; nil stands for a VM without one. It is called
	// when an expression first reads the variable.
	Namespace func() map[string]any
	namespace map[string]any
	// Budget is what remains for the expressions, in units of CEL cost.
	Budget int64
}

// ErrBudget means that an evaluation has no budget left.
var ErrBudget = errors.New("the conditions of all presets together cost too much for one request")

// ResolveName makes an evaluation the CEL activation of its conditions.
func (e *Evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return e.Object, true
	case "namespaceObject":
		if e.namespace == nil && e.Namespace != nil {
			e.namespace = e.Namespace()
		}
		return e.namespace, true
	}
	return nil, false
}

// Parent makes an evaluation a CEL activation, too.
func (e *Evaluation) Parent() interpreter.Activation { return nil }

// Holds evaluates a condition.
func (e *Evaluation) Holds(c Expression) (bool, error) {
	v, err := e.Value(c)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("cannot use %s: it must be true or false, but is %s", c.Name, tree.Show(v))
	}
	return b, nil
}

// Value evaluates an expression. Its result is a value of CEL.
func (e *Evaluation) Value(x Expression) (any, error) {
	if e.Budget <= 0 {
		return nil, ErrBudget
	}
	if err := e.Context.Err(); err != nil {
		return nil, fmt.Errorf("cannot evaluate %s in time: %w", x.Name, err)
	}
	e.Budget -= int64(x.cost)
	var out ref.Val
	var err error
	if x.cost != 0 {
		out, _, err = x.program.Eval(e)
	} else {
		var details *cel.EvalDetails
		out, details, err = x.program.ContextEval(e.Context, e)
		if details != nil && details.ActualCost() != nil {
			e.Budget -= int64(min(*details.ActualCost(), math.MaxInt32))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot evaluate %s%s: %w", x.Name, x.variableIn(err), err)
	}
	return out.Value(), nil
}

// variableIn names the variable in which an evaluation failed; empty if it failed in none.
func (x Expression) variableIn(err error) string {
	var failed *types.Err
	if errors.As(err, &failed) && x.origins[failed.NodeID()] != nil {
		return " in " + x.origins[failed.NodeID()].String()
	}
	return ""
}

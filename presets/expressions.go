package presets

import (
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// The limits of expressions. A type check takes time and memory with the square of the nodes and
// the cube of the nesting of lists, and a macro such as optMap doubles the nodes. Nodes are counted
// after macros are expanded.
const (
	maxNesting         = 40
	maxNodes           = 512
	maxExpressionBytes = 4 << 10
	// maxPresetNodes and maxPresetBytes are for all expressions of a preset together.
	maxPresetNodes = 2048
	maxPresetBytes = 16 << 10
	// patternSteps is the number of steps of a regular expression that count as one node.
	patternSteps = 8
)

// An expressionCompiler compiles the expressions of one preset within the limits. It counts them.
type expressionCompiler struct{ bytes, nodes, computed int }

// compile compiles an expression of one of the types, which want names, or of type dyn.
func (c *expressionCompiler) compile(text, want string, types ...*cel.Type) (expression, error) {
	env, checked, err := c.check(text)
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
	out := expression{text: text, most: estimate.Max, syntax: checked.NativeRep().Expr()}
	if plain, ok := plainProgram(checked); ok && estimate.Max <= untrackedCost {
		out.program, out.cost = plain, max(estimate.Max, 1)
		return out, nil
	}
	out.program, err = env.Program(checked, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	return out, err
}

// check parses and type-checks an expression, unless it exceeds the limits.
func (c *expressionCompiler) check(text string) (*cel.Env, *cel.Ast, error) {
	env, err := conditionEnv()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot set up CEL: %w", err)
	}
	if c.bytes += len(text); len(text) > maxExpressionBytes {
		return nil, nil, fmt.Errorf("must have at most %d bytes, but has %d: divide it into several presets", maxExpressionBytes, len(text))
	} else if c.exceeded() {
		return nil, nil, errPresetTooLarge
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, nil, compileError(issues)
	}
	nodes := nodesOf(parsed)
	if c.nodes += nodes; nodes > maxNodes {
		return nil, nil, fmt.Errorf("must have at most %d operations and values, but has %d with its macros expanded: divide it into several presets", maxNodes, nodes)
	} else if c.exceeded() {
		return nil, nil, errPresetTooLarge
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, nil, compileError(issues)
	}
	return env, checked, nil
}

// compileError lists problems with their positions, on one line.
func compileError(issues *cel.Issues) error {
	var out []string
	for _, e := range issues.Errors() {
		message := e.Message
		if strings.HasPrefix(message, "Syntax error: token recognition error at: '= ") || strings.HasSuffix(message, "at: '='") {
			message += " (did you mean ==?)"
		}
		out = append(out, fmt.Sprintf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, message))
	}
	return fmt.Errorf("must compile: %s", strings.Join(out, "; "))
}

func (c *expressionCompiler) exceeded() bool {
	return c.nodes > maxPresetNodes || c.bytes > maxPresetBytes
}

var errPresetTooLarge = fmt.Errorf("the expressions of a preset together must have at most %d bytes, and %d operations and values with macros expanded: "+
	"divide it into several presets", maxPresetBytes, maxPresetNodes)

// nodesOf counts the nodes of an expression. Regular expressions count by their compiled size.
func nodesOf(parsed *cel.Ast) int {
	nodes := 0
	ast.PostOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		nodes++
		if e.Kind() == ast.CallKind && slices.Contains(matchers, e.AsCall().FunctionName()) {
			for _, arg := range e.AsCall().Args() {
				nodes += patternSize(textOf(arg)) / patternSteps
			}
		}
	}))
	return nodes
}

// matchers are the functions of CEL that compile a regular expression.
var matchers = []string{"matches", "find", "findAll"}

func patternSize(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // CEL reports it
	}
	return stepsOf(parsed)
}

// stepsOf returns the approximate number of instructions of a compiled regular expression, which
// has a copy of a repeated part for each repetition.
func stepsOf(re *syntax.Regexp) int {
	steps := 1
	if re.Op == syntax.OpLiteral {
		steps = len(re.Rune)
	}
	for _, sub := range re.Sub {
		steps += stepsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		steps *= max(re.Min, re.Max, 1)
	}
	return steps
}

// plainEnv has only CEL's own functions and, unlike the API server's, does not track cost.
var plainEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.DefaultUTCTimeZone(true), cel.OptionalTypes())
})

func plainProgram(checked *cel.Ast) (cel.Program, bool) {
	env, err := plainEnv()
	if err != nil {
		return nil, false
	}
	foreign := ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.CallKind && !env.HasFunction(e.AsCall().FunctionName())
	})
	if len(foreign) > 0 {
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

package condition

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

// A Compiler compiles the expressions of one preset within the limits. It counts them.
type Compiler struct {
	bytes, nodes int
	variables    []*Variable
}

// Compile compiles an expression of one of the types, which want names, or of type dyn.
func (c *Compiler) Compile(text, want string, types ...*cel.Type) (Expression, error) {
	parsed, err := c.parse(text)
	if err != nil {
		return Expression{}, err
	}
	checked, err := parsed.check()
	if err != nil {
		return Expression{}, err
	}
	if t := checked.OutputType(); !slices.ContainsFunc(append(types, cel.DynType), t.IsExactType) {
		return Expression{}, fmt.Errorf("%s, but is of type %s", want, t)
	}
	hasPatterns, err := checkPatterns(checked.NativeRep().Expr())
	if err != nil {
		return Expression{}, err
	}
	estimate, err := parsed.env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: vmSizes{}})
	if err != nil {
		return Expression{}, fmt.Errorf("cannot estimate cost: %w", err)
	}
	if estimate.Max > MaxCost {
		return Expression{}, fmt.Errorf("too costly: the estimate is %s times the limit for a VM with lists of %d items; "+
			"use fewer nested loops", ratio(estimate.Max), assumedItems)
	}
	out := Expression{Text: withVariables(text, parsed.uses), most: estimate.Max, syntax: checked.NativeRep().Expr(), origins: parsed.origins}
	if plain, ok := plainProgram(checked); ok && estimate.Max <= untrackedCost && !hasPatterns {
		out.program, out.cost = plain, max(estimate.Max, 1)
		return out, nil
	}
	out.program, err = out.limitedProgram(parsed.env, checked)
	return out, err
}

// limitedProgram returns a program that tracks its cost, within the limits.
func (x Expression) limitedProgram(env *cel.Env, checked *cel.Ast) (cel.Program, error) {
	limit, err := decorator(x.syntax)
	if err != nil {
		return nil, fmt.Errorf("cannot set up CEL: %w", err)
	}
	options := []cel.ProgramOption{cel.InterruptCheckFrequency(celconfig.CheckFrequency), cel.CostTracking(&runtimeCost{}), cel.CustomDecorator(limit)}
	if x.isConstant() {
		options = append(options, cel.CostLimit(constantCost))
	}
	return env.Program(checked, options...)
}

// A parsedExpression has all variables inlined, and is within the limits.
type parsedExpression struct {
	*cel.Ast
	env     *cel.Env
	nodes   int
	uses    []*Variable         // directly and indirectly, by name
	origins map[int64]*Variable // of the inlined nodes, by ID
}

func (p *parsedExpression) check() (*cel.Ast, error) {
	checked, issues := p.env.Check(p.Ast)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	return checked, nil
}

// parse parses an expression and inlines its variables, unless it exceeds the limits.
func (c *Compiler) parse(text string) (*parsedExpression, error) {
	env, err := policyEnv()
	if err != nil {
		return nil, fmt.Errorf("cannot set up CEL: %w", err)
	}
	if c.bytes += len(text); len(text) > maxExpressionBytes {
		return nil, fmt.Errorf("must have at most %d bytes, but has %d: divide it into several presets", maxExpressionBytes, len(text))
	} else if c.exceeded() {
		return nil, errPresetTooLarge
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	uses, err := c.variableUses(parsed, text)
	if err != nil {
		return nil, err
	}
	nodes := nodesOf(parsed)
	for _, use := range uses {
		nodes += use.variable.nodes - 2 // variables.NAME has two
	}
	if c.nodes += nodes; nodes > maxNodes {
		return nil, fmt.Errorf("must have at most %d operations and values, but has %d with its macros and variables expanded: "+
			"divide it into several presets", maxNodes, nodes)
	} else if c.exceeded() {
		return nil, errPresetTooLarge
	}
	return &parsedExpression{parsed, env, nodes, variablesOf(uses), inline(parsed.NativeRep(), uses)}, nil
}

// compileError lists problems with their positions, on one line.
func compileError(issues *cel.Issues) error {
	var out []string
	for _, e := range issues.Errors() {
		message := e.Message
		if strings.HasPrefix(message, "Syntax error: token recognition error at: '= ") || strings.HasSuffix(message, "at: '='") {
			message += " (did you mean ==?)"
		}
		out = append(out, located(e.Location, message))
	}
	return fmt.Errorf("must compile: %s", strings.Join(out, "; "))
}

func (c *Compiler) exceeded() bool {
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

// checkPatterns limits the steps of all literal regular expressions, and reports whether there are
// any regular expressions.
func checkPatterns(e ast.Expr) (found bool, err error) {
	steps := 0
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && slices.Contains(matchers, e.AsCall().FunctionName()) {
			args := e.AsCall().Args()
			if !e.AsCall().IsMemberFunction() {
				args = args[1:]
			}
			found, steps = true, steps+patternSize(textOf(args[0]))
		}
	}))
	if steps > maxPattern {
		return found, fmt.Errorf("its regular expressions must have at most %d steps, but have %d with their repetitions and variables expanded", maxPattern, steps)
	}
	return found, nil
}

// matchers are the functions of CEL that compile a regular expression.
var matchers = []string{"matches", "find", "findAll"}

// patternSize returns the steps of a regular expression. One that is longer than an expression may
// be is not parsed, and has more steps than any limit.
func patternSize(pattern string) int {
	if len(pattern) > maxExpressionBytes {
		return MaxCost
	}
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
	return fmt.Sprintf("%.1f", float64(cost)/MaxCost)
}

package condition

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/spelling"
)

const (
	maxVariables    = 16
	maxVariableName = 63
	// maxTypeNesting keeps chains of variables near maxNesting, which only the parser enforces.
	maxTypeNesting = 8
	variablesKey   = "variables" // the root of variables in CEL
)

// A Variable is a named expression. A copy of it replaces each use, as if its author had written it
// there, so that limits and analyses need no rules for variables.
type Variable struct {
	Expression             // Text as written, and without program
	index      int         // in spec.variables
	definition ast.Expr    // parsed, with the variables that it uses inlined; nil until it is compiled
	nodes      int         // of definition
	free       []string    // names that definition reads, such as object
	uses       []*Variable // directly and indirectly
	used       bool        // by any expression
}

// String is the name by which expressions use the variable.
func (v *Variable) String() string { return variablesKey + "." + v.Name }

func (v *Variable) path() *field.Path {
	return field.NewPath("spec", "variables").Index(v.index).Child("expression")
}

// Variables compiles the variables of a preset in their order. Expressions that are compiled later
// may use them.
func (c *Compiler) Variables(in []v1alpha1.Variable, at *field.Path, errs *field.ErrorList) []*Variable {
	if len(in) > maxVariables {
		*errs = append(*errs, field.TooMany(at, len(in), maxVariables))
		in = in[:maxVariables]
	}
	for i, d := range in {
		switch name := at.Index(i).Child("name"); {
		case d.Name == "":
			*errs = append(*errs, field.Required(name, "expressions refer to a variable by its name"))
		case !isIdentifier(d.Name):
			*errs = append(*errs, field.Invalid(name, d.Name, "must be a CEL identifier, such as guestMemory: letters, digits and _, and not a reserved word"))
		case len(d.Name) > maxVariableName:
			*errs = append(*errs, field.TooLong(name, d.Name, maxVariableName))
		case c.variableNamed(d.Name) != nil:
			*errs = append(*errs, field.Duplicate(name, d.Name))
		}
		c.variables = append(c.variables, &Variable{Expression: Expression{Name: d.Name, Text: d.Expression}, index: i})
	}
	for _, v := range c.variables {
		if err := c.define(v); err != nil {
			*errs = append(*errs, field.Invalid(v.path(), v.Text, err.Error()))
			// Expressions that use it are not reported, too, because object has every type.
			v.definition = ast.NewExprFactory().NewIdent(1, "object")
		}
	}
	return c.variables
}

// define compiles a variable.
func (c *Compiler) define(v *Variable) error {
	parsed, err := c.parse(v.Text)
	if err != nil {
		return err
	}
	definition, free := ast.NewExprFactory().CopyExpr(parsed.NativeRep().Expr()), freeNames(parsed.NativeRep())
	checked, err := parsed.check()
	if err != nil {
		return err
	}
	if t := checked.OutputType(); nestingOf(t) > maxTypeNesting {
		return fmt.Errorf("must have a type with at most %d levels of nesting, but is of type %s", maxTypeNesting, t)
	}
	v.definition, v.nodes, v.free, v.uses = definition, parsed.nodes, free, parsed.uses
	v.syntax, v.origins = checked.NativeRep().Expr(), parsed.origins
	return nil
}

// nestingOf returns how deep lists, maps and optionals are nested in a type.
func nestingOf(t *cel.Type) int {
	deepest := 0
	for _, parameter := range t.Parameters() {
		deepest = max(deepest, 1+nestingOf(parameter))
	}
	return deepest
}

func (c *Compiler) variableNamed(name string) *Variable {
	i := slices.IndexFunc(c.variables, func(v *Variable) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return c.variables[i]
}

// A variableUse is a place in an expression that names a variable.
type variableUse struct {
	node     ast.NavigableExpr
	variable *Variable
}

// variableUses finds the uses of variables in an expression.
func (c *Compiler) variableUses(parsed *cel.Ast, text string) ([]variableUse, error) {
	if !strings.Contains(text, variablesKey) {
		return nil, nil
	}
	var out []variableUse
	var problems []string
	root := ast.NavigateAST(parsed.NativeRep())
	for _, e := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		bound := namesBoundAround(e)
		if e.AsIdent() != variablesKey || bound[variablesKey] {
			continue
		}
		use, err := c.variableUse(e, bound)
		if err != nil {
			at := parsed.NativeRep().SourceInfo().GetStartLocation(e.ID())
			problems = append(problems, located(at, err.Error()))
			continue
		}
		out = append(out, use)
	}
	if len(problems) > 0 {
		return nil, errors.New("must compile: " + strings.Join(problems, "; "))
	}
	return out, nil
}

// variableUse returns the use of a variable through the identifier variables.
func (c *Compiler) variableUse(e ast.NavigableExpr, bound map[string]bool) (variableUse, error) {
	parent, ok := e.Parent()
	if !ok || parent.Kind() != ast.SelectKind || parent.AsSelect().IsTestOnly() {
		return variableUse{}, fmt.Errorf("use %s.NAME: has() and ? are not supported, because a variable always has a value", variablesKey)
	}
	name := parent.AsSelect().FieldName()
	v := c.variableNamed(name)
	if v == nil {
		return variableUse{}, fmt.Errorf("spec.variables has no %q%s", name, c.nearVariable(name))
	}
	if v.definition == nil {
		return variableUse{}, fmt.Errorf("%s is not defined yet: a variable may use only variables above it", v)
	}
	for _, free := range v.free {
		if bound[free] {
			return variableUse{}, fmt.Errorf("%s reads %s, but a macro around it has its own %s: rename the loop variable", v, free, free)
		}
	}
	return variableUse{parent, v}, nil
}

func (c *Compiler) nearVariable(name string) string {
	names := make([]string, 0, len(c.variables))
	for _, v := range c.variables {
		names = append(names, v.Name)
	}
	if meant := spelling.Nearest(name, slices.Values(names)); meant != "" {
		return fmt.Sprintf("; did you mean %s.%s?", variablesKey, meant)
	}
	return ""
}

// variablesOf returns the variables that are used, directly and indirectly, by name.
func variablesOf(uses []variableUse) []*Variable {
	all := map[*Variable]bool{}
	for _, use := range uses {
		all[use.variable] = true
		for _, v := range use.variable.uses {
			all[v] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b *Variable) int { return strings.Compare(a.Name, b.Name) })
}

// inline replaces uses of variables by copies of their expressions, and returns the variable in
// which each node is written. A copy has the position of the use.
func inline(parsed *ast.AST, uses []variableUse) map[int64]*Variable {
	if len(uses) == 0 {
		return nil
	}
	origins, factory, next := map[int64]*Variable{}, ast.NewExprFactory(), ast.MaxID(parsed)
	for _, use := range uses {
		use.variable.used = true
		at, _ := parsed.SourceInfo().GetOffsetRange(use.node.ID())
		expression := factory.CopyExpr(use.variable.definition)
		origins[use.node.ID()] = cmp.Or(use.variable.origins[expression.ID()], use.variable)
		expression.RenumberIDs(func(id int64) int64 {
			next++
			origins[next] = cmp.Or(use.variable.origins[id], use.variable)
			parsed.SourceInfo().SetOffsetRange(next, at)
			return next
		})
		use.node.SetKindCase(expression)
	}
	return origins
}

// namesBoundAround returns the variables of the macros in which an expression is.
func namesBoundAround(e ast.NavigableExpr) map[string]bool {
	out := map[string]bool{}
	for child := e; ; {
		parent, ok := child.Parent()
		if !ok {
			return out
		}
		if parent.Kind() == ast.ComprehensionKind {
			macro := parent.AsComprehension()
			if child.ID() != macro.IterRange().ID() && child.ID() != macro.AccuInit().ID() {
				out[macro.IterVar()], out[macro.IterVar2()], out[macro.AccuVar()] = true, true, true
			}
		}
		child = parent
	}
}

// freeNames returns the names that an expression reads and that its own macros do not bind.
func freeNames(parsed *ast.AST) []string {
	out := map[string]bool{}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(parsed), ast.KindMatcher(ast.IdentKind)) {
		if !namesBoundAround(e)[e.AsIdent()] {
			out[e.AsIdent()] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// UsesOfVariables is between an expression and the variables that it uses, in texts for people.
const UsesOfVariables = ", where "

// withVariables returns the text of an expression followed by those of the variables that it uses.
func withVariables(text string, uses []*Variable) string {
	separator := UsesOfVariables
	for _, v := range uses {
		text += separator + v.String() + " is " + v.Text
		separator = ", "
	}
	return text
}

// UnusedVariables reports the variables that no expression uses.
func (s Set) UnusedVariables() field.ErrorList {
	var out field.ErrorList
	for _, v := range s.Variables {
		if !v.used {
			out = append(out, field.Invalid(field.NewPath("spec", "variables").Index(v.index), v.Text, fmt.Sprintf("no expression uses %s", v)))
		}
	}
	return out
}

func located(at common.Location, message string) string {
	return fmt.Sprintf("line %d, column %d: %s", at.Line(), at.Column()+1, message)
}

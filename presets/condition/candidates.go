package condition

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A Candidate is a value that may make a VM, or its namespace, satisfy a condition.
type Candidate struct {
	Path  []string // begins with object or namespaceObject, and contains fields and map keys
	Value any      // decoded JSON; an empty list stands for a list with an element
}

// Candidates lists values that may satisfy the conditions: the constants that they compare fields
// with, and a value for each field that they test. It leaves out fields in lists.
func (s Set) Candidates() []Candidate {
	var out candidates
	for _, condition := range s.Conditions {
		out.truth(condition.syntax)
		ast.PostOrderVisit(condition.syntax, ast.NewExprVisitor(out.visit))
	}
	return out
}

type candidates []Candidate

func (f *candidates) add(path []string, values ...any) {
	if len(path) < 2 {
		return
	}
	for _, v := range values {
		if v != nil {
			*f = append(*f, Candidate{path, v})
		}
	}
}

func (f *candidates) addSample(path []string) { f.add(path, sampleOf(path)) }

func (f *candidates) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		if e.AsSelect().IsTestOnly() {
			f.addSample(append(selectionOf(e.AsSelect().Operand()), e.AsSelect().FieldName()))
		}
	case ast.CallKind:
		f.call(e.AsCall())
	}
}

func (f *candidates) call(call ast.CallExpr) {
	args := call.Args()
	if call.IsMemberFunction() {
		args = slices.Insert(slices.Clone(args), 0, call.Target())
	}
	switch name := call.FunctionName(); {
	case name == "hasValue", name == "size":
		f.addSample(selectionOf(args[0]))
	case name == "_&&_", name == "_||_", name == "!_", name == "_?_:_":
		for _, arg := range args {
			f.truth(arg)
		}
	case name == "@in":
		f.contains(args[0], args[1])
	case len(args) == 2:
		f.compare(args[0], args[1])
		f.compare(args[1], args[0])
	}
}

func (f *candidates) truth(e ast.Expr) { f.add(selectionOf(e), true, false) }

// compare adds the constant that a selection is compared with, and its neighbors.
func (f *candidates) compare(e, with ast.Expr) {
	path := selectionOf(e)
	switch v := literalOf(with).(type) {
	case string:
		f.add(path, v, v+"-other")
	case int64:
		f.add(path, v, v+1, v-1)
	case nil:
	default:
		f.add(path, v)
	}
}

func (f *candidates) contains(key, in ast.Expr) {
	if in.Kind() == ast.ListKind {
		for _, element := range in.AsList().Elements() {
			f.add(selectionOf(key), literalOf(element))
		}
		return
	}
	if name, ok := literalOf(key).(string); ok {
		f.addSample(append(selectionOf(in), name))
	}
}

func literalOf(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}

// passThrough are the functions with results that depend only on their receiver.
var passThrough = []string{"orValue", "or", "value", "lowerAscii", "upperAscii", "trim"}

// selectionOf returns the names that an expression selects; nil for other expressions.
func selectionOf(e ast.Expr) []string {
	return selectionThrough(e, func(call ast.CallExpr) bool { return slices.Contains(passThrough, call.FunctionName()) })
}

// selectionThrough returns the names that an expression selects, through the functions of members
// that passes accepts; nil for other expressions.
func selectionThrough(e ast.Expr, passes func(ast.CallExpr) bool) []string {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "object" || name == "namespaceObject" {
			return []string{name}
		}
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return childPath(selectionThrough(s.Operand(), passes), s.FieldName())
		}
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() && passes(call) {
			return selectionThrough(call.Target(), passes)
		}
		if slices.Contains([]string{"_[_]", "_?._", "_[?_]"}, call.FunctionName()) {
			return childPath(selectionThrough(call.Args()[0], passes), textOf(call.Args()[1]))
		}
	}
	return nil
}

func childPath(path []string, name string) []string {
	if path == nil || name == "" {
		return nil
	}
	return append(slices.Clip(path), name)
}

// sampleOf returns a value of the type of the field at a path; nil for an unknown path.
func sampleOf(path []string) any {
	if len(path) > 0 && path[0] == "namespaceObject" {
		return "x"
	}
	if len(path) < 2 {
		return nil
	}
	s := schemaOfSelection(strings.Join(path, pathSeparator))
	if s == nil {
		return nil
	}
	if sample, ok := celValues[s.Shape]; ok {
		return tree.Clone(sample.value)
	}
	return "1"
}

// celValues has a value and the expression for an absent field, by shape. Other shapes are strings.
var celValues = map[vmschema.Shape]struct {
	value any
	zero  string
}{
	vmschema.Object: {map[string]any{}, "{}"}, vmschema.Map: {map[string]any{}, "{}"}, vmschema.Any: {map[string]any{}, "{}"},
	vmschema.Keyed: {[]any{}, "[]"}, vmschema.Atomic: {nil, "[]"},
	vmschema.Bool: {true, "false"}, vmschema.Integer: {int64(1), "0"}, vmschema.Number: {int64(1), "0.0"},
}

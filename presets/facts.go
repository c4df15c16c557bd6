package presets

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
)

// A Fact is a value that a VM, or its namespace, may have to satisfy a condition.
type Fact struct {
	// Path begins with object or namespaceObject, and leads through fields and keys of maps.
	Path []string
	// Value is decoded JSON of the field's type. An empty list stands for one with an element.
	Value any
}

// Facts lists values with which the conditions of the preset are worth a try: the constants
// that they compare fields with, and a value for each field that they ask for. Fields in lists
// are left out.
func (c *Compiled) Facts() []Fact {
	var out facts
	for _, condition := range c.conditions {
		if _, checked, err := checkExpression(condition.text); err == nil {
			e := checked.NativeRep().Expr()
			out.truth(e)
			ast.PostOrderVisit(e, ast.NewExprVisitor(out.visit))
		}
	}
	return out
}

type facts []Fact

func (f *facts) add(path []string, values ...any) {
	if len(path) < 2 {
		return
	}
	for _, v := range values {
		if v != nil {
			*f = append(*f, Fact{path, v})
		}
	}
}

func (f *facts) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		if e.AsSelect().IsTestOnly() {
			path := append(selectionOf(e.AsSelect().Operand()), e.AsSelect().FieldName())
			f.add(path, sampleOf(path))
		}
	case ast.CallKind:
		f.call(e.AsCall())
	}
}

func (f *facts) call(call ast.CallExpr) {
	args := call.Args()
	if call.IsMemberFunction() {
		args = slices.Insert(slices.Clone(args), 0, call.Target())
	}
	switch name := call.FunctionName(); {
	case name == "hasValue", name == "size":
		path := selectionOf(args[0])
		f.add(path, sampleOf(path))
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

// truth adds both values of a selection that is used as a condition itself.
func (f *facts) truth(e ast.Expr) {
	if path := selectionOf(e); path != nil {
		f.add(path, true, false)
	}
}

// compare adds the constant that a selection is compared with, or is searched for, and its
// neighbours.
func (f *facts) compare(e, with ast.Expr) {
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

func (f *facts) contains(key, in ast.Expr) {
	if in.Kind() == ast.ListKind {
		for _, element := range in.AsList().Elements() {
			f.add(selectionOf(key), literalOf(element))
		}
		return
	}
	if name, ok := literalOf(key).(string); ok {
		path := append(selectionOf(in), name)
		f.add(path, sampleOf(path))
	}
}

func literalOf(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}

// passing are the functions whose result tells of what they are called on.
var passing = []string{"orValue", "or", "value", "lowerAscii", "upperAscii", "trim"}

// selectionOf returns the names that lead to what an expression selects; nil for others.
func selectionOf(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "object" || name == "namespaceObject" {
			return []string{name}
		}
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return stepTo(selectionOf(s.Operand()), s.FieldName())
		}
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() && slices.Contains(passing, call.FunctionName()) {
			return selectionOf(call.Target())
		}
		if slices.Contains([]string{"_[_]", "_?._", "_[?_]"}, call.FunctionName()) {
			return stepTo(selectionOf(call.Args()[0]), textOf(call.Args()[1]))
		}
	}
	return nil
}

// stepTo is the path of a field of what lies at a path; nil without either.
func stepTo(path []string, name string) []string {
	if path == nil || name == "" {
		return nil
	}
	return append(slices.Clip(path), name)
}

// sampleOf is a value for the field at a path, by its type; nil for a path that does not exist.
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
	switch s.shape {
	case shapeObject, shapeMap, shapeAny:
		return map[string]any{}
	case shapeKeyed:
		return []any{}
	case shapeAtomic:
		return nil
	case shapeBool:
		return true
	case shapeInteger, shapeNumber:
		return int64(1)
	}
	return "1"
}

package presets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
)

// A demand is what conditions require of one field: one of a few values, or that it is absent.
type demand struct {
	values    []any // allowed; used if isLimited is true
	isLimited bool
	absent    bool // may be absent
	condition int
}

// Contradiction returns the index of the first condition that excludes the values that conditions
// before it, or its own other parts, require of a field, and says why; -1 if there is none. It
// compares fields with constants only.
func (c *Compiled) Contradiction() (index int, why string) {
	required := map[string]demand{}
	for i, condition := range c.conditions {
		for _, part := range joinedBy("_&&_", condition.syntax) {
			at, wants := demandOf(part)
			if at == "" {
				continue
			}
			wants.condition = i
			before, isSecond := required[at]
			if isSecond {
				wants = before.and(wants)
			}
			switch {
			case !wants.isLimited || len(wants.values) > 0 || wants.absent:
			case isSecond && before.condition != i:
				return i, fmt.Sprintf("never true together with %s, because of %s", c.conditions[before.condition].name, celPath(at))
			default:
				return i, "never true, because of " + celPath(at)
			}
			required[at] = wants
		}
	}
	return -1, ""
}

// A Demand is what conditions require of one field.
type Demand struct {
	// Path begins with object or namespaceObject.
	Path []string
	// Values are the allowed values; nil for any.
	Values []any
	// MayBeAbsent says that a VM without the field meets the conditions.
	MayBeAbsent bool
	// Condition is the index of the last condition that reads the field.
	Condition int
}

// Demands lists what the conditions require of fields that they compare with constants.
func (c *Compiled) Demands() []Demand {
	required := map[string]demand{}
	var order []string
	for i, condition := range c.conditions {
		for _, part := range joinedBy("_&&_", condition.syntax) {
			at, wants := demandOf(part)
			if at == "" {
				continue
			}
			wants.condition = i
			if before, isSecond := required[at]; isSecond {
				wants = before.and(wants)
			} else {
				order = append(order, at)
			}
			required[at] = wants
		}
	}
	out := make([]Demand, 0, len(order))
	for _, at := range order {
		d := required[at]
		out = append(out, Demand{strings.Split(at, pathSeparator), d.values, d.absent, d.condition})
	}
	return out
}

func (d demand) and(o demand) demand {
	out := demand{isLimited: d.isLimited || o.isLimited, absent: d.absent && o.absent, values: d.values, condition: o.condition}
	if d.isLimited && !o.isLimited {
		out.condition = d.condition // has(x) limits no values
	}
	switch {
	case d.isLimited && o.isLimited:
		out.values = slices.DeleteFunc(slices.Clone(d.values), func(v any) bool {
			return !slices.ContainsFunc(o.values, func(w any) bool { return equalJSON(v, w) })
		})
	case o.isLimited:
		out.values = o.values
	}
	return out
}

// TrueCondition returns the index of a condition such as x != 'a' || x != 'b', which is true for
// every VM; -1 if there is none.
func (c *Compiled) TrueCondition() int {
	return slices.IndexFunc(c.conditions, func(condition expression) bool {
		excluded := map[string]demand{}
		for _, part := range joinedBy("_||_", condition.syntax) {
			if part.Kind() != ast.CallKind || part.AsCall().FunctionName() != "_!=_" {
				continue
			}
			at, wants := equality(part.AsCall())
			before, isSecond := excluded[at]
			if isSecond {
				wants = before.and(wants)
			}
			if at != "" && len(wants.values) == 0 && !wants.absent {
				return true
			}
			excluded[at] = wants
		}
		return false
	})
}

// joinedBy returns the parts that && or || joins.
func joinedBy(operator string, e ast.Expr) []ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operator {
		var out []ast.Expr
		for _, arg := range e.AsCall().Args() {
			out = append(out, joinedBy(operator, arg)...)
		}
		return out
	}
	return []ast.Expr{e}
}

// demandOf returns the selection that a comparison with constants reads, and what it requires of
// it; "" for other expressions.
func demandOf(e ast.Expr) (string, demand) {
	switch e.Kind() {
	case ast.SelectKind:
		if s := e.AsSelect(); s.IsTestOnly() {
			return strings.Join(childPath(plainSelection(s.Operand()), s.FieldName()), pathSeparator), demand{}
		}
	case ast.CallKind:
		call := e.AsCall()
		switch name := call.FunctionName(); {
		case name == "!_" && isPresenceTest(call.Args()[0]):
			at, _ := demandOf(call.Args()[0])
			return at, demand{isLimited: true, absent: true}
		case isPresenceTest(e):
			return strings.Join(plainSelection(call.Target()), pathSeparator), demand{}
		case name == "_==_":
			return equality(call)
		case name == "@in" && call.Args()[1].Kind() == ast.ListKind:
			return oneConstant(call.Args()[0], call.Args()[1].AsList().Elements()...)
		}
	}
	return "", demand{}
}

// isPresenceTest reports whether an expression is has(FIELD) or FIELD.hasValue().
func isPresenceTest(e ast.Expr) bool {
	return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() ||
		e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && e.AsCall().FunctionName() == "hasValue"
}

// equality returns the selection that is compared with a constant, and the constant.
func equality(call ast.CallExpr) (string, demand) {
	if constantOf(call.Args()[0]) != nil {
		return oneConstant(call.Args()[1], call.Args()[0])
	}
	return oneConstant(call.Args()[0], call.Args()[1])
}

// oneConstant returns the selection of e, which must be one of the constants.
func oneConstant(e ast.Expr, constants ...ast.Expr) (string, demand) {
	out := demand{isLimited: true}
	for _, constant := range constants {
		v := constantOf(constant)
		if v == nil {
			return "", demand{}
		}
		out.values = append(out.values, v)
	}
	if e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && e.AsCall().FunctionName() == "orValue" {
		fallback := constantOf(e.AsCall().Args()[0])
		out.absent = fallback == nil || slices.ContainsFunc(out.values, func(v any) bool { return equalJSON(v, fallback) })
		e = e.AsCall().Target()
	}
	return strings.Join(plainSelection(e), pathSeparator), out
}

// plainSelection is selectionOf for expressions that are the value of the field itself: without
// functions on the way, but orValue({}).
func plainSelection(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		return selectionOf(e)
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			return childPath(plainSelection(s.Operand()), s.FieldName())
		}
	case ast.CallKind:
		call := e.AsCall()
		switch name := call.FunctionName(); {
		case name == "_[_]", name == "_?._", name == "_[?_]":
			return childPath(plainSelection(call.Args()[0]), textOf(call.Args()[1]))
		case call.IsMemberFunction() && (name == "value" || name == "orValue" && isEmptyMap(call.Args()[0])):
			return plainSelection(call.Target())
		}
	}
	return nil
}

func isEmptyMap(e ast.Expr) bool { return e.Kind() == ast.MapKind && e.AsMap().Size() == 0 }

// constantOf returns a literal that is a text, a boolean or a number; nil for other expressions.
func constantOf(e ast.Expr) any {
	switch v := literalOf(e).(type) {
	case string, bool, int64, float64:
		return v
	}
	return nil
}

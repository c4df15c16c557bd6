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
			if wants.isLimited && len(wants.values) == 0 && !wants.absent {
				return i, fmt.Sprintf("never true together with %s, because of %s", c.conditions[before.condition].name, celPath(at))
			}
			required[at] = wants
		}
	}
	return -1, ""
}

func (d demand) and(o demand) demand {
	out := demand{isLimited: d.isLimited || o.isLimited, absent: d.absent && o.absent, values: d.values, condition: o.condition}
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
		case name == "!_" && call.Args()[0].Kind() == ast.SelectKind && call.Args()[0].AsSelect().IsTestOnly():
			at, _ := demandOf(call.Args()[0])
			return at, demand{isLimited: true, absent: true}
		case name == "_==_":
			return equality(call)
		case name == "@in" && call.Args()[1].Kind() == ast.ListKind:
			return oneConstant(call.Args()[0], call.Args()[1].AsList().Elements()...)
		}
	}
	return "", demand{}
}

// equality returns the selection that is compared with a constant, and the constant.
func equality(call ast.CallExpr) (string, demand) {
	if literalOf(call.Args()[0]) != nil {
		return oneConstant(call.Args()[1], call.Args()[0])
	}
	return oneConstant(call.Args()[0], call.Args()[1])
}

// oneConstant returns the selection of e, which must be one of the constants.
func oneConstant(e ast.Expr, constants ...ast.Expr) (string, demand) {
	out := demand{isLimited: true}
	for _, constant := range constants {
		v := literalOf(constant)
		if v == nil {
			return "", demand{}
		}
		out.values = append(out.values, v)
	}
	if e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && e.AsCall().FunctionName() == "orValue" {
		fallback := literalOf(e.AsCall().Args()[0])
		out.absent = fallback == nil || slices.ContainsFunc(out.values, func(v any) bool { return equalJSON(v, fallback) })
		e = e.AsCall().Target()
	}
	return strings.Join(plainSelection(e), pathSeparator), out
}

// plainSelection is selectionOf for expressions that are the value of the field itself.
func plainSelection(e ast.Expr) []string {
	for at := e; at.Kind() == ast.CallKind && at.AsCall().IsMemberFunction(); at = at.AsCall().Target() {
		if at.AsCall().FunctionName() != "value" {
			return nil
		}
	}
	return selectionOf(e)
}

package condition

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"

	"github.com/virtwright/virtwright/presets/tree"
)

// A demand is what conditions require of one field: one of a few values, or that it is absent.
type demand struct {
	values    []any // allowed; used if isLimited is true
	isLimited bool
	absent    bool // may be absent
	condition int
}

// A demandStep is what a part of a condition adds to the demands of the parts before it.
type demandStep struct {
	field     string // a selection
	condition int
	// before is the demand of the parts before; isFirst says that there are none.
	before  demand
	isFirst bool
	now     demand
}

// demandSteps yields the parts of conditions that compare fields with constants.
func (s Set) demandSteps(yield func(demandStep) bool) {
	required := demands{}
	for i, condition := range s.Conditions {
		for _, part := range joinedBy("_&&_", condition.syntax) {
			at, wants := demandOf(part)
			if at == "" {
				continue
			}
			wants.condition = i
			before, isSecond := required[at]
			if !yield(demandStep{at, i, before, !isSecond, required.add(at, wants)}) {
				return
			}
		}
	}
}

// demands are those of several expressions that must hold together, by selection.
type demands map[string]demand

// add adds a demand of a field, and returns all demands of that field together.
func (d demands) add(at string, wants demand) demand {
	if before, isSecond := d[at]; isSecond {
		wants = before.and(wants)
	}
	d[at] = wants
	return wants
}

// Contradiction returns the index of the first condition that excludes the values that conditions
// before it, or its own other parts, require of a field, and says why; -1 if there is none. It
// compares fields with constants only.
func (s Set) Contradiction() (index int, why string) {
	for step := range s.demandSteps {
		switch {
		case !step.now.isImpossible():
		case !step.isFirst && step.before.condition != step.condition:
			return step.condition, fmt.Sprintf("never true together with %s, because of %s", s.Conditions[step.before.condition].Name, celPath(step.field))
		default:
			return step.condition, "never true, because of " + celPath(step.field)
		}
	}
	return s.emptyRange()
}

// A span holds the whole numbers that comparisons with constants admit.
type span struct{ least, most int64 }

// emptyRange returns the index of the first condition after which no number is left for a field,
// and says why; -1 if there is none.
func (s Set) emptyRange() (index int, why string) {
	spans := map[string]span{} // by selection and fallback
	for i, condition := range s.Conditions {
		for _, part := range joinedBy("_&&_", condition.syntax) {
			at, now := spanOf(part)
			if at == nil {
				continue
			}
			key := fmt.Sprint(at)
			if before, isSecond := spans[key]; isSecond {
				now = span{max(before.least, now.least), min(before.most, now.most)}
			}
			if spans[key] = now; now.least > now.most {
				return i, "never true: no number meets all comparisons of " + celPath(strings.Join(at[1:], pathSeparator))
			}
		}
	}
	return -1, ""
}

// spanOf returns the fallback and the selection that a comparison with a whole number reads, and
// the numbers that it admits; nil for other expressions.
func spanOf(e ast.Expr) ([]string, span) {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil, span{}
	}
	value := e.AsCall().Args()[0]
	path := plainOrFallback(value)
	limit, isNumber := constantOf(e.AsCall().Args()[1]).(int64)
	if !isNumber || len(path) < 2 || limit == math.MinInt64 || limit == math.MaxInt64 {
		return nil, span{}
	}
	fallback := ""
	if constant, ok := fallbackOf(value); ok {
		if constant == nil {
			return nil, span{}
		}
		fallback = fmt.Sprint(constant)
	}
	return append([]string{fallback}, path...), admitted(e.AsCall().FunctionName(), limit)
}

// admitted returns the numbers that a comparison with a limit admits; all for other operators.
func admitted(operator string, limit int64) span {
	out := span{math.MinInt64, math.MaxInt64}
	switch operator {
	case "_<_":
		out.most = limit - 1
	case "_<=_":
		out.most = limit
	case "_>_":
		out.least = limit + 1
	case "_>=_":
		out.least = limit
	}
	return out
}

// isImpossible reports whether no value meets the demand, and the field must not be absent.
func (d demand) isImpossible() bool { return d.isLimited && len(d.values) == 0 && !d.absent }

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
func (s Set) Demands() []Demand {
	var out []Demand
	at := map[string]int{} // positions in out
	for step := range s.demandSteps {
		if step.isFirst {
			at[step.field] = len(out)
			out = append(out, Demand{Path: strings.Split(step.field, pathSeparator)})
		}
		d := &out[at[step.field]]
		d.Values, d.MayBeAbsent, d.Condition = step.now.values, step.now.absent, step.now.condition
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
			return !slices.ContainsFunc(o.values, func(w any) bool { return tree.Equal(v, w) })
		})
	case o.isLimited:
		out.values = o.values
	}
	return out
}

// TrueCondition returns the index of a condition such as x != 'a' || x != 'b', which is true for
// every VM; -1 if there is none.
func (s Set) TrueCondition() int {
	return slices.IndexFunc(s.Conditions, func(condition Expression) bool {
		excluded := demands{}
		for _, part := range joinedBy("_||_", condition.syntax) {
			if part.Kind() != ast.CallKind || part.AsCall().FunctionName() != "_!=_" {
				continue
			}
			if at, wants := equality(part.AsCall()); at != "" && excluded.add(at, wants).isImpossible() {
				return true
			}
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
	out.absent = slices.ContainsFunc(out.values, func(v any) bool { return fallsBackTo(e, v) })
	return strings.Join(plainOrFallback(e), pathSeparator), out
}

// plainSelection is selectionOf for expressions that are the value of the field itself: without
// functions on the way, but orValue({}).
func plainSelection(e ast.Expr) []string {
	return selectionThrough(e, func(call ast.CallExpr) bool {
		name := call.FunctionName()
		return name == "value" || name == "orValue" && isEmptyMap(call.Args()[0])
	})
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

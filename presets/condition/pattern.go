package condition

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// anyText stands for the part of a pattern that differs between VMs.
const anyText = "*"

// Pattern returns the literal texts that the expression joins, with * for its other parts.
func (x Expression) Pattern() string { return patternOf(x.syntax) }

// patternOf returns the literal texts that an expression joins, with * for its other parts.
func patternOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.LiteralKind:
		if text, ok := e.AsLiteral().Value().(string); ok {
			return text
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Add && len(call.Args()) == 2 {
			return strings.ReplaceAll(patternOf(call.Args()[0])+patternOf(call.Args()[1]), anyText+anyText, anyText)
		}
	}
	return anyText
}

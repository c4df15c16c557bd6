package condition

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// MistakenComparisons reports comparisons of conditions and computed values that have the same
// result for every VM, or hardly the one that was meant: a number or a boolean with a text, the
// order of quantities as texts, and names that no object can have.
func (s Set) MistakenComparisons() field.ErrorList {
	var errs field.ErrorList
	for i, condition := range s.Conditions {
		if neverTrueOrFalse(condition.syntax) {
			errs = append(errs, field.Invalid(conditionPath(i), condition.Text, "a condition must be true or false; compare the value with another"))
		}
	}
	for _, x := range s.expressions() {
		ast.PostOrderVisit(x.syntax, ast.NewExprVisitor(func(e ast.Expr) {
			isOfVariable := x.origins[e.ID()] != nil // which is reported
			if isOfVariable || e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 || e.AsCall().IsMemberFunction() {
				return
			}
			call := e.AsCall()
			why := mistaken(call.FunctionName(), call.Args()[0], call.Args()[1])
			if why == "" {
				why = mistaken(call.FunctionName(), call.Args()[1], call.Args()[0])
			}
			if why != "" {
				errs = append(errs, field.Invalid(x.at, x.Text, why))
			}
		}))
	}
	return errs
}

// neverTrueOrFalse reports whether the value of an expression for absent fields is no boolean.
func neverTrueOrFalse(e ast.Expr) bool {
	fallback, _ := fallbackOf(e)
	_, isBool := fallback.(bool)
	return fallback != nil && !isBool
}

// mistaken says why the comparison of a field with a constant is wrong; empty if it is not.
func mistaken(operator string, e, with ast.Expr) string {
	isText := isCall(e, "string")
	if isText {
		e = e.AsCall().Args()[0]
	}
	path, constant := plainOrFallback(e), constantOf(with)
	var s *vmschema.Schema
	if len(path) > 1 {
		s = schemaOfSelection(strings.Join(path, pathSeparator))
	}
	switch operator {
	case "_==_", "_!=_":
		if constant == nil || len(path) < 2 || isText || fallsBackTo(e, constant) {
			return ""
		}
		return neverEqual(path, s, constant)
	case "_<_", "_<=_", "_>_", "_>=_":
		return orderOfTexts(s, constant)
	}
	return ""
}

// orderOfTexts says why the order of a quantity and a text is wrong.
func orderOfTexts(s *vmschema.Schema, constant any) string {
	text, isString := constant.(string)
	isOfQuantity := s != nil && s.Shape == vmschema.Quantity
	if !isString || text == "" || !isOfQuantity && !hasUnit(text) {
		return ""
	}
	return fmt.Sprintf("compares quantities as texts, so that 128Gi is less than 64Gi; write quantity(…).compareTo(quantity(%q)) instead", text)
}

// hasUnit reports whether a text is a quantity such as 8Gi or 500m.
func hasUnit(text string) bool {
	_, err := tree.ParseQuantity(text)
	return err == nil && unicode.IsLetter(rune(text[len(text)-1]))
}

// neverEqual says why a field, of an object or with a schema, never equals a constant.
func neverEqual(path []string, s *vmschema.Schema, constant any) string {
	shown := celPath(strings.Join(path, pathSeparator))
	text, isString := constant.(string)
	switch {
	case isString && text != "" && isNameOfObject(path) && len(validation.IsDNS1123Subdomain(text)) > 0:
		return fmt.Sprintf("%s is never %q: names have lower-case letters, digits, '-' and '.'", shown, text)
	case s != nil && isOtherType(s.Shape, constant):
		return fmt.Sprintf("%s is %s, and never equals %s", shown, s.Shape, tree.Show(constant))
	}
	return ""
}

func isCall(e ast.Expr, function string) bool {
	return e.Kind() == ast.CallKind && !e.AsCall().IsMemberFunction() && e.AsCall().FunctionName() == function
}

// plainOrFallback is the selection of a field itself, or of a field with orValue.
func plainOrFallback(e ast.Expr) []string {
	if _, ok := fallbackOf(e); ok {
		e = e.AsCall().Target()
	}
	return plainSelection(e)
}

// fallbackOf returns the constant of a call of orValue, nil if it is none, and whether e is one.
func fallbackOf(e ast.Expr) (constant any, ok bool) {
	if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() || e.AsCall().FunctionName() != "orValue" {
		return nil, false
	}
	return constantOf(e.AsCall().Args()[0]), true
}

// fallsBackTo reports whether an absent field may have the value of a constant.
func fallsBackTo(e ast.Expr, constant any) bool {
	fallback, ok := fallbackOf(e)
	return ok && (fallback == nil || tree.Equal(fallback, constant))
}

// isNameOfObject reports whether a selection is the name of a namespace, or of the VM's.
func isNameOfObject(path []string) bool {
	return slices.Contains([]string{
		"namespaceObject.metadata.name", "object.metadata.namespace", "object.metadata.name",
		"namespaceObject.metadata.labels.kubernetes.io/metadata.name",
	}, strings.Join(path, "."))
}

// isOtherType reports whether a constant has another type than fields of a shape.
func isOtherType(s vmschema.Shape, constant any) bool {
	_, isString := constant.(string)
	_, isBool := constant.(bool)
	switch s {
	case vmschema.Bool:
		return !isBool
	case vmschema.Integer, vmschema.Number:
		return isString || isBool
	case vmschema.String:
		return !isString
	}
	return false
}

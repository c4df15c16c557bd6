package presets

import (
	"slices"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// expression returns the expression of a computed value.
func (c *fieldCompiler) expression(value any, p provenance.Path) (string, bool) {
	fields, _ := value.(map[string]any)
	if _, ok := fields[ComputedKey]; !ok {
		return "", false
	}
	text, ok := fields[ComputedKey].(string)
	switch {
	case !ok:
		c.wrongType(p.With(provenance.Segment{Name: ComputedKey}), fields[ComputedKey], "a CEL expression")
	case len(fields) > 1:
		c.fail(p, ComputedKey, "%s must be the only key of a computed value", ComputedKey)
	}
	return text, true
}

var celTypes = map[shape][]*cel.Type{
	shapeString: {cel.StringType}, shapeBool: {cel.BoolType}, shapeInteger: {cel.IntType}, shapeNumber: {cel.DoubleType, cel.IntType},
	shapeQuantity: {cel.StringType, cel.IntType, cel.DoubleType}, shapeIntOrString: {cel.IntType, cel.StringType},
}

// compute compiles a computed value.
func (c *fieldCompiler) compute(out *fieldNode, text string, p provenance.Path) *fieldNode {
	types := celTypes[out.schema.shape]
	switch c.expressions++; {
	case types == nil || c.atomic:
		c.fail(p, ComputedKey, "%s computes single values, which are not in a list without keys; here, write the value itself", ComputedKey)
		return nil
	case c.expressions > MaxComputed:
		c.errs = append(c.errs, field.TooMany(c.root.Child(p.String()), c.expressions, MaxComputed))
		return nil
	}
	x, err := compileExpression(text, "must be "+wanted[out.schema.shape], types...)
	if err != nil {
		c.fail(p, text, "%s", err)
		return nil
	}
	x.name = "the expression"
	out.computed = &computed{x, out.schema.shape}
	out.leaf, out.value = true, out.computed
	return out
}

func hasComputedKey(keys []listKey, element map[string]any) bool {
	return slices.ContainsFunc(keys, func(k listKey) bool {
		v, _ := lookupDotted(element, k.field)
		fields, _ := v.(map[string]any)
		return fields[ComputedKey] != nil
	})
}

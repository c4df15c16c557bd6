package vmschema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/tree"
)

// HugeQuantities returns a problem for each quantity in v that is huge. The field of v is at.
func (s *Schema) HugeQuantities(v any, at string) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	switch v := v.(type) {
	case string:
		if s.Shape == Quantity && tree.HugeQuantity(v) {
			errs = append(errs, tree.HugeProblem(field.NewPath(at), v))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			errs = append(errs, s.Field(name).HugeQuantities(v[name], strings.TrimPrefix(at+"."+name, "."))...)
		}
	case []any:
		for i := range v {
			errs = append(errs, s.Elem.HugeQuantities(v[i], at+"["+strconv.Itoa(i)+"]")...)
		}
	}
	return errs
}

// Canonical returns a copy of v in which equal quantities are written alike.
func (s *Schema) Canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = s.Field(name).Canonical(e)
		}
		return out
	case []any:
		out, elem := make([]any, len(v)), anything
		if s.Elem != nil {
			elem = s.Elem
		}
		for i, e := range v {
			out[i] = elem.Canonical(e)
		}
		return out
	}
	if q, err := tree.ParseQuantity(v); s.Shape == Quantity && err == nil {
		var out resource.Quantity
		out.Add(q) // forgets how q was written
		out.Format = resource.DecimalSI
		return out.String()
	}
	return v
}

// noteQuantities records for each object which of its fields contain quantities, and reports
// whether s contains one.
func (s *Schema) noteQuantities() bool {
	switch s.Shape {
	case Quantity:
		return true
	case Object:
		if s.Quantities == nil {
			s.Quantities = []string{} // a type may contain itself
			for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
				if s.Fields[name].noteQuantities() {
					s.Quantities = append(s.Quantities, name)
				}
			}
		}
		return len(s.Quantities) > 0
	}
	return s.Elem != nil && s.Elem.noteQuantities()
}

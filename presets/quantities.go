package presets

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/tree"
)

// SafeQuantities returns JSON with quantities that can be parsed in reasonable time: usually raw
// itself. The error is a *Rejection or a *Malformed.
func SafeQuantities(kind Kind, raw []byte) ([]byte, error) {
	if !tree.MayHaveHugeQuantity(raw) {
		return raw, nil
	}
	r, err := load(kind, raw)
	if err != nil {
		return nil, err
	}
	// Decoding has shortened numbers. Only metadata and spec of a VMI were checked.
	safe := r.unwrap()
	if r.sentVMI != nil {
		delete(safe, "status")
	}
	return json.Marshal(safe)
}

func hugeQuantities(v any, s *schema, at string) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	switch v := v.(type) {
	case string:
		if s.shape == shapeQuantity && tree.HugeQuantity(v) {
			errs = append(errs, tree.HugeProblem(field.NewPath(at), v))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			errs = append(errs, hugeQuantities(v[name], s.field(name), strings.TrimPrefix(at+"."+name, "."))...)
		}
	case []any:
		for i := range v {
			errs = append(errs, hugeQuantities(v[i], s.elem, at+"["+strconv.Itoa(i)+"]")...)
		}
	}
	return errs
}

// decimalsToStrings replaces decimal numbers among the quantities in v with strings, and returns
// the operations: KubeVirt accepts any number, but the schema of an API server only whole ones.
func decimalsToStrings(v any, s *schema) []jsonpatch.Operation {
	var w patchWriter
	w.decimals(v, s)
	return w.ops
}

func (r *mergeState) withDecimalOps(patch []jsonpatch.Operation) []jsonpatch.Operation {
	if len(r.decimalOps) == 0 {
		return patch
	}
	return slices.Concat(r.decimalOps, patch)
}

func (w *patchWriter) decimals(v any, s *schema) {
	switch v := v.(type) {
	case map[string]any:
		if s.shape == shapeMap {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				w.decimalField(v, name, s.elem)
			}
			return
		}
		for _, name := range s.quantities {
			w.decimalField(v, name, s.fields[name])
		}
	case []any:
		if s.elem == nil {
			return // wrong type
		}
		for i, e := range v {
			w.in(strconv.Itoa(i), func() { w.decimals(e, s.elem) })
		}
	}
}

// decimalField is decimals for one field of an object; the field has schema s.
func (w *patchWriter) decimalField(object map[string]any, name string, s *schema) {
	v := object[name]
	if v == nil || s == nil {
		return
	}
	w.in(name, func() {
		if s.shape != shapeQuantity {
			w.decimals(v, s)
		} else if number, ok := v.(float64); ok {
			if q, err := tree.ParseQuantity(number); err == nil {
				object[name] = q.String()
				w.write("replace", q.String())
			}
		}
	})
}

// noteQuantities records for each object which of its fields contain quantities, and reports
// whether s contains one.
func (s *schema) noteQuantities() bool {
	switch s.shape {
	case shapeQuantity:
		return true
	case shapeObject:
		if s.quantities == nil {
			s.quantities = []string{} // a type may contain itself
			for _, name := range slices.Sorted(maps.Keys(s.fields)) {
				if s.fields[name].noteQuantities() {
					s.quantities = append(s.quantities, name)
				}
			}
		}
		return len(s.quantities) > 0
	}
	return s.elem != nil && s.elem.noteQuantities()
}

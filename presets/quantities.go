package presets

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
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

// decimalsToStrings replaces decimal numbers among the quantities in v with strings, and returns
// the operations: KubeVirt accepts any number, but the schema of an API server only whole ones.
func decimalsToStrings(v any, s *vmschema.Schema) []jsonpatch.Operation {
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

func (w *patchWriter) decimals(v any, s *vmschema.Schema) {
	switch v := v.(type) {
	case map[string]any:
		if s.Shape == vmschema.Map {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				w.decimalField(v, name, s.Elem)
			}
			return
		}
		for _, name := range s.Quantities {
			w.decimalField(v, name, s.Fields[name])
		}
	case []any:
		if s.Elem == nil {
			return // wrong type
		}
		for i, e := range v {
			w.in(strconv.Itoa(i), func() { w.decimals(e, s.Elem) })
		}
	}
}

// decimalField is decimals for one field of an object; the field has schema s.
func (w *patchWriter) decimalField(object map[string]any, name string, s *vmschema.Schema) {
	v := object[name]
	if v == nil || s == nil {
		return
	}
	w.in(name, func() {
		if s.Shape != vmschema.Quantity {
			w.decimals(v, s)
		} else if number, ok := v.(float64); ok {
			if q, err := tree.ParseQuantity(number); err == nil {
				object[name] = q.String()
				w.write("replace", q.String())
			}
		}
	})
}

package presets

import (
	"maps"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// decimals replaces numbers with a fraction or an exponent among the quantities
// in v, which has schema s, with strings. KubeVirt reads any JSON number as a
// quantity, and the schema of an API server allows only whole ones. The
// operations do the same to the JSON that v lies in, at a pointer.
func decimals(v any, s *schema, at string) []jsonpatch.Operation {
	d := decimalFinder{at: []byte(at)}
	d.find(v, s)
	return d.ops
}

// decimals replaces those of w, once it is loaded.
func (w *resolution) decimals() {
	if w.instance == nil {
		w.decimalOps = decimals(w.root, vmSchema(), "")
		return
	}
	w.decimalOps = decimals(lookup(w.root, vmSchema(), template), vmSchema().at(template), "")
}

// afterDecimals is the patch of an object whose decimals are replaced already.
func (w *resolution) afterDecimals(patch []jsonpatch.Operation) []jsonpatch.Operation {
	if len(w.decimalOps) == 0 {
		return patch
	}
	return slices.Concat(w.decimalOps, patch)
}

type decimalFinder struct {
	ops []jsonpatch.Operation
	// at is the JSON pointer of the current value.
	at []byte
}

func (d *decimalFinder) find(v any, s *schema) {
	switch v := v.(type) {
	case map[string]any:
		if s.shape == shapeMap {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				d.member(v, name, s.elem)
			}
			return
		}
		for _, name := range s.quantities {
			d.member(v, name, s.fields[name])
		}
	case []any:
		if s.elem == nil {
			return // of the wrong type
		}
		length := len(d.at)
		for i, e := range v {
			d.at = strconv.AppendInt(append(d.at, '/'), int64(i), 10)
			d.find(e, s.elem)
			d.at = d.at[:length]
		}
	}
}

// member looks at one member of an object, which has schema s.
func (d *decimalFinder) member(of map[string]any, name string, s *schema) {
	v := of[name]
	if v == nil || s == nil {
		return
	}
	length := len(d.at)
	d.at = append(append(d.at, '/'), pointerEscaper.Replace(name)...)
	if s.shape != shapeQuantity {
		d.find(v, s)
	} else if number, ok := v.(float64); ok {
		if q, err := parseQuantity(number); err == nil {
			of[name] = q.String()
			d.ops = append(d.ops, jsonpatch.Operation{Operation: "replace", Path: string(d.at), Value: q.String()})
		}
	}
	d.at = d.at[:length]
}

// parseDecimal reads a number as the quantity that its shortest text is.
func parseDecimal(number float64) (resource.Quantity, error) {
	text := strconv.FormatFloat(number, 'f', -1, 64)
	if len(text) > maxQuantityBytes {
		text = strconv.FormatFloat(number, 'e', -1, 64)
	}
	return resource.ParseQuantity(text)
}

// noteQuantities notes for each object which of its fields have quantities in
// them, and reports whether there is one beneath s.
func (s *schema) noteQuantities() bool {
	switch s.shape {
	case shapeQuantity:
		return true
	case shapeObject:
		if s.quantities == nil {
			s.quantities = []string{} // a type may lie within itself
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

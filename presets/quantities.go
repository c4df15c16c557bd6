package presets

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// These limits exist because parsing 1e-99999999 takes hours.
	maxQuantityBytes  = 64
	maxExponentDigits = 3
)

var errHugeQuantity = errors.New("too many digits")

func hugeQuantity(text string) bool {
	i := strings.IndexAny(text, "eE")
	return len(text) > maxQuantityBytes || i >= 0 && len(text)-i-1 > maxExponentDigits+1 && strings.Trim(text[i+1:], "+-0123456789") == ""
}

// suspicious reports whether JSON has anything that looks like a huge quantity.
func suspicious(raw []byte) bool {
	digits, inExponent := 0, false
	for _, c := range raw {
		switch c {
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			digits++
			if digits > maxQuantityBytes/2 || inExponent && digits > maxExponentDigits {
				return true
			}
		case '.':
			inExponent = false
		case 'e', 'E':
			digits, inExponent = 0, digits > 0
		case '+', '-':
			digits, inExponent = 0, inExponent && digits == 0
		default:
			digits, inExponent = 0, false
		}
	}
	return false
}

// SafeQuantities returns JSON with quantities that can be parsed in reasonable time: usually raw
// itself. The error is a *Rejection or a *Malformed.
func SafeQuantities(kind Kind, raw []byte) ([]byte, error) {
	if !suspicious(raw) {
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

func hugeProblem(at *field.Path, text string) *field.Error {
	return field.Invalid(at, show(text), fmt.Sprintf(
		"must be a quantity such as 2Gi or 500m, of at most %d characters and with an exponent of at most %d digits", maxQuantityBytes, maxExponentDigits))
}

func hugeQuantities(v any, s *schema, at string) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	switch v := v.(type) {
	case string:
		if s.shape == shapeQuantity && hugeQuantity(v) {
			errs = append(errs, hugeProblem(field.NewPath(at), v))
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
			if q, err := parseQuantity(number); err == nil {
				object[name] = q.String()
				w.write("replace", q.String())
			}
		}
	})
}

// parseDecimal parses the shortest text of a number as a quantity.
func parseDecimal(number float64) (resource.Quantity, error) {
	text := strconv.FormatFloat(number, 'f', -1, 64)
	if len(text) > maxQuantityBytes {
		text = strconv.FormatFloat(number, 'e', -1, 64)
	}
	return resource.ParseQuantity(text)
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

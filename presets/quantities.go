package presets

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxQuantityBytes is how long a quantity may be.
	maxQuantityBytes = 64
	// maxExponentDigits is how long its exponent may be. What a quantity means
	// is worked out digit by digit, which for 1e-99999999 takes hours.
	maxExponentDigits = 3
)

var errHugeQuantity = errors.New("it has too many digits")

// hugeQuantity reports whether the text of a quantity is longer than any
// quantity needs to be.
func hugeQuantity(text string) bool {
	if len(text) > maxQuantityBytes {
		return true
	}
	for i := range len(text) {
		if text[i] == 'e' || text[i] == 'E' {
			return len(text)-i-1 > maxExponentDigits+1
		}
	}
	return false
}

// suspicious reports whether JSON has anything that looks like a huge quantity.
func suspicious(raw []byte) bool {
	digits, exponent := 0, false
	for _, c := range raw {
		switch {
		case '0' <= c && c <= '9':
			if digits++; digits > maxQuantityBytes/2 || exponent && digits > maxExponentDigits {
				return true
			}
		case (c == 'e' || c == 'E') && digits > 0:
			digits, exponent = 0, true
		case c == '.':
			exponent = false
			digits++
		case (c == '+' || c == '-') && exponent && digits == 0:
		default:
			digits, exponent = 0, false
		}
	}
	return false
}

// SafeQuantities returns JSON of an object whose quantities can be read in
// reasonable time: raw itself, almost always. The error is a *Refusal that
// names the quantities with too many digits, or a *Malformed.
func SafeQuantities(kind Kind, raw []byte) ([]byte, error) {
	if !suspicious(raw) {
		return raw, nil
	}
	w, err := load(kind, raw)
	if err != nil {
		return nil, err
	}
	// Numbers have lost their digits by now. Of an instance only metadata and
	// spec were looked at.
	safe := w.unwrap()
	if w.instance != nil {
		delete(safe, "status")
	}
	return json.Marshal(safe)
}

// hugeQuantities finds the quantities in v that have too many digits.
func hugeQuantities(v any, s *schema, at string) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	switch v := v.(type) {
	case string:
		if s.shape == shapeQuantity && hugeQuantity(v) {
			errs = append(errs, field.Invalid(field.NewPath(at), show(v), fmt.Sprintf(
				"must be a quantity such as 2Gi or 500m, of at most %d characters and with an exponent of at most %d digits", maxQuantityBytes, maxExponentDigits)))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			errs = append(errs, hugeQuantities(v[name], s.field(name), joined(at, name))...)
		}
	case []any:
		for i := range v {
			errs = append(errs, hugeQuantities(v[i], s.elem, at+"["+strconv.Itoa(i)+"]")...)
		}
	}
	return errs
}

func joined(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

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

// Classes of bytes in a quantity.
const (
	other byte = iota
	digit
	dot
	exponent
	sign
)

var classes = func() (classes [256]byte) {
	for c := byte('0'); c <= '9'; c++ {
		classes[c] = digit
	}
	classes['.'], classes['e'], classes['E'], classes['+'], classes['-'] = dot, exponent, exponent, sign, sign
	return classes
}()

// suspicious reports whether JSON has anything that looks like a huge quantity.
func suspicious(raw []byte) bool {
	var seen figures
	for _, c := range raw {
		class := classes[c]
		if class == other {
			seen = figures{}
		} else if seen.add(class) {
			return true
		}
	}
	return false
}

// figures are the digits of what may be a quantity, up to some byte.
type figures struct {
	count      int
	inExponent bool
}

// add reports whether there are too many now.
func (f *figures) add(class byte) bool {
	switch {
	case class == digit:
		f.count++
		return f.count > maxQuantityBytes/2 || f.inExponent && f.count > maxExponentDigits
	case class == dot:
		f.inExponent = false
	case class == exponent && f.count > 0:
		*f = figures{inExponent: true}
	case class == exponent, !f.inExponent, f.count > 0:
		*f = figures{}
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

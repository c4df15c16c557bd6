package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// These limits exist because parsing 1e-99999999 takes hours.
	maxQuantityBytes  = 64
	maxExponentDigits = 3
)

var errHugeQuantity = errors.New("too many digits")

// HugeQuantity reports whether the text of a quantity is longer than it needs to be. Parsing it
// could take hours.
func HugeQuantity(text string) bool {
	text = strings.TrimSpace(text) // as quantities are parsed
	i := strings.IndexAny(text, "eE")
	return len(text) > maxQuantityBytes || i >= 0 && len(text)-i-1 > maxExponentDigits+1 && strings.Trim(text[i+1:], "+-0123456789") == ""
}

// MayHaveHugeQuantity reports whether JSON has anything that looks like a huge quantity. Hashes and
// UUIDs such as 67e83516-… do not.
func MayHaveHugeQuantity(raw []byte) bool {
	start := 0
	for i, c := range raw {
		if !separates[c] {
			continue
		}
		if i-start > maxExponentDigits && looksHuge(raw[start:i]) {
			return true
		}
		start = i + 1
	}
	return looksHuge(raw[start:])
}

// separates are the bytes between the parts of JSON. A table is much faster than a switch.
var separates = func() (out [256]bool) {
	for _, c := range "\",:[]{} \n\t\r" {
		out[c] = true
	}
	return out
}()

// looksHuge reports whether a part of JSON without quotes, spaces and structure may be a huge
// quantity.
func looksHuge(part []byte) bool {
	isWord := len(part) > 0 && part[0] > '9' && part[0] != '\\' && part[0] < utf8.RuneSelf // no space
	if len(part) <= maxExponentDigits || isWord {
		return false
	}
	text := strings.TrimSuffix(string(part), `\`) // of an escaped quote
	if strings.Contains(text, `\`) {              // such as an escaped digit or space
		if json.Unmarshal([]byte(`"`+text+`"`), &text) != nil {
			return true
		}
	}
	text = strings.TrimSpace(text)
	number := strings.Trim(text[:min(len(text), maxQuantityBytes/2)], "+-.0123456789eE") == ""
	return number && HugeQuantity(text)
}

// HugeProblem is the problem of a HugeQuantity.
func HugeProblem(at *field.Path, text string) *field.Error {
	return field.Invalid(at, Show(text), fmt.Sprintf(
		"must be a quantity such as 2Gi or 500m, of at most %d characters and with an exponent of at most %d digits", maxQuantityBytes, maxExponentDigits))
}

// parseDecimal parses the shortest text of a number as a quantity.
func parseDecimal(number float64) (resource.Quantity, error) {
	text := strconv.FormatFloat(number, 'f', -1, 64)
	if len(text) > maxQuantityBytes {
		text = strconv.FormatFloat(number, 'e', -1, 64)
	}
	return resource.ParseQuantity(text)
}

// ParseQuantity parses a string or a number. The error says that it is no quantity, or huge.
func ParseQuantity(v any) (resource.Quantity, error) {
	switch v := v.(type) {
	case string:
		if HugeQuantity(v) {
			return resource.Quantity{}, errHugeQuantity
		}
		return resource.ParseQuantity(v)
	case int64:
		return *resource.NewQuantity(v, resource.DecimalSI), nil
	case float64:
		return parseDecimal(v)
	}
	return resource.Quantity{}, fmt.Errorf("cannot read %T as a quantity", v)
}

// SameQuantity reports whether two values are equal quantities, as 4Gi and 4096Mi are.
func SameQuantity(a, b any) bool {
	x, err := ParseQuantity(a)
	y, wrong := ParseQuantity(b)
	return err == nil && wrong == nil && x.Cmp(y) == 0
}

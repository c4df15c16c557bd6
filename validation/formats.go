package validation

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pciAddressForm is a PCI address: x is a hexadecimal digit, f one below 8.
const pciAddressForm = "xxxx:xx:xx.f"

// pciAddressDetail describes the format that isPCIAddress requires.
const pciAddressDetail = "must be a PCI address such as 0000:05:00.0: domain, bus, slot and function in hexadecimal"

// isPCIAddress reports whether text has the form dddd:bb:ss.f.
func isPCIAddress(text string) bool {
	if len(text) != len(pciAddressForm) {
		return false
	}
	for i, want := range []byte(pciAddressForm) {
		c := text[i]
		switch want {
		case 'x':
			if !isHex(c) {
				return false
			}
		case 'f':
			if c < '0' || c > '7' {
				return false
			}
		default:
			if c != want {
				return false
			}
		}
	}
	return true
}

// macForms are the formats of MAC addresses; x is a hexadecimal digit.
var macForms = []string{"xx:xx:xx:xx:xx:xx", "xx-xx-xx-xx-xx-xx", "xxxx.xxxx.xxxx"}

// parseMAC converts a MAC address in any of macForms to 12 lower-case digits.
func parseMAC(text string) (string, bool) {
	for _, form := range macForms {
		if len(text) != len(form) || text[strings.IndexAny(form, ":-.")] != form[strings.IndexAny(form, ":-.")] {
			continue
		}
		return macDigits(text, form)
	}
	return "", false
}

func macDigits(text, form string) (string, bool) {
	digits := make([]byte, 0, 12)
	for i, want := range []byte(form) {
		switch c := text[i]; {
		case want != 'x' && c == want:
		case want == 'x' && isHex(c):
			if isUpper(c) {
				c += 'a' - 'A'
			}
			digits = append(digits, c)
		default:
			return "", false
		}
	}
	return string(digits), true
}

// isCleanPath reports whether text is an absolute file path without relative or empty parts. It may
// end with a slash.
func isCleanPath(text string) bool {
	text = strings.TrimSuffix(text, "/")
	return text != "" && text != "/" && text[0] == '/' && path.Clean(text) == text
}

// pathStrictness returns the strictness of a rule about a path. KubeVirt accepts the root as //.
func pathStrictness(text string) Strictness {
	if text == "//" {
		return StricterThanKubeVirt
	}
	return SameAsKubeVirt
}

// cleanPathDetail describes the format that isCleanPath requires.
const cleanPathDetail = "must be an absolute file path without '.', '..' or empty parts"

// isDNSLabel reports whether a name is an RFC 1123 label. Unlike validation.IsDNS1123Label it does
// not allocate.
func isDNSLabel(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if !isLower(c) && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}

// dnsLabelDetail describes the format that isDNSLabel requires.
const dnsLabelDetail = "must be lower-case letters, digits and '-', begin and end with a letter or digit, and have at most 63 characters"

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// A valueSet lists the supported values of a field, in the order of messages and docs.
type valueSet []string

// String returns the values as a phrase, such as "tablet, keyboard or mouse".
func (s valueSet) String() string {
	last := len(s) - 1
	if last < 1 {
		return strings.Join(s, "")
	}
	return strings.Join(s[:last], ", ") + " or " + s[last]
}

// check reports a value that is not supported.
func (s valueSet) check(r *Report, value string, at func() *field.Path) {
	if !slices.Contains(s, value) {
		err := field.NotSupported(at(), value, s)
		err.Detail += r.suggest(value, slices.Values(s))
		r.Add(err)
	}
}

// checkIfSet reports a value that is neither empty nor supported.
func (s valueSet) checkIfSet(r *Report, value string, at func() *field.Path) {
	if value != "" {
		s.check(r, value, at)
	}
}

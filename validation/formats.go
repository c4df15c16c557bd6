package validation

import (
	"path"
	"strings"
)

// pciAddressForm is a PCI address: x is a hexadecimal digit, f one below 8.
const pciAddressForm = "xxxx:xx:xx.f"

// pciAddressDetail says what isPCIAddress wants.
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

// macForms are how a MAC address may be written; x is a hexadecimal digit.
var macForms = []string{"xx:xx:xx:xx:xx:xx", "xx-xx-xx-xx-xx-xx", "xxxx.xxxx.xxxx"}

// parseMAC reads a MAC address of 6 bytes in any of macForms as 12 lower-case
// digits, so that equal addresses are equal.
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

// isCleanPath reports whether text is the absolute path of a file without
// relative or empty parts; one slash may follow it.
func isCleanPath(text string) bool {
	text = strings.TrimSuffix(text, "/")
	return text != "" && text != "/" && text[0] == '/' && path.Clean(text) == text
}

// reachOfPath is that of a rule about a path. KubeVirt accepts the root as //.
func reachOfPath(text string) Reach {
	if text == "//" {
		return BeyondKubeVirt
	}
	return AsKubeVirt
}

// cleanPathDetail says what isCleanPath wants.
const cleanPathDetail = "must be the absolute path of a file, without '.', '..' or empty parts"

// isDNSLabel reports whether a name is an RFC 1123 label: lower-case letters,
// digits and inner dashes, at most 63 of them.
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

// dnsLabelDetail says what isDNSLabel wants.
const dnsLabelDetail = "must be lower-case letters, digits and '-', begin and end with a letter or digit, and have at most 63 characters"

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

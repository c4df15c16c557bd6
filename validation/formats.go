package validation

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	pciAddressForm    = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
	macForm           = regexp.MustCompile(`^([0-9a-f]{2}(:[0-9a-f]{2}){5}|[0-9a-f]{2}(-[0-9a-f]{2}){5}|[0-9a-f]{4}(\.[0-9a-f]{4}){2})$`)
	macSeparators     = strings.NewReplacer(":", "", "-", "", ".", "")
	diskSerialForm    = regexp.MustCompile(`^[a-zA-Z0-9_.+-]*$`)
	interfaceNameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	dnsLabelForm      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

const (
	pciAddressDetail = "must be a PCI address such as 0000:05:00.0: domain, bus, slot and function in hexadecimal"
	dnsLabelDetail   = "must be lower-case letters, digits and '-', begin and end with a letter or digit, and have at most 63 characters"
)

// parseMAC converts a MAC address to 12 lower-case digits.
func parseMAC(text string) (string, bool) {
	if text = strings.ToLower(text); !macForm.MatchString(text) {
		return "", false
	}
	return macSeparators.Replace(text), true
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

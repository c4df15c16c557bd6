package domain

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxFileName is the longest name that files of Linux have, in bytes.
	maxFileName = 255
	// shortDigest is how many bytes of a digest tell long names apart, and
	// maxEnding how long an ending is kept.
	shortDigest = 8
	maxEnding   = 16
)

// FileName is text as the name of a file: %2F stands for a slash, as in a URL,
// and likewise for backslashes, percent signs, spaces, what cannot be printed,
// and the first dot of a name that has nothing else. No two texts have the same
// name; one that is too long for a file ends in a digest of it. A name of
// Kubernetes stands for itself. Names of container images are folders so:
// quay.io/os/fedora:42 is quay.io%2Fos%2Ffedora:42.
func FileName(text string) string {
	var out strings.Builder
	dots := strings.Trim(text, ".") == ""
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		if kept(r) && (i > 0 || !dots) {
			out.WriteRune(r)
			continue
		}
		for _, b := range []byte(text[i : i+size]) {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	if out.Len() == 0 {
		return "%" // which nothing else is
	}
	return shortened(out.String())
}

// kept says whether a character stands for itself.
func kept(r rune) bool {
	return r != '/' && r != '\\' && r != '%' && r != utf8.RuneError && unicode.IsPrint(r) && !unicode.IsSpace(r)
}

// shortened is a name that files can have: a longer one loses its middle to a
// digest, behind a percent sign that nothing else has.
func shortened(name string) string {
	if len(name) <= maxFileName {
		return name
	}
	ending := path.Ext(name)
	if len(ending) > maxEnding {
		ending = ""
	}
	sum := sha256.Sum256([]byte(name))
	tail := fmt.Sprintf("%%-%x%s", sum[:shortDigest], ending)
	return strings.ToValidUTF8(name[:maxFileName-len(tail)], "") + tail
}

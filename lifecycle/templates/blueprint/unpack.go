package blueprint

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// deepest is how often texts within texts are unpacked.
	deepest = 4
	// mostUnpacked is how much of what is compressed is read.
	mostUnpacked = 4 << 20
	// shortestRun is the least base64 of which anything could come.
	shortestRun = 12
	// mostCompressed is how many beginnings of gzip are tried in one text.
	mostCompressed = 8
)

const whiteSpace = " \t\r\n\v\f"

// squeezed is a text without white space.
func squeezed(text string) string {
	if !strings.ContainsAny(text, whiteSpace) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if strings.IndexByte(whiteSpace, text[i]) < 0 {
			out = append(out, text[i])
		}
	}
	return string(out)
}

// unpacked are the texts that a text carries; plain is the text without white
// space.
func unpacked(text, plain string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if strings.Contains(text, `\`) && !yield(unescaped(text)) {
			return
		}
		for run := range runs(plain) {
			for offset := range 4 { // what stands before may be of the same letters
				decoded := decoded(run[offset:])
				if !yield(decoded) {
					return
				}
				for inner := range decompressed(decoded) {
					if !yield(inner) {
						return
					}
				}
			}
		}
	}
}

// runs are the parts of a text that may be base64, in the standard alphabet.
func runs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for begin := 0; begin < len(text); {
			end := begin
			for end < len(text) && ofBase64(text[end]) {
				end++
			}
			if end-begin >= shortestRun && !yield(standard.Replace(text[begin:end])) {
				return
			}
			begin = end + 1
		}
	}
}

var standard = strings.NewReplacer("-", "+", "_", "/")

func ofBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_'
}

// decoded is as much of a run as is base64.
func decoded(run string) string {
	if len(run)%4 == 1 {
		run = run[:len(run)-1]
	}
	out, _ := base64.RawStdEncoding.DecodeString(run) // it is of the alphabet
	return string(out)
}

// decompressed are the texts that are compressed in one.
func decompressed(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range mostCompressed {
			begin := strings.Index(text, "\x1f\x8b\x08")
			if begin < 0 {
				return
			}
			if inner := inflated(text[begin:]); inner != "" && !yield(inner) {
				return
			}
			text = text[begin+1:]
		}
	}
}

// inflated is what gzip can read of a text, up to a bound; damage ends it.
func inflated(text string) string {
	reader, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		return ""
	}
	reader.Multistream(false) // anything may follow
	var out bytes.Buffer
	_, _ = io.Copy(&out, io.LimitReader(reader, mostUnpacked))
	return out.String()
}

// unescaped is a text without the escapes of JSON, and of YAML's quoted texts.
func unescaped(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, `\`)
		out.WriteString(before)
		if !found || rest == "" {
			return out.String()
		}
		r, length := escape(rest)
		out.WriteRune(r)
		text = rest[length:]
	}
}

var escapes = map[byte]rune{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', 'v': '\v', '0': 0, 'a': '\a', 'e': 0x1b}

// digits are how many of them follow in escapes of characters by number.
var digits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// escape is the character that what follows a backslash stands for, and how long
// that is. An escape that is none is the character itself.
func escape(text string) (rune, int) {
	if r, ok := escapes[text[0]]; ok {
		return r, 1
	}
	if n, ok := digits[text[0]]; ok {
		if r, ok := hexadecimal(text[1:], n); ok {
			return paired(r, text, n+1)
		}
	}
	return utf8.DecodeRuneInString(text)
}

// paired is the character that two escapes stand for, as JSON has those beyond
// 16 bits; that of the first, if no second one follows.
func paired(first rune, text string, length int) (rune, int) {
	if rest, ok := strings.CutPrefix(text[length:], `\u`); ok && utf16.IsSurrogate(first) {
		if second, ok := hexadecimal(rest, 4); ok && utf16.IsSurrogate(second) {
			return utf16.DecodeRune(first, second), length + len(`\u0000`)
		}
	}
	return first, length
}

func hexadecimal(text string, digits int) (rune, bool) {
	if len(text) < digits {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:digits], 16, 31)
	return rune(n), err == nil
}

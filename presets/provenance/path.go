package provenance

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind says how a Segment selects: by field name, by list key, or all elements.
type Kind uint8

// The kinds of segments.
const (
	Field      Kind = iota // a struct field or a map key
	Element                // an element of a keyed list
	AnyElement             // each element of a list; only in patterns
)

// A Segment is one step of a Path.
type Segment struct {
	// Name is the field name, the map key, or the element's key. Parts of a composite key are
	// joined by commas.
	Name string
	Kind Kind
}

// A Path leads from the root of a VirtualMachine to a field or list element.
//
// Its text form is dotted. An element of a keyed list is disks[root], every element is disks[*],
// and a map key that holds anything but letters, digits, dash and underscore is quoted:
// nodeSelector["kubernetes.io/arch"].
type Path []Segment

// Of returns the path of plain field names.
func Of(names ...string) Path {
	p := make(Path, len(names))
	for i, n := range names {
		p[i] = Segment{Name: n}
	}
	return p
}

// With returns p and one more segment, without sharing memory with p.
func (p Path) With(s Segment) Path {
	return slices.Concat(p, Path{s})
}

// Field returns the path of a field of the object at p.
func (p Path) Field(name string) Path { return p.With(Segment{Name: name}) }

// Element returns the path of an element of the list at p.
func (p Path) Element(key string) Path { return p.With(Segment{Name: key, Kind: Element}) }

// Equal reports whether both paths lead to the same place.
func (p Path) Equal(o Path) bool { return slices.Equal(p, o) }

// InList reports whether p leads through an element of a list.
func (p Path) InList() bool { return p.ElementIndex() >= 0 }

// ElementIndex returns the index of the first element of a list in p, or -1.
func (p Path) ElementIndex() int {
	return slices.IndexFunc(p, func(s Segment) bool { return s.Kind == Element })
}

// HasPrefix reports whether p is at or beneath prefix. AnyElement in prefix matches any element.
func (p Path) HasPrefix(prefix Path) bool {
	if len(p) < len(prefix) {
		return false
	}
	for i, s := range prefix {
		if s == p[i] || s.Kind == AnyElement && p[i].Kind == Element {
			continue
		}
		return false
	}
	return true
}

// String returns the text form, which ParsePath reads back.
func (p Path) String() string {
	b := make([]byte, 0, 128)
	for i, s := range p {
		switch {
		case s.Kind == AnyElement:
			b = append(b, "[*]"...)
		case s.Kind == Element:
			b = append(b, '[')
			b = append(b, elementEscaper.Replace(s.Name)...)
			b = append(b, ']')
		case isPlain(s.Name):
			if i > 0 {
				b = append(b, '.')
			}
			b = append(b, s.Name...)
		default:
			b = append(b, '[')
			b = strconv.AppendQuote(b, s.Name)
			b = append(b, ']')
		}
	}
	return string(b)
}

var elementEscaper = strings.NewReplacer(`\`, `\\`, `]`, `\]`, `"`, `\"`, `*`, `\*`)

func isPlain(name string) bool {
	for i := range len(name) {
		if !isPlainByte(name[i]) {
			return false
		}
	}
	return name != ""
}

func isPlainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// ParsePath parses the text form of a path. Its errors name the byte at which parsing failed.
func ParsePath(text string) (Path, error) {
	if text == "" {
		return nil, errors.New("cannot parse an empty path: want something like spec.template.spec.domain.cpu.cores")
	}
	var p Path
	for rest := text; rest != ""; {
		s, n, err := nextSegment(rest, len(p) == 0)
		if err != nil {
			return nil, fmt.Errorf("cannot parse path %q at byte %d: %w", text, len(text)-len(rest), err)
		}
		p = append(p, s)
		rest = rest[n:]
	}
	return p, nil
}

func nextSegment(text string, first bool) (Segment, int, error) {
	if text[0] == '[' {
		return bracket(text)
	}
	skip := 0
	switch {
	case !first && text[0] != '.':
		return Segment{}, 0, fmt.Errorf("want a dot or a bracket, not %q", text[0])
	case !first:
		skip = 1
	}
	end := skip
	for end < len(text) && isPlainByte(text[end]) {
		end++
	}
	if end == skip {
		return Segment{}, 0, errors.New("want a field name; quote a map key with other characters, as in nodeSelector[\"kubernetes.io/arch\"]")
	}
	return Segment{Name: text[skip:end]}, end, nil
}

func bracket(text string) (Segment, int, error) {
	if strings.HasPrefix(text, "[*]") {
		return Segment{Name: "*", Kind: AnyElement}, 3, nil
	}
	if strings.HasPrefix(text, `["`) {
		quoted, err := strconv.QuotedPrefix(text[1:])
		if err != nil || !strings.HasPrefix(text[1+len(quoted):], "]") {
			return Segment{}, 0, errors.New(`want a quoted map key and a closing bracket, as in ["kubernetes.io/arch"]`)
		}
		name, err := strconv.Unquote(quoted)
		return Segment{Name: name}, len(quoted) + 2, err
	}
	return elementSegment(text)
}

func elementSegment(text string) (Segment, int, error) {
	var name strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
		case text[i] == ']' && name.Len() == 0:
			return Segment{}, 0, errors.New("want the key of an element between the brackets, as in disks[root]")
		case text[i] == ']':
			return Segment{Name: name.String(), Kind: Element}, i + 1, nil
		}
		name.WriteByte(text[i])
	}
	return Segment{}, 0, errors.New("want a closing bracket")
}

package presets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/vmschema"
)

// MaxValues is how many objects, lists, fields and elements an object may have. A few megabytes of
// empty ones would take seconds to process.
const MaxValues = 100_000

// CheckSize rejects an object of more than 100,000 values, or of more than 512 elements in a keyed
// list; a stored object may keep up to four times that many. JSON that cannot be read passes:
// decoding reports it. The error is a *Rejection.
func (r *Request) CheckSize() error {
	most := limits{MaxValues, maxElements}
	err := checkSize(r.Kind, r.Object, most)
	if err != nil && len(r.OldObject) > 0 && checkSize(r.Kind, r.OldObject, most) != nil {
		return checkSize(r.Kind, r.Object, limits{MaxValues, 4 * maxElements})
	}
	return err
}

// maxDepth is how deep objects and lists of a review may be nested. Those of a VM reach 20.
// Messages about deeper values, each with its path, would take the square of the depth.
const maxDepth = 100

// CheckReviewSize allows as many values as three of the largest objects have. An AdmissionReview
// has two at most. The error is a *Rejection.
func CheckReviewSize(raw []byte) error {
	if isDeeper(raw, maxDepth) {
		return &Rejection{Problems: field.ErrorList{field.Forbidden(field.NewPath("object"), fmt.Sprintf("objects and lists must not be nested more than %d deep", maxDepth))}}
	}
	return checkSize("", raw, limits{parts: 3 * MaxValues})
}

// isDeeper reports whether objects and lists of JSON are nested deeper than most.
func isDeeper(raw []byte, most int) bool {
	depth := 0
	for i := 0; i < len(raw) && depth <= most; i++ {
		switch raw[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return depth > most
}

// limits are the maximum number of values of an object, and of elements of a keyed list; 0 elements
// means that there are no keyed lists.
type limits struct{ parts, elements int }

func checkSize(kind Kind, raw []byte, most limits) error {
	if bytes.Count(raw, []byte{','})+bytes.Count(raw, []byte{'['})+bytes.Count(raw, []byte{'{'}) <= cmp.Or(most.elements, most.parts) {
		return nil // too few for either limit
	}
	s := sizeScan{rest: raw, most: most, open: make([]container, 1, 16)}
	if of := shapes[kind]; of != nil {
		s.open[0].schema = of()
	}
	for len(s.rest) > 0 && len(s.open) > 0 {
		s.next()
		switch {
		case s.long != nil:
			return &Rejection{Problems: field.ErrorList{field.TooMany(s.long, -1, most.elements)}}
		case s.parts > most.parts:
			return &Rejection{Problems: field.ErrorList{field.Forbidden(s.path(1), fmt.Sprintf(
				"the object has more than %d fields and list elements: make it smaller", most.parts))}}
		}
	}
	return nil
}

// A sizeScan scans JSON. The tokenizer of encoding/json takes four times as long as decoding. The
// first container on the stack is the document itself.
type sizeScan struct {
	rest  []byte
	most  limits
	open  []container
	parts int
	long  *field.Path // the first list that is too long
}

type container struct {
	schema *vmschema.Schema // nil where the types have nothing
	object bool
	// name is the field that was read last; named says that its value comes next.
	name    string
	named   bool
	members int
}

func (s *sizeScan) next() {
	in, c := &s.open[len(s.open)-1], s.rest[0]
	switch c {
	case '{', '[':
		s.value(in)
		s.open = append(s.open, container{schema: in.member(), object: c == '{'})
	case '}', ']':
		s.open = s.open[:len(s.open)-1]
	case ',':
		in.named = false
	case ' ', '\t', '\r', '\n', ':':
	case '"':
		s.text(in)
		return
	default:
		s.value(in)
		if end := bytes.IndexAny(s.rest, ",]} \t\r\n"); end > 0 {
			s.rest = s.rest[end:]
			return
		}
	}
	s.rest = s.rest[1:]
}

// text reads a string: the name of a field, or a value.
func (s *sizeScan) text(in *container) {
	end := 1
	for end < len(s.rest) && s.rest[end] != '"' {
		if s.rest[end] == '\\' {
			end++
		}
		end++
	}
	text := s.rest[:min(end+1, len(s.rest))]
	s.rest = s.rest[len(text):]
	if !in.object || in.named {
		s.value(in)
		return
	}
	in.named, in.name = true, string(bytes.Trim(text, `"`))
	if bytes.IndexByte(text, '\\') >= 0 {
		_ = json.Unmarshal(text, &in.name) // decoding reports errors
	}
}

func (s *sizeScan) value(in *container) {
	s.parts++
	in.members++
	if in.members > s.most.elements && in.schema != nil && in.schema.Shape == vmschema.Keyed {
		s.long = s.path(len(s.open) - 2)
	}
}

// member returns the schema of the value that was counted last.
func (c *container) member() *vmschema.Schema {
	switch {
	case c.schema == nil:
		return nil
	case c.object:
		return c.schema.Field(c.name)
	case c.schema.Shape == vmschema.Keyed:
		return c.schema.Elem
	case c.members == 1 && c.schema.Shape == vmschema.Object: // the document
		return c.schema
	}
	return nil
}

// path returns the path of the scan, down to a depth.
func (s *sizeScan) path(depth int) *field.Path {
	var path *field.Path
	for i := 1; i < min(depth+1, len(s.open)); i++ {
		if c := s.open[i]; c.object {
			path = path.Child(c.name)
		} else {
			path = path.Index(c.members - 1)
		}
	}
	return path
}

package presets

import (
	"maps"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
)

// diff writes the operations that turn from into to, which have schema s. It
// serves the paths where leaves are restored; where the engine only sets, it
// knows what it set and patch writes that.
func diff(from, to map[string]any, s *schema) []jsonpatch.Operation {
	d := differ{}
	d.object(from, to, s)
	return d.ops
}

type differ struct {
	ops []jsonpatch.Operation
	at  []byte
}

func (d *differ) emit(operation string, value any) {
	d.ops = append(d.ops, jsonpatch.Operation{Operation: operation, Path: string(d.at), Value: value})
}

// in runs f with token appended to the pointer.
func (d *differ) in(token string, f func()) {
	length := len(d.at)
	d.at = append(append(d.at, '/'), pointerEscaper.Replace(token)...)
	f()
	d.at = d.at[:length]
}

func (d *differ) object(from, to map[string]any, s *schema) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			d.in(name, func() { d.emit("remove", nil) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		was, had := from[name]
		d.in(name, func() {
			if !had {
				d.emit("add", to[name])
				return
			}
			d.value(was, to[name], s.field(name))
		})
	}
}

// anything is the schema of what no schema knows.
var anything = &schema{shape: shapeAny}

// field is the schema of a field, of anything where it is unknown.
func (s *schema) field(name string) *schema {
	if s == nil {
		return anything
	}
	if s.shape == shapeMap {
		return s.elem
	}
	if f := s.fields[name]; f != nil {
		return f
	}
	return anything
}

func (d *differ) value(from, to any, s *schema) {
	if equalJSON(from, to) {
		return
	}
	switch to := to.(type) {
	case map[string]any:
		if was, ok := from.(map[string]any); ok {
			d.object(was, to, s)
			return
		}
	case []any:
		if was, ok := from.([]any); ok && s.shape == shapeKeyed && d.aligned(was, to, s) {
			d.list(was, to, s)
			return
		}
	}
	d.emit("replace", to)
}

// aligned reports whether to is from with elements changed in place and others
// appended, so that no element moves.
func (d *differ) aligned(from, to []any, s *schema) bool {
	if len(to) < len(from) {
		return false
	}
	for i := range from {
		a, okA := from[i].(map[string]any)
		b, okB := to[i].(map[string]any)
		if !okA || !okB {
			return false
		}
		x, noKey := elementKey(s.keys, a)
		y, noKeyEither := elementKey(s.keys, b)
		if noKey != "" || noKeyEither != "" || x != y {
			return false
		}
	}
	return true
}

func (d *differ) list(from, to []any, s *schema) {
	for i := range from {
		d.in(strconv.Itoa(i), func() { d.value(from[i], to[i], s.elem) })
	}
	for _, e := range to[len(from):] {
		d.in("-", func() { d.emit("add", e) })
	}
}

package presets

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/virtwright/virtwright/presets/provenance"
)

// patch writes the operations that turn the object as it was sent into what it
// is now, from what the record says has changed. The object itself is not
// looked at again.
func (w *resolution) patch() []jsonpatch.Operation {
	root := w.rec.Root()
	if w.instance != nil {
		// In VM form an instance lies in spec.template.
		if spec := root.Find(provenance.Segment{Name: "spec"}); spec != nil {
			root = spec.Find(provenance.Segment{Name: "template"})
		}
		if root == nil {
			return nil
		}
	}
	e := emitter{ops: make([]jsonpatch.Operation, 0, changes(root))}
	e.children(root)
	return e.ops
}

// changes counts the operations that children of n will take.
func changes(n *provenance.Node) int {
	count := 0
	for c := range n.Children() {
		if c.Change == provenance.Kept {
			count += changes(c)
		} else {
			count++
		}
	}
	return count
}

type emitter struct {
	ops []jsonpatch.Operation
	// at is the JSON pointer of the current node.
	at []byte
}

func (e *emitter) emit(operation string, value any) {
	e.ops = append(e.ops, jsonpatch.Operation{Operation: operation, Path: string(e.at), Value: value})
}

func (e *emitter) node(n *provenance.Node) {
	switch n.Change {
	case provenance.Added:
		e.emit("add", n.Value)
	case provenance.Replaced:
		e.emit("replace", n.Value)
	case provenance.Removed:
		e.emit("remove", nil)
	case provenance.Kept:
		e.children(n)
	}
}

func (e *emitter) children(n *provenance.Node) {
	length := len(e.at)
	var elements []*provenance.Node
	for c := range n.Children() {
		if c.Kind == provenance.Element {
			elements = append(elements, c)
			continue
		}
		e.at = append(append(e.at, '/'), pointerEscaper.Replace(c.Name)...)
		e.node(c)
		e.at = e.at[:length]
	}
	if len(elements) > 0 {
		e.elements(elements)
	}
}

// pointerEscaper escapes a token of a JSON pointer (RFC 6901).
var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// elements writes a list: what stays first, then removals from the back, so
// that indexes hold, then additions in list order.
func (e *emitter) elements(elements []*provenance.Node) {
	length := len(e.at)
	slices.SortFunc(elements, func(a, b *provenance.Node) int {
		if c := cmp.Compare(turn(a), turn(b)); c != 0 {
			return c
		}
		if a.Change == provenance.Removed {
			a, b = b, a
		}
		return cmp.Compare(a.Index, b.Index)
	})
	for _, n := range elements {
		if n.Index < 0 {
			continue // decided, but not there
		}
		e.at = append(e.at, '/')
		if n.Change == provenance.Added {
			e.at = append(e.at, '-')
		} else {
			e.at = strconv.AppendInt(e.at, int64(n.Index), 10)
		}
		e.node(n)
		e.at = e.at[:length]
	}
}

func turn(n *provenance.Node) int {
	switch n.Change {
	case provenance.Removed:
		return 1
	case provenance.Added:
		return 2
	}
	return 0
}

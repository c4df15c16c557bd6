package presets

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// patch returns the operations that the record says convert the sent object into the current one.
func (r *mergeState) patch() []jsonpatch.Operation {
	root := r.record.Root()
	if r.sentVMI != nil {
		// In VM form, the VMI is spec.template.
		if root = r.record.At(vmschema.Template); root == nil {
			return nil
		}
	}
	w := patchWriter{ops: make([]jsonpatch.Operation, 0, changes(root))}
	w.children(root)
	return w.ops
}

func changes(n *provenance.Node) int {
	count := 0
	for c := range n.Children() {
		if c.Change == provenance.Unchanged {
			count += changes(c)
		} else {
			count++
		}
	}
	return count
}

// A patchWriter collects the operations of a patch. At is the JSON pointer of the current value.
type patchWriter struct {
	ops []jsonpatch.Operation
	at  []byte
}

func (w *patchWriter) write(operation string, value any) {
	w.ops = append(w.ops, jsonpatch.Operation{Operation: operation, Path: string(w.at), Value: value})
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func (w *patchWriter) in(token string, visit func()) {
	length := len(w.at)
	w.at = append(append(w.at, '/'), pointerEscaper.Replace(token)...)
	visit()
	w.at = w.at[:length]
}

func (w *patchWriter) node(n *provenance.Node) {
	switch n.Change {
	case provenance.Added:
		w.write("add", n.Value)
	case provenance.Replaced:
		w.write("replace", n.Value)
	case provenance.Removed:
		w.write("remove", nil)
	case provenance.Unchanged:
		w.children(n)
	}
}

func (w *patchWriter) children(n *provenance.Node) {
	var elements []*provenance.Node
	for c := range n.Children() {
		if c.Kind == provenance.Element {
			elements = append(elements, c)
		} else {
			w.in(c.Name, func() { w.node(c) })
		}
	}
	if len(elements) > 0 {
		w.elements(elements)
	}
}

// elements writes the operations for a list: first changes in elements, then removals from the
// back, so that indexes stay valid, then additions in list order.
func (w *patchWriter) elements(elements []*provenance.Node) {
	slices.SortFunc(elements, func(a, b *provenance.Node) int {
		if c := cmp.Compare(patchRanks[a.Change], patchRanks[b.Change]); c != 0 {
			return c
		}
		if a.Change == provenance.Removed {
			a, b = b, a
		}
		return cmp.Compare(a.Index, b.Index)
	})
	for _, n := range elements {
		token := strconv.Itoa(int(n.Index))
		if n.Change == provenance.Added {
			token = "-"
		}
		if n.Index >= 0 { // otherwise it is decided, but absent
			w.in(token, func() { w.node(n) })
		}
	}
}

var patchRanks = [...]int{provenance.Unchanged: 0, provenance.Replaced: 0, provenance.Removed: 1, provenance.Added: 2}

// diff returns the operations that convert from into to, both with schema s. It is used where
// fields are restored; where the engine only sets fields, patch is faster.
func diff(from, to map[string]any, s *vmschema.Schema) []jsonpatch.Operation {
	var w patchWriter
	w.object(from, to, s)
	return w.ops
}

func (w *patchWriter) object(from, to map[string]any, s *vmschema.Schema) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			w.in(name, func() { w.write("remove", nil) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		was, had := from[name]
		w.in(name, func() {
			if !had {
				w.write("add", to[name])
				return
			}
			w.value(was, to[name], s.Field(name))
		})
	}
}

func (w *patchWriter) value(from, to any, s *vmschema.Schema) {
	if tree.Equal(from, to) {
		return
	}
	switch to := to.(type) {
	case map[string]any:
		if was, ok := from.(map[string]any); ok {
			w.object(was, to, s)
			return
		}
	case []any:
		if was, ok := from.([]any); ok && s.Shape == vmschema.Keyed && s.IsAligned(was, to) {
			w.list(was, to, s)
			return
		}
	}
	w.write("replace", to)
}

func (w *patchWriter) list(from, to []any, s *vmschema.Schema) {
	for i := range from {
		w.in(strconv.Itoa(i), func() { w.value(from[i], to[i], s.Elem) })
	}
	for _, e := range to[len(from):] {
		w.in("-", func() { w.write("add", e) })
	}
}

package presets

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

// A lostValue stands for a user's value that was too large to be kept in the
// record, where a record is put to the test. It differs from every other value.
type lostValue struct{}

// lostField marks an element of which only the key is known.
const lostField = "\x00lost"

// isLost reports whether v stands for a value that was not kept.
func isLost(v any) bool {
	if fields, ok := v.(map[string]any); ok {
		_, lost := fields[lostField]
		return lost
	}
	_, lost := v.(lostValue)
	return lost
}

// An undoing takes out of an object what a record calls virtwright's, and puts
// back what was overruled: what remains is what the user wrote.
type undoing struct {
	rec *provenance.Record
	// mark puts a stand-in where the user's value was not kept; otherwise what is
	// there stays.
	mark bool
}

func residue(root map[string]any, rec *provenance.Record) {
	undoing{rec: rec}.unset(rec.Root(), root, vmSchema())
}

// residueOfStored is residue for a VM that is stored: its run state is
// people's, whoever set it first.
func residueOfStored(root map[string]any, rec *provenance.Record) {
	spec, _ := root["spec"].(map[string]any)
	running, strategy := spec["running"], spec["runStrategy"]
	residue(root, rec)
	for name, v := range map[string]any{"running": running, "runStrategy": strategy} {
		if spec != nil && v != nil {
			spec[name] = v
			root["spec"] = spec
		}
	}
}

// unset undoes the record at and beneath n in v and returns what remains of
// v, nil for nothing.
func (u undoing) unset(n *provenance.Node, v any, s *schema) any {
	if n.Source != provenance.NoSource && u.rec.Sources[n.Source].Role != provenance.Forbid {
		if n.Overruled {
			return u.overruled(n, v)
		}
		if !hasChildren(n) || v == nil {
			return nil
		}
	}
	switch at := v.(type) {
	case map[string]any:
		return u.unsetFields(n, at, s)
	case []any:
		return u.unsetElements(n, at, s)
	case nil:
		return u.restoreBeneath(n, s)
	}
	return v
}

// overruled is the user's value at n, where v is now.
func (u undoing) overruled(n *provenance.Node, v any) any {
	switch {
	case !n.Lost:
		return cloneJSON(n.Was)
	case !u.mark:
		return v
	case n.Kind == provenance.Element:
		return map[string]any{"name": n.Name, lostField: lostValue{}}
	}
	return lostValue{}
}

func hasChildren(n *provenance.Node) bool {
	for range n.Children() {
		return true
	}
	return false
}

func (u undoing) unsetFields(n *provenance.Node, fields map[string]any, s *schema) any {
	sentEmpty := n.WasEmpty || len(fields) == 0 && n.Source == provenance.NoSource
	for c := range n.Children() {
		if left := u.unset(c, fields[c.Name], s.field(c.Name)); left != nil {
			fields[c.Name] = left
		} else {
			delete(fields, c.Name)
		}
	}
	if len(fields) == 0 && !sentEmpty && n != u.rec.Root() {
		return nil
	}
	return fields
}

func (u undoing) unsetElements(n *provenance.Node, list []any, s *schema) any {
	if s.shape != shapeKeyed {
		return list
	}
	sentEmpty := n.WasEmpty || len(list) == 0 && n.Source == provenance.NoSource
	for c := range n.Children() {
		list = u.unsetElement(c, list, s)
	}
	if len(list) == 0 && !sentEmpty {
		return nil
	}
	return list
}

func (u undoing) unsetElement(n *provenance.Node, list []any, s *schema) []any {
	i := indexOf(list, s.keys, n.Name)
	if i < 0 {
		if left := u.unset(n, nil, s.elem); left != nil {
			list = append(list, left)
		}
		return list
	}
	if left := u.unset(n, list[i], s.elem); left != nil {
		list[i] = left
		return list
	}
	return append(list[:i], list[i+1:]...)
}

// restoreBeneath rebuilds overruled values under a container that is gone.
func (u undoing) restoreBeneath(n *provenance.Node, s *schema) any {
	if s.shape == shapeKeyed {
		if list, _ := u.unsetElements(n, nil, s).([]any); len(list) > 0 {
			return list
		}
		return nil
	}
	if fields, _ := u.unsetFields(n, map[string]any{}, s).(map[string]any); len(fields) > 0 {
		return fields
	}
	return nil
}

func (w *work) kind() Kind {
	if w.instance != nil {
		return VirtualMachineInstance
	}
	return VirtualMachine
}

func (w *work) storedProvenance() string {
	text, _ := lookup(w.root, vmSchema(), provenanceOn(w.kind())).(string)
	return text
}

// discardProvenance drops a record that a user sent.
func (w *work) discardProvenance() {
	at := provenanceOn(w.kind())
	annotations, _ := lookup(w.root, vmSchema(), at[:len(at)-1]).(map[string]any)
	delete(annotations, at[len(at)-1].Name)
	n := w.rec.Root()
	for _, seg := range at {
		n = w.rec.Child(n, seg)
	}
	n.Change = provenance.Removed
}

// dropEmptyAbove takes away what only the annotation had kept from being
// empty, unless claim says that it was sent empty.
func (w *work) dropEmptyAbove(claim *provenance.Record) {
	p := provenanceOn(w.kind())
	for depth := len(p) - 1; p[depth-1].Name == "annotations" || p[depth-1].Name == "metadata"; depth-- {
		fields, _ := lookup(w.root, vmSchema(), p[:depth]).(map[string]any)
		n := claim.At(p[:depth])
		if fields == nil || len(fields) > 0 || n != nil && n.WasEmpty {
			return
		}
		w.unset(p[:depth])
		if depth == 1 {
			return
		}
	}
}

// maxClaims is how often a claim is reduced until it holds; then it is discarded.
const maxClaims = 3

// restore answers a create whose object carries a record, as backups and copies
// do. A user may write anything there, so the record is believed only for leaves
// that have the value that presets and platform defaults give them now. What the
// rest of it claims is the user's. Therefore the result is what a create of some
// sparse object gives, and expanding an expanded object changes nothing.
// Nil means that nothing of the record holds.
func (e *Engine) restore(ctx context.Context, s *Snapshot, req Request, text string) *Result {
	claim, err := provenance.Decode(text)
	if err != nil {
		return nil
	}
	for range maxClaims {
		sent, err := load(req.Kind, req.Object)
		if err != nil {
			return nil
		}
		again, err := load(req.Kind, req.Object)
		if err != nil {
			return nil
		}
		again.discardProvenance()
		again.dropEmptyAbove(claim)
		undoing{rec: claim, mark: true}.unset(claim.Root(), again.root, vmSchema())
		again.rec = provenance.New()
		out, err := e.expand(ctx, s, again, req)
		if err != nil {
			return nil
		}
		if len(out.OverBudget) > 0 {
			return nil // evaluating the conditions again would cost as much
		}
		if releaseChanged(claim, sent.root, again.root) == 0 {
			out.Patch = diff(sent.unwrap(), again.unwrap(), shapes[req.Kind]())
			return out
		}
	}
	return nil
}

// releaseChanged takes out of a claim the leaves at which two objects differ, and
// counts them. An element that keeps a leaf keeps the key that identifies it.
func releaseChanged(claim *provenance.Record, sent, expanded map[string]any) int {
	var wrong []*provenance.Node
	for p, n := range claim.Decided() {
		was, is := lookup(sent, vmSchema(), p), lookup(expanded, vmSchema(), p)
		// Of an object with decisions of its own beneath, the leaf is that it is there.
		if equalJSON(was, is) || hasChildren(n) && !n.Overruled && isObject(was) && isObject(is) {
			continue
		}
		wrong = append(wrong, n)
		for i, seg := range p {
			if seg.Kind == provenance.Element {
				wrong = append(wrong, keysOf(claim, p[:i+1])...)
			}
		}
	}
	for _, n := range wrong {
		n.Clear()
	}
	return len(wrong)
}

// keysOf are the nodes of the fields that identify the element at p.
func keysOf(rec *provenance.Record, p provenance.Path) []*provenance.Node {
	var out []*provenance.Node
	list := vmSchema().at(p[:len(p)-1])
	if list == nil {
		return nil
	}
	for _, k := range list.keys {
		key, err := provenance.ParsePath(k.field)
		if err != nil { // unreachable: the table is tested
			continue
		}
		if n := rec.At(append(slices.Clone(p), key...)); n != nil {
			out = append(out, n)
		}
	}
	return out
}

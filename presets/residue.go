package presets

import (
	"context"

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

// proven answers a create whose object carries a record. A user may write
// anything there, so it counts only when it is true to the byte: when what it
// calls the user's, expanded anew, gives the very object that was sent.
// Expanding an expanded object thereby changes nothing. Nil means not proven.
func (e *Engine) proven(ctx context.Context, s *Snapshot, req Request, text string) *Result {
	claim, err := provenance.Decode(text)
	if err != nil || claim.Snapshot != s.Hash() {
		return nil
	}
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
	if err != nil || !equalJSON(sent.root, again.root) {
		return nil
	}
	return out
}

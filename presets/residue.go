package presets

import (
	"context"

	"github.com/virtwright/virtwright/presets/provenance"
)

// lostValue stands for a user's value that was too large to be kept in the
// record. It differs from every value that a preset can set.
type lostValue struct{}

// MarshalJSON makes a lost value visible should it ever be written.
func (lostValue) MarshalJSON() ([]byte, error) { return []byte(`"(value not kept)"`), nil }

// residue takes out of root what rec calls virtwright's, and puts back what was
// overruled: what remains is what the user wrote.
func residue(root map[string]any, rec *provenance.Record) {
	unset(rec.Root(), root, vmSchema(), rec)
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
func unset(n *provenance.Node, v any, s *schema, rec *provenance.Record) any {
	if n.Source != provenance.NoSource && rec.Sources[n.Source].Role != provenance.Forbid {
		if n.Overruled {
			return overruledValue(n)
		}
		if !hasChildren(n) || v == nil {
			return nil
		}
	}
	switch at := v.(type) {
	case map[string]any:
		return unsetFields(n, at, s, rec)
	case []any:
		return unsetElements(n, at, s, rec)
	case nil:
		return restoreBeneath(n, s, rec)
	}
	return v
}

func overruledValue(n *provenance.Node) any {
	if n.Lost {
		return lostValue{}
	}
	return cloneJSON(n.Was)
}

func hasChildren(n *provenance.Node) bool {
	for range n.Children() {
		return true
	}
	return false
}

func unsetFields(n *provenance.Node, fields map[string]any, s *schema, rec *provenance.Record) any {
	sentEmpty := n.WasEmpty || len(fields) == 0 && n.Source == provenance.NoSource
	for c := range n.Children() {
		step := s.field(c.Name)
		if left := unset(c, fields[c.Name], step, rec); left != nil {
			fields[c.Name] = left
		} else {
			delete(fields, c.Name)
		}
	}
	if len(fields) == 0 && !sentEmpty && n != rec.Root() {
		return nil
	}
	return fields
}

func unsetElements(n *provenance.Node, list []any, s *schema, rec *provenance.Record) any {
	if s.shape != shapeKeyed {
		return list
	}
	sentEmpty := n.WasEmpty || len(list) == 0 && n.Source == provenance.NoSource
	for c := range n.Children() {
		i := indexOf(list, s.keys, c.Name)
		if i < 0 {
			if left := unset(c, nil, s.elem, rec); left != nil {
				list = append(list, left)
			}
			continue
		}
		if left := unset(c, list[i], s.elem, rec); left != nil {
			list[i] = left
		} else {
			list = append(list[:i], list[i+1:]...)
		}
	}
	if len(list) == 0 && !sentEmpty {
		return nil
	}
	return list
}

// restoreBeneath rebuilds overruled values under a container that is gone.
func restoreBeneath(n *provenance.Node, s *schema, rec *provenance.Record) any {
	if s.shape == shapeKeyed {
		if list, _ := unsetElements(n, nil, s, rec).([]any); len(list) > 0 {
			return list
		}
		return nil
	}
	if fields, _ := unsetFields(n, map[string]any{}, s, rec).(map[string]any); len(fields) > 0 {
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
	residue(again.root, claim)
	again.rec = provenance.New()
	out, err := e.expand(ctx, s, again, req)
	if err != nil || !equalJSON(sent.root, again.root) {
		return nil
	}
	return out
}

package presets

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
)

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
		again.dropProvenance(claim)
		unapply{rec: claim, mark: true}.value(claim.Root(), again.root, again.root, vmSchema())
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

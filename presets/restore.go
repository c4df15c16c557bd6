package presets

import (
	"context"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// maxClaims is how often a claimed record is reduced before it is discarded.
const maxClaims = 3

// restore answers the creation of an object that has a record, as backups and copies do. The user
// may have changed that record, so it counts only for leaves with the value that presets and the
// platform set now; other values are the user's. So the result is the same as for some object
// without a record, and expanding an expanded object changes nothing. It returns nil if nothing of
// the record holds.
func (e *Engine) restore(ctx context.Context, s *Snapshot, req Request, sent *mergeState, text string) *Result {
	claim, err := provenance.Decode(text)
	if err != nil {
		return nil
	}
	for range maxClaims {
		again := &mergeState{
			root: copyMutable(sent.root), sentVMI: sent.sentVMI, record: provenance.New(),
			restored: sent.restored, keepsRunState: sent.keepsRunState, lenient: sent.lenient,
		}
		again.dropProvenance(claim)
		unapply{rec: claim, markOmitted: true}.value(claim.Root(), again.root, again.root, vmschema.VM())
		out, err := e.expand(ctx, s, again, req)
		if err != nil {
			return nil
		}
		if len(out.OverBudget) > 0 {
			return nil // another attempt would cost as much
		}
		if releaseChanged(claim, sent.root, again.root) == 0 {
			restoreOrder(again.root["spec"], sent.root["spec"], vmschema.VM().Field("spec"))
			out.Patch = diff(sent.unwrap(), again.unwrap(), shapes[req.Kind]())
			return out
		}
	}
	return nil
}

// releaseChanged removes from a claimed record the leaves at which two objects differ, and counts
// them. An element that keeps a leaf keeps its key.
func releaseChanged(claim *provenance.Record, sent, expanded map[string]any) int {
	var wrong []*provenance.Node
	for p, n := range claim.Decided() {
		was, is := vmschema.Value(sent, p), vmschema.Value(expanded, p)
		// The leaf of an object with decided fields is that it exists.
		if tree.Equal(was, is) || hasChildren(n) && !n.Overruled && tree.IsObject(was) && tree.IsObject(is) {
			continue
		}
		wrong = append(wrong, n)
		for i, seg := range p {
			if seg.Kind == provenance.Element {
				wrong = append(wrong, keyNodes(claim, p[:i+1])...)
			}
		}
	}
	for _, n := range wrong {
		n.ClearSubtree()
	}
	return len(wrong)
}

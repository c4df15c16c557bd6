package presets

import (
	"github.com/virtwright/virtwright/presets/provenance"
)

// contributedFields are the fields that the instancetype and the preference of a VM give it when it starts.
func (w *resolution) contributedFields() []Origin {
	found, err := w.known()
	if err != nil || found == (contributions{}) {
		return nil
	}
	x := &expandedVM{w: w, contributions: found, full: found.expanded(w.root)}
	var out []Origin
	listLeaves(x.full, vmSchema(), nil, func(p provenance.Path, v any) {
		if fields, isObject := v.(map[string]any); isObject && len(fields) == 0 && !x.contributorOf(p).owns(p) {
			return // it was made on the way
		}
		if !equalJSON(v, lookup(w.root, vmSchema(), p)) {
			out = append(out, Origin{Path: p, Value: v, ContributedBy: x.contributorOf(p).matcher})
		}
	})
	return out
}

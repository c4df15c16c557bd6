package presets

import (
	"github.com/virtwright/virtwright/presets/provenance"
)

// gifts are the fields that the instancetype and the preference of a VM give it when it starts.
func (w *work) gifts() []Origin {
	gives, err := w.known()
	if err != nil || gives == (contributions{}) {
		return nil
	}
	x := &expansion{w: w, gives: gives, full: gives.expanded(w.root)}
	var out []Origin
	listLeaves(x.full, vmSchema(), nil, func(p provenance.Path, v any) {
		if fields, isObject := v.(map[string]any); isObject && len(fields) == 0 && !x.covering(p).owns(p) {
			return // it was made on the way
		}
		if !equalJSON(v, lookup(w.root, vmSchema(), p)) {
			out = append(out, Origin{Path: p, Value: v, GivenBy: x.covering(p).matcher})
		}
	})
	return out
}

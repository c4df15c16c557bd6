package presets

import (
	"context"
	"slices"
)

// An Inspection says what a preset has to do with a stored VM.
type Inspection struct {
	Preset *Compiled
	// Acts says that the preset, in mode Warn or Audit, would change or refuse the VM if it were
	// created now.
	Acts bool
	// Breaks says that the stored VM has what the preset forbids, in any mode but Off.
	Breaks bool
}

// Inspect says of the stored VM of a request what it breaks, and what presets in mode Warn or
// Audit would do. Presets that are not concerned are left out.
func (e *Engine) Inspect(ctx context.Context, s *Snapshot, req Request) ([]Inspection, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	u := &update{engine: e, snap: s, req: req, old: w.root, sent: w.root}
	u.readRecord()
	x, err := u.expand(ctx, u.intent(w.root), nil)
	if err != nil {
		return nil, err
	}
	var would []Would
	if len(x.shadowed) > 0 {
		x.base, _ = cloneJSON(x.root).(map[string]any)
		e.act(x)
		would = x.preview(e.Platform).would
	}
	var out []Inspection
	for _, c := range x.matching.presets {
		i := Inspection{Preset: c, Breaks: len(w.violations([]*Compiled{c})) > 0}
		i.Acts = slices.ContainsFunc(would, func(w Would) bool { return w.Preset == c })
		if i.Acts || i.Breaks {
			out = append(out, i)
		}
	}
	return out, nil
}

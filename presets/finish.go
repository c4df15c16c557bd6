package presets

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// result stores the record on the object and puts together what there is to say.
func (e *Engine) result(x *expansion) (*Result, error) {
	w := x.resolution
	w.rec.Snapshot = x.snap.Hash()
	w.typos = append(x.snap.labelTypos(x.query, nil), x.snap.unknownExclusions(x.query, nil)...)
	if err := w.annotate(); err != nil {
		return nil, err
	}
	out := &Result{Record: w.rec, Matched: x.matching.presets, OverBudget: x.matching.overBudget, Conflicts: w.conflicts, w: w}
	would := x.preview(e.Platform)
	out.Would = would.would
	effects := w.effects()
	out.Warnings = bounded(w.warnings(effects, x.matching, would))
	out.Audit = audit(effects, would)
	return out, nil
}

// annotate stores the record on the object, where there is anything to store.
func (w *resolution) annotate() error {
	if w.rec.Empty() {
		return nil
	}
	path := provenanceOn(w.kind())
	at := w.holderOf(path)
	at.make()
	if n := w.rec.At(template); n != nil && w.instance != nil {
		n.WasEmpty = false // the VM form wraps the instance
	}
	text, err := w.rec.Encode()
	if err != nil {
		at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationProvenance)
		return w.refusal(field.ErrorList{field.Forbidden(at, err.Error())})
	}
	at.set(path[len(path)-1].Name, text)
	return nil
}

// holderOf returns the object that holds the field at p.
func (w *resolution) holderOf(p provenance.Path) *cursor {
	at := w.cursor(nil)
	for _, seg := range p[:len(p)-1] {
		at = at.child(seg.Name)
	}
	return at
}

// A preview is what presets in mode Warn or Audit would have done.
type preview struct {
	warn, audit []string
	would       []Would
}

// preview runs all that match as if every preset were enforced, on a fresh
// copy, and says what that would change.
func (x *expansion) preview(platform *Platform) *preview {
	out := &preview{}
	if len(x.shadowed) == 0 || x.base == nil {
		return out
	}
	shadow := &resolution{root: x.base, instance: x.instance, rec: provenance.New(), find: x.find}
	if _, err := shadow.adoptOwner(x.req.Owner); err != nil {
		return out
	}
	shadow.apply(x.snap, x.query, x.matching.presets)
	if platform != nil {
		shadow.applyPlatform(platform)
	}
	shadow.closeUp()
	for _, c := range x.shadowed {
		lines := x.wouldChange(shadow, c)
		changes, violations := len(lines) > 0, shadow.violations([]*Compiled{c})
		for _, v := range violations {
			lines = append(lines, "would refuse "+v.path.String()+reason(v.rule.message))
		}
		if len(lines) > 0 {
			out.would = append(out.would, Would{Preset: c, Change: changes, Refuse: len(violations) > 0})
		}
		for _, line := range lines {
			if c.Mode == v1alpha1.ModeWarn {
				out.warn = append(out.warn, "preset "+c.Ref+" (mode Warn) "+line)
			}
			out.audit = append(out.audit, fmt.Sprintf("%s@%d %s", c.Ref, c.Generation, line))
		}
	}
	return out
}

func reason(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// wouldChange lists what c set in shadow that is different in w.
func (w *resolution) wouldChange(shadow *resolution, c *Compiled) []string {
	var set, removed []string
	for p, n := range shadow.rec.Decided() {
		if shadow.by[n.Source] != c {
			continue
		}
		is, would := lookup(w.root, vmSchema(), p), lookup(shadow.root, vmSchema(), p)
		switch {
		case equalJSON(is, would):
		case would == nil:
			removed = append(removed, p.String())
		default:
			set = append(set, p.String()+"="+show(would))
		}
	}
	var lines []string
	if len(set) > 0 {
		lines = append(lines, listing("would set", tallyOf(set)))
	}
	if len(removed) > 0 {
		lines = append(lines, listing("would remove", tallyOf(removed)))
	}
	return lines
}

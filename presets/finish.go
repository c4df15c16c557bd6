package presets

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// outcome is what expand knows beside the object.
type outcome struct {
	matching matching
	shadowed []*Compiled
	req      Request
	owner    *ownerVM
	platform *Platform
	// base is the object before presets acted, where shadowed ones want it.
	base map[string]any
}

// finish stores the record on the object and puts together what there is to say.
func (w *work) finish(s *Snapshot, q *query, o outcome) (*Result, error) {
	w.rec.Snapshot = s.Hash()
	if err := w.annotate(); err != nil {
		return nil, err
	}
	out := &Result{Record: w.rec, Matched: o.matching.presets, OverBudget: o.matching.overBudget, Conflicts: w.conflicts, w: w}
	var would *preview
	if len(o.shadowed) > 0 {
		would = w.preview(s, q, o)
	}
	deeds := w.deeds()
	out.Warnings = w.warnings(deeds, o.matching, would)
	out.Audit = audit(deeds, would)
	return out, nil
}

// annotate stores the record on the object, where there is anything to store.
func (w *work) annotate() error {
	if w.rec.Empty() {
		return nil
	}
	w.noteEmptyAbove()
	if n := w.rec.At(template); n != nil && w.instance != nil {
		n.WasEmpty = false // it is a wrapping of ours
	}
	text, err := w.rec.Encode()
	if err != nil {
		at := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationProvenance)
		return w.refusal(field.ErrorList{field.Forbidden(at, err.Error())})
	}
	w.setAnnotation(text)
	return nil
}

// noteEmptyAbove records which objects above the annotation were sent empty.
func (w *work) noteEmptyAbove() {
	var v any = w.root
	n := w.rec.Root()
	for _, seg := range provenanceOn(w.kind()) {
		fields, ok := v.(map[string]any)
		if !ok {
			return
		}
		if len(fields) == 0 && n.Change == provenance.Kept && n.Source == provenance.NoSource {
			n.WasEmpty = true
		}
		n, v = w.rec.Child(n, seg), fields[seg.Name]
	}
}

// setAnnotation sets the provenance annotation, making what is missing above it.
func (w *work) setAnnotation(text string) {
	path := provenanceOn(w.kind())
	obj, n, fresh := w.root, w.rec.Root(), false
	for _, seg := range path[:len(path)-1] {
		n = w.rec.Child(n, seg)
		fresh = fresh || n.Change == provenance.Added
		sub, ok := obj[seg.Name].(map[string]any)
		if !ok {
			sub = map[string]any{}
			obj[seg.Name] = sub
			if !fresh {
				n.Change, n.Value = provenance.Added, sub
			}
			fresh = true
		}
		obj = sub
	}
	last := path[len(path)-1]
	n = w.rec.Child(n, last)
	if !fresh {
		sent := n.Change == provenance.Removed // by discardProvenance
		n.Change, n.Value = provenance.Added, text
		if sent || obj[last.Name] != nil {
			n.Change = provenance.Replaced
		}
	}
	obj[last.Name] = text
}

// A preview is what presets in mode Warn or Audit would have done.
type preview struct {
	warn, audit []string
}

// preview runs all that match as if every preset were enforced, on a fresh
// copy, and tells what that would change.
func (w *work) preview(s *Snapshot, q *query, o outcome) *preview {
	shadow := &work{root: o.base, instance: w.instance, rec: provenance.New(), find: w.find}
	if _, err := shadow.adoptOwner(o.req.Owner); err != nil {
		return &preview{}
	}
	shadow.apply(s, q, o.matching.presets)
	if o.platform != nil {
		shadow.applyPlatform(o.platform)
	}
	shadow.closeUp()
	out := &preview{}
	for _, c := range o.shadowed {
		lines := w.wouldChange(shadow, c)
		for _, v := range shadow.violations([]*Compiled{c}) {
			lines = append(lines, "would refuse "+v.path.String()+reason(v.rule.message))
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
func (w *work) wouldChange(shadow *work, c *Compiled) []string {
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

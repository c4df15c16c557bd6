package presets

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// finish answers with the merged object, unless the update has problems of its own.
func (m *merger) finish() (*Result, error) {
	w := m.into
	w.notes, w.warnEverything = m.b.notes, m.b.warnEverything
	if problems := m.newProblems(); len(problems) > 0 {
		refusal := w.refusal(problems)
		refusal.OverBudget = m.b.matching.overBudget
		return nil, refusal
	}
	w.unshare(runStateFields[0])
	m.setRunState(w.root)
	m.releaseRunState()
	order(w.root["spec"], m.sent["spec"], vmSchema().field("spec"))
	w.conflicts = slices.DeleteFunc(m.b.conflicts, func(c Conflict) bool {
		return slices.ContainsFunc(m.a.conflicts, func(o Conflict) bool { return c.String() == o.String() })
	})
	w.skips = slices.DeleteFunc(m.b.skips, func(s skip) bool {
		return slices.ContainsFunc(m.a.skips, func(o skip) bool { return s.ref == o.ref && s.why == o.why && slices.Equal(s.fields, o.fields) })
	})
	a, b := m.a.query, m.b.query
	w.typos = append(m.b.snap.labelTypos(b, a.labels), m.b.snap.unknownExclusions(b, a.selection.excluded)...)
	effects, notes := w.effects(), m.notes()
	w.forgetGone(w.rec.Root(), w.root, vmSchema())
	w.rec.DropUnused(m.stillForbids)
	if err := m.storeRecord(); err != nil {
		return nil, err
	}
	out := &Result{Record: w.rec, Matched: m.b.matching.presets, OverBudget: m.b.matching.overBudget, Conflicts: w.conflicts, w: w}
	out.Warnings = bounded(append(notes, w.warnings(effects, m.b.matching, nil)...))
	out.Audit = audit(effects, nil)
	out.Patch = diff(m.sent, w.root, vmSchema())
	return out, nil
}

// releaseRunState makes the run state that changed people's.
func (m *merger) releaseRunState() {
	for _, p := range runStateFields {
		n := m.into.rec.At(p)
		if n != nil && !equalJSON(lookup(m.old, vmSchema(), p), lookup(m.into.root, vmSchema(), p)) {
			n.Clear()
		}
	}
}

// order puts the elements of keyed lists in the order in which they were sent; those
// that were not sent follow.
func order(v, sent any, s *schema) {
	switch at := v.(type) {
	case map[string]any:
		was, _ := sent.(map[string]any)
		for name, sub := range at {
			if was[name] != nil {
				order(sub, was[name], s.field(name))
			}
		}
	case []any:
		if was, _ := sent.([]any); s.shape == shapeKeyed && len(was) > 0 {
			orderElements(at, was, s)
		}
	}
}

func orderElements(at, was []any, s *schema) {
	if !inOrder(at, was, s) {
		rank := make(map[string]int, len(was))
		for i, e := range was {
			rank[keyOf(e, s)] = i - len(was)
		}
		slices.SortStableFunc(at, func(a, b any) int { return rank[keyOf(a, s)] - rank[keyOf(b, s)] })
	}
	for _, e := range at {
		if i := indexOf(was, s.keys, keyOf(e, s)); i >= 0 {
			order(e, was[i], s.elem)
		}
	}
}

// inOrder reports whether at begins with the elements of was.
func inOrder(at, was []any, s *schema) bool {
	if len(at) < len(was) {
		return false
	}
	for i := range was {
		if keyOf(at[i], s) != keyOf(was[i], s) {
			return false
		}
	}
	return true
}

// storeRecord stores the record on the merged object. It stays as it is stored where
// nothing else changes: then a policy refuses to change it.
func (m *merger) storeRecord() error {
	same := equalJSON(m.into.root["spec"], m.old["spec"]) && equalJSON(lookup(m.into.root, vmSchema(), vmLabels), lookup(m.old, vmSchema(), vmLabels))
	switch {
	case m.unreadable || same && !m.selects():
		m.keepText(m.into)
	case m.into.rec.Empty():
		m.into.dropProvenance(m.into.rec)
	default:
		return m.into.annotate()
	}
	return nil
}

// forgetGone drops what the record says of containers that are gone.
func (w *resolution) forgetGone(n *provenance.Node, v any, s *schema) {
	for c := range n.Children() {
		path := provenance.Path{c.Segment()}
		at := lookup(v, s, path)
		if at == nil {
			c.WasEmpty = false
		}
		step := s.step(c.Segment())
		if step == nil {
			step = &schema{}
		}
		w.forgetGone(c, at, step)
	}
}

// notes say what of the author's change was undone, and what stays although presets
// give it no longer.
func (m *merger) notes() []string {
	var out []string
	for p, n := range m.into.rec.Decided() {
		if n.Now || ownerOf(p)&runState != 0 {
			continue
		}
		if note := m.undone(p, m.into.rec.Sources[n.Source]); note != "" {
			out = append(out, note)
		}
	}
	for _, p := range m.kept {
		if p.HasPrefix(volumesPath) {
			out = append(out, fmt.Sprintf("%s stays, because updates never remove storage; %s removes it", p, v1alpha1.AnnotationReapply))
		}
	}
	return out
}

// fromStored reports whether the update is an edit of the stored object: only then has
// it the stored record, and says of a field that it lacks that it is to be removed.
func (m *merger) fromStored() bool {
	return m.text != "" && annotations(m.sent)[v1alpha1.AnnotationProvenance] == m.text
}

// undone says that a change of the field at p was undone, if it was.
func (m *merger) undone(p provenance.Path, s provenance.Source) string {
	sent, is := lookup(m.sent, vmSchema(), p), lookup(m.into.root, vmSchema(), p)
	removed := m.fromStored() && sent == nil && is != nil && !p.InList()
	changed := sent != nil && !unchanged(is, sent, vmSchema().at(p))
	switch {
	case s.Role.Outranks() && (removed || changed):
		return fmt.Sprintf("preset %s keeps %s at %s", s.Preset, p, showOrAbsent(is))
	case s.Role == provenance.Default && removed:
		return fmt.Sprintf("preset %s gives %s again; to keep it away, add %s:%s to %s", s.Preset, p, s.Preset, p, v1alpha1.AnnotationExclude)
	}
	return ""
}

func showOrAbsent(v any) string {
	if v == nil {
		return "absent"
	}
	return show(v)
}

// mergeForbids records the presets that forbid something and match from now on.
func (m *merger) mergeForbids() {
	for _, s := range m.b.rec.Sources {
		if s.Role == provenance.Forbid && !m.a.enforces(s) {
			m.into.rec.AddSource(s)
		}
	}
}

// stillForbids reports whether a recorded source that forbids something matches still,
// as far as the update concerns it.
func (m *merger) stillForbids(s provenance.Source) bool { return !m.a.enforces(s) || m.b.enforces(s) }

func (x *expansion) enforces(s provenance.Source) bool {
	return slices.ContainsFunc(x.enforced, func(c *Compiled) bool { return c.Ref == s.Preset })
}

// newProblems are the problems of the update that the stored object has not.
func (m *merger) newProblems() field.ErrorList {
	problems := slices.Clone(m.b.unmatched)
	for _, e := range m.b.problems {
		if !slices.ContainsFunc(m.a.problems, func(o *field.Error) bool { return e.Error() == o.Error() }) {
			problems = append(problems, e)
		}
	}
	for _, v := range m.into.violations(m.b.enforced) {
		was := lookup(m.old, vmSchema(), v.path)
		known := slices.Contains(m.a.enforced, v.preset) || wasExcepted(m.a.query.recorded, v.preset.Ref)
		if !known || was == nil || Grows(was, v.value) {
			problems = append(problems, v.problem())
		}
	}
	return problems
}

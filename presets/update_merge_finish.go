package presets

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// finish returns the merged VM, or a rejection with the problems that the update causes.
func (m *merger) finish() (*Result, error) {
	r, match := m.result, m.after.match
	r.notes, r.warnEverything = m.after.notes, m.after.warnEverything
	if problems := m.newProblems(); len(problems) > 0 {
		rejection := r.rejection(problems)
		rejection.OverBudget = match.overBudget
		return nil, rejection
	}
	r.unshare(runStateFields[0])
	m.setRunState(r.root)
	if m.stamps != nil {
		r.unshare(vmAnnotations.Field(v1alpha1.AnnotationRolledOut))
		m.setStamps(r.root)
	}
	m.releaseRunState()
	restoreOrder(r.root["spec"], m.sent["spec"], vmschema.VM().Field("spec"))
	m.collectNews()
	effects, notes := r.effects(), m.notes()
	r.forgetAbsent(r.record.Root(), r.root, vmschema.VM())
	m.mergeRepaired()
	r.record.DropUnused(m.stillForbids)
	if m.only != nil { // there and back is the same record
		r.record.Reorder(m.after.record.Sources)
	}
	if err := m.storeRecord(); err != nil {
		return nil, err
	}
	return &Result{
		Record: r.record, Matched: match.presets, OverBudget: match.overBudget, Conflicts: r.conflicts, state: r,
		Warnings: limitWarnings(append(notes, r.warnings(effects, match, nil)...)),
		Audit:    audit(effects, nil),
		Patch:    diff(m.sent, r.root, vmschema.VM()),
	}, nil
}

func (m *merger) collectNews() {
	known := sets.Set[string]{}
	for _, c := range m.before.conflicts {
		known.Insert(c.String())
	}
	m.result.conflicts = slices.DeleteFunc(m.after.conflicts, func(c Conflict) bool { return known.Has(c.String()) })
	m.result.skips = slices.DeleteFunc(m.after.skips, func(s Skipped) bool {
		return slices.ContainsFunc(m.before.skips, func(o Skipped) bool { return reflect.DeepEqual(s, o) })
	})
	if m.only != nil {
		return
	}
	before, after, snapshot := m.before.query, m.after.query, m.after.snapshot
	m.result.suggestions = append(snapshot.labelTypos(after, before.labels), snapshot.idleExclusions(after, before.selection.excluded)...)
}

func (m *merger) newProblems() field.ErrorList {
	problems := slices.Clone(m.after.matchErrs)
	for _, e := range m.after.problems {
		if !slices.ContainsFunc(m.before.problems, func(o *field.Error) bool { return e.Error() == o.Error() }) {
			problems = append(problems, e)
		}
	}
	for _, v := range m.result.violations(m.after.enforced) {
		if m.only == nil && m.after.query.exceptionFor(m.after.snapshot, v.preset) != nil {
			continue // it began after the last update of spec or labels
		}
		wasChecked := slices.Contains(m.before.enforced, v.preset) || wasExcepted(m.before.query.recordedExceptions, v.preset.Ref)
		if !wasChecked || !v.isIn(m.old) {
			problems = append(problems, v.problem)
		} else if !m.enforcing[v.preset.Ref] {
			m.excused = append(m.excused, v.preset.Ref)
		}
	}
	return problems
}

// releaseRunState removes the run state from the record if its author changed it, or if a reapply
// of its preset finds it: from then on, it is the author's.
func (m *merger) releaseRunState() {
	for _, p := range runStateFields {
		n := m.result.record.At(p)
		if n == nil {
			continue
		}
		isReapplied := n.IsDecided() && slices.Contains(m.only, m.result.record.Sources[n.Source].Preset)
		if isReapplied || !tree.Equal(vmschema.Value(m.old, p), vmschema.Value(m.result.root, p)) {
			n.ClearSubtree()
		}
	}
}

// restoreOrder sorts the elements of keyed lists as the author sent them. Others follow.
func restoreOrder(v, sent any, s *vmschema.Schema) {
	switch v := v.(type) {
	case map[string]any:
		fields := tree.AsObject(sent)
		for name, sub := range v {
			if fields[name] != nil {
				restoreOrder(sub, fields[name], s.Field(name))
			}
		}
	case []any:
		if list, _ := sent.([]any); s.Shape == vmschema.Keyed && len(list) > 0 {
			restoreElementOrder(v, list, s)
		}
	}
}

func restoreElementOrder(list, sent []any, s *vmschema.Schema) {
	sameKey := func(a, b any) bool { return s.KeyOf(a) == s.KeyOf(b) }
	if len(list) < len(sent) || !slices.EqualFunc(list[:len(sent)], sent, sameKey) {
		rank := make(map[string]int, len(sent))
		for i, e := range sent {
			rank[s.KeyOf(e)] = i - len(sent)
		}
		slices.SortStableFunc(list, func(a, b any) int { return rank[s.KeyOf(a)] - rank[s.KeyOf(b)] })
	}
	for _, e := range list {
		if as := s.ElementOf(sent, s.KeyOf(e)); as != nil {
			restoreOrder(e, as, s.Elem)
		}
	}
}

// storeRecord keeps the stored text while neither the VM nor the source of a field changes.
func (m *merger) storeRecord() error {
	isSame := tree.Equal(m.result.root["spec"], m.old["spec"]) && !differAt(m.result.root, m.old, vmLabels)
	switch {
	case m.recordUnreadable || isSame && !m.selectionChanged() && !m.reapplies() && !m.hasNewSources():
		m.keepRecordText(m.result)
	case m.result.record.Empty():
		m.result.dropProvenance(m.result.record)
	default:
		return m.result.annotate()
	}
	return nil
}

// hasNewSources reports whether other presets give fields, forbid or require than before. The
// values may be equal: the author may leave fields to presets that give the same.
func (m *merger) hasNewSources() bool {
	stored, err := provenance.Decode(m.recordText) // u.record is the result now
	if err != nil {
		stored = provenance.New()
	}
	return !maps.Equal(givers(stored), givers(m.result.record)) || !maps.Equal(m.enforcing, enforcers(m.result.record))
}

// enforcers are the presets in a record because they forbid or require.
func enforcers(of *provenance.Record) map[string]bool {
	out := map[string]bool{}
	for _, s := range of.Sources {
		if s.Role == provenance.Forbid {
			out[s.Preset] = true
		}
	}
	return out
}

type giver struct {
	preset string
	role   provenance.Role
}

func givers(of *provenance.Record) map[string]giver {
	out := map[string]giver{}
	for p, n := range of.Decided() {
		s := of.Sources[n.Source]
		out[p.String()] = giver{s.Preset, s.Role}
	}
	return out
}

// forgetAbsent removes from the record that absent containers were written empty.
func (r *mergeState) forgetAbsent(n *provenance.Node, v any, s *vmschema.Schema) {
	for c := range n.Children() {
		value := s.ValueAt(v, provenance.Path{c.Segment()})
		if value == nil {
			c.EmptyByUser = false
		}
		step := s.Step(c.Segment())
		if step == nil {
			step = &vmschema.Schema{}
		}
		r.forgetAbsent(c, value, step)
	}
}

func (m *merger) notes() []string {
	var out []string
	for p, n := range m.result.record.Decided() {
		if n.DecidedNow || ownerOf(p)&runState != 0 {
			continue
		}
		if note := m.undoneChange(m.orRemovedList(p), m.result.record.Sources[n.Source]); note != "" && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	for _, p := range m.keptStorage {
		if p.HasPrefix(vmschema.Volumes) {
			out = append(out, fmt.Sprintf("%s stays, because updates never remove storage; %s removes it", p, v1alpha1.AnnotationReapply))
		}
	}
	return out
}

// undoneChange describes how a source undid the author's change of the field at p, if it did.
func (m *merger) undoneChange(p provenance.Path, s provenance.Source) string {
	sent, is := vmschema.Value(m.sent, p), vmschema.Value(m.result.root, p)
	removed := m.isRemovedByAuthor(p)
	switch {
	case s.Role == provenance.Default && removed:
		return fmt.Sprintf("preset %s sets %s again; to exclude it, add %s:%s to %s", s.Preset, p, s.Preset, p, v1alpha1.AnnotationExclude)
	case !removed && (sent == nil || sameValue(is, sent, vmschema.VM().At(p))):
	case s.Role == provenance.Remove:
		return fmt.Sprintf("preset %s removes %s: it stays absent", s.Preset, p)
	case s.Role == provenance.Override && is == nil:
		return fmt.Sprintf("preset %s sets an alternative of %s: it stays absent", s.Preset, p)
	case s.Role == provenance.Override:
		return fmt.Sprintf("preset %s overrides %s: it stays %s", s.Preset, p, tree.Show(is))
	}
	return ""
}

// orRemovedList returns the list around p if the author removed it, and else p. Storage stays, with
// a warning of its own.
func (m *merger) orRemovedList(p provenance.Path) provenance.Path {
	if list := enclosingList(p); list != nil && !isStorage(list) && m.isRemovedByAuthor(list) {
		return list
	}
	return p
}

// enclosingList returns the list that p lies in; nil if it lies in none.
func enclosingList(p provenance.Path) provenance.Path {
	if i := p.ElementIndex(); i >= 0 {
		return p[:i]
	}
	return nil
}

// isStorage reports whether a list stays on updates.
func isStorage(list provenance.Path) bool {
	return list.Equal(vmschema.Volumes) || list.Equal(vmschema.DataVolumeTemplates) || slices.ContainsFunc(vmschema.VolumeDevices, list.Equal)
}

// isRemovedByAuthor reports whether the author removed the field at p, which the result has. Only
// an edit of the stored VM removes a field by leaving it out; a manifest does not.
func (m *merger) isRemovedByAuthor(p provenance.Path) bool {
	isEdit := m.recordText != "" && annotations(m.sent)[v1alpha1.AnnotationProvenance] == m.recordText
	return isEdit && !p.InList() && vmschema.Value(m.sent, p) == nil && vmschema.Value(m.result.root, p) != nil
}

func (m *merger) mergeForbids() {
	for _, s := range m.after.record.Sources {
		if s.Role == provenance.Forbid && (!m.before.enforces(s) || slices.Contains(m.only, s.Preset)) {
			m.result.record.AddSource(s)
		}
	}
}

// mergeRepaired records presets whose rules the stored VM broke, and the merged one keeps.
func (m *merger) mergeRepaired() {
	recorded := enforcers(m.result.record)
	for _, c := range m.after.enforced {
		one := []*Compiled{c}
		if !recorded[c.Ref] && c.HasRules() && len((&mergeState{root: m.old}).violations(one)) > 0 && len(m.result.violations(one)) == 0 {
			m.result.record.AddSource(c.source(provenance.Forbid))
		}
	}
}

// stillForbids reports whether the rules of a recorded preset stay in the record. They leave it
// when the author's change stops the preset from matching. They do not enter it while the VM keeps
// what breaks them and was there before: VMIs are checked by the record.
func (m *merger) stillForbids(s provenance.Source) bool {
	if slices.Contains(m.excused, s.Preset) {
		return false
	}
	if slices.Contains(m.only, s.Preset) {
		return slices.Contains(m.after.record.Sources, s)
	}
	return !m.before.enforces(s) || m.after.enforces(s)
}

func (x *expansion) enforces(s provenance.Source) bool {
	return slices.ContainsFunc(x.enforced, func(c *Compiled) bool { return c.Ref == s.Preset })
}

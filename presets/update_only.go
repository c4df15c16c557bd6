package presets

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
)

// A RevisionFinder finds a preset in an earlier revision, by a source of a record. It returns nil
// if that revision is not kept, and an error if it cannot be looked up.
type RevisionFinder func(PresetName, provenance.Source) (*Compiled, error)

// reapplyNames reads the names of presets from a value of virtwright.dev/reapply that begins with
// "only:", as in only:cluster/size-small,web 2026-11-26. It returns nil for other values.
func reapplyNames(value string) []string {
	list, ok := strings.CutPrefix(value, v1alpha1.ReapplyOnlyPrefix)
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, " ")
	return strings.Split(list, ",")
}

// maxReapplied is the most presets that a targeted reapply names.
const maxReapplied = 16

// checkReapplied checks the names of presets, and that only these change the VM.
func (u *update) checkReapplied(only []string, before, after map[string]any) field.ErrorList {
	if !tree.Equal(before["spec"], after["spec"]) || differAt(before, after, vmLabels) || u.selectionChanged() {
		return field.ErrorList{field.Forbidden(u.reapplyPath(), "a reapply of some presets must not change spec, labels or the annotations that select presets: "+
			"make that change in a request of its own")}
	}
	if len(only) > maxReapplied {
		return field.ErrorList{field.TooMany(u.reapplyPath(), len(only), maxReapplied)}
	}
	for i, ref := range only {
		if ref == "" || slices.Contains(only[:i], ref) {
			return field.ErrorList{field.Invalid(u.reapplyPath(), strings.Join(only, ","), "must name presets, each once: only:cluster/size-small,web")}
		}
	}
	return nil
}

// reapplyOnly brings the current revision of some presets to a stored VM, and nothing else.
//
// It is a merge, like an author's update. The user intent is expanded twice, by the presets that
// the record names in their recorded revisions; the second time, the presets of only have their
// current revision. What differs between both expansions changes in the stored VM. If the record
// names several revisions of a preset, they are brought up to date one after the other, oldest
// first.
func (u *update) reapplyOnly(ctx context.Context, only []string) (*Result, error) {
	before, after := u.userIntent(u.old), u.sentIntent(u.record)
	if problems := u.checkReapplied(only, before, after); len(problems) > 0 {
		return nil, &Rejection{Problems: problems}
	}
	recorded, err := u.recordedRevisions(only)
	if err != nil {
		return nil, err
	}
	current, err := u.addIdle(ctx, &recorded, before, only)
	if err != nil {
		return nil, err
	}
	exceptions := slices.Clone(u.record.Exceptions)
	m := &merger{update: u, only: only, result: u.mergeBase()}
	for round := range recorded.rounds {
		if m.before, err = u.expandRecorded(ctx, &recorded, round, before); err != nil {
			return nil, err
		}
		if m.after, err = u.expandOnly(ctx, recorded.reapplied(u), after, exceptions, only); err != nil {
			return nil, err
		}
		m.after.matchErrs = append(m.after.matchErrs, m.after.unevaluableLosses()...)
		m.unevaluable = slices.Concat(recorded.missing, m.before.match.unevaluable, m.after.match.unevaluable)
		m.after.exclude(m.unevaluable)
		u.engine.apply(m.after)
		m.run()
	}
	u.record.Exceptions = mergeExceptions(exceptions, m.after.record.Exceptions, only)
	out, err := m.finish()
	if err != nil {
		return nil, err
	}
	return out, u.checkCurrent(current, m.result)
}

// checkCurrent rejects values that rules of current presets forbid, and that the stored VM lacks.
func (u *update) checkCurrent(current *expansion, after *mergeState) error {
	if problems := problemsOf(notIn(&mergeState{root: u.old}, after.violations(current.enforced))); len(problems) > 0 {
		return after.rejection(problems)
	}
	return nil
}

// addIdle adds the presets that match now and that the record does not name. If they are not new,
// they have lost every field to others. It returns the expansion by all current presets.
func (u *update) addIdle(ctx context.Context, to *revisions, intent map[string]any, only []string) (*expansion, error) {
	x, err := u.expand(ctx, copyMutable(intent), nil)
	if err != nil {
		return nil, err
	}
	for _, c := range x.enforced {
		isRecorded := slices.ContainsFunc(u.record.Sources, func(s provenance.Source) bool { return s.Preset == c.Ref })
		if !isRecorded && !c.legacy && !slices.Contains(only, c.Ref) {
			to.idle = append(to.idle, c)
		}
	}
	return x, nil
}

// expandRecorded expands an intent by the recorded revisions, and drops idle presets that act on
// it: they are new.
func (u *update) expandRecorded(ctx context.Context, recorded *revisions, round int, intent map[string]any) (*expansion, error) {
	for {
		x, err := u.expandOnly(ctx, recorded.snapshot(u, round), intent, u.record.Exceptions, nil)
		if err != nil {
			return nil, err
		}
		x.exclude(slices.Concat(recorded.missing, x.match.unevaluable))
		u.engine.apply(x)
		before := len(recorded.idle)
		recorded.idle = slices.DeleteFunc(recorded.idle, func(c *Compiled) bool {
			return slices.ContainsFunc(x.record.Sources, func(s provenance.Source) bool { return s.Preset == c.Ref })
		})
		if len(recorded.idle) == before {
			return x, nil
		}
	}
}

// reapplyPath is the annotation that asks for the reapply.
func (u *update) reapplyPath() *field.Path {
	key := v1alpha1.AnnotationReapply
	if u.requests(v1alpha1.AnnotationRolledOut) {
		key = v1alpha1.AnnotationRolledOut
	}
	return field.NewPath("metadata", "annotations").Key(key)
}

// expandOnly prepares an expansion by other presets than the current ones. Problems of the VM's
// annotations that choose presets are old.
func (u *update) expandOnly(ctx context.Context, s *Snapshot, intent map[string]any, exceptions []provenance.Exception, only []string) (*expansion, error) {
	r := &mergeState{
		root: copyMutable(intent), record: provenance.New(), stored: true, previousSources: u.record.Sources, lenient: true, keepsRunState: true,
		recordedExceptions: append([]provenance.Exception{}, exceptions...), reapplied: only,
	}
	x, err := u.engine.prepare(ctx, s, r, u.req)
	if err == nil {
		x.match.warnings = nil
	}
	return x, err
}

// revisions are the presets of a record.
type revisions struct {
	idle    []*Compiled   // presets that match, and that the record does not name
	others  []*Compiled   // presets that are not reapplied
	named   [][]*Compiled // the recorded revisions of each preset that is reapplied, oldest first
	current []*Compiled   // presets that are reapplied
	missing []*Compiled   // presets whose revision is not kept: what they set stays as it is
	rounds  int
}

// recordedRevisions finds the presets that the record names, and the current revisions of those
// that are reapplied.
func (u *update) recordedRevisions(only []string) (revisions, error) {
	out := revisions{rounds: 1}
	sources := u.sourcesOfPresets()
	problems := u.findCurrent(&out, sources, only)
	for _, ref := range slices.Sorted(maps.Keys(sources)) {
		of := sources[ref]
		isReapplied := slices.Contains(only, ref)
		if !isReapplied {
			of = of[len(of)-1:]
		}
		found, missing, err := u.findAll(of, isReapplied)
		if err != nil {
			return out, err
		}
		switch {
		case isReapplied && len(missing) > 0:
			problems = append(problems, u.unknownChange(ref, missing[0].Generation))
		case isReapplied:
			out.named = append(out.named, found)
			out.rounds = max(out.rounds, len(found))
		case len(missing) > 0:
			out.missing = append(out.missing, &Compiled{Ref: ref})
		default:
			out.others = append(out.others, found...)
		}
	}
	if len(problems) > 0 {
		return out, &Rejection{Problems: problems}
	}
	return out, nil
}

// sourcesOfPresets returns the sources of each preset in the record, a source for each generation,
// oldest first.
func (u *update) sourcesOfPresets() map[string][]provenance.Source {
	out := map[string][]provenance.Source{}
	for _, s := range u.record.Sources {
		if s.Role != provenance.Platform && s.Role != provenance.Legacy {
			out[s.Preset] = append(out[s.Preset], s)
		}
	}
	for ref, of := range out {
		slices.SortFunc(of, func(a, b provenance.Source) int { return cmp.Compare(a.Generation, b.Generation) })
		out[ref] = slices.CompactFunc(of, func(a, b provenance.Source) bool { return a.Generation == b.Generation })
	}
	return out
}

// findCurrent adds the current revisions of the presets of only. One that was deleted has none.
func (u *update) findCurrent(to *revisions, sources map[string][]provenance.Source, only []string) field.ErrorList {
	var problems field.ErrorList
	namespace := u.req.Namespace.Name
	for _, ref := range only {
		c, exists := u.snapshot.Lookup(namespace, ref)
		switch {
		case exists:
			to.current = append(to.current, c)
		case u.snapshot.broken[ParseRef(namespace, ref)]:
			problems = append(problems, field.Invalid(u.reapplyPath(), ref, "preset is invalid: see its status"))
		case sources[ref] == nil && !u.requests(v1alpha1.AnnotationRolledOut): // a rollout may take it back
			problems = append(problems, field.Invalid(u.reapplyPath(), ref, "preset does not exist"+u.snapshot.suggestion(namespace, ref)))
		}
	}
	return problems
}

// unknownChange says why a revision of a preset is not kept.
func (u *update) unknownChange(ref string, generation int64) *field.Error {
	why := "which is no longer kept"
	if c, exists := u.snapshot.Lookup(u.req.Namespace.Name, ref); !exists {
		why = "which was deleted with its revisions"
	} else if c.Generation < generation {
		why = "which was deleted with its revisions and created again"
	}
	return field.Forbidden(u.reapplyPath(), fmt.Sprintf("the VM has revision %d of preset %s, %s, so the change of this preset is unknown: reapply all presets",
		generation, ref, why))
}

// findAll finds the presets of sources, and returns the sources whose revision is not kept.
func (u *update) findAll(of []provenance.Source, isReapplied bool) (found []*Compiled, missing []provenance.Source, err error) {
	for _, s := range of {
		c, err := u.revision(s, isReapplied)
		if err != nil {
			return nil, nil, err
		}
		if c == nil {
			missing = append(missing, s)
		} else {
			found = append(found, c)
		}
	}
	return found, missing, nil
}

// revision returns the preset that a source names; nil if its revision is not kept. Instead of a
// revision that is not reapplied, it may return another that sets the same values.
func (u *update) revision(s provenance.Source, isReapplied bool) (*Compiled, error) {
	current, exists := u.snapshot.Lookup(u.req.Namespace.Name, s.Preset)
	equal := exists && s.Hash == current.hash
	if exists && current.Generation == s.Generation && (equal || s.Hash == "") {
		return current, nil
	}
	kept, err := u.keptRevision(s)
	if kept == nil && err == nil && equal && !isReapplied {
		return current, nil
	}
	return kept, err
}

func (u *update) keptRevision(s provenance.Source) (*Compiled, error) {
	if u.req.Revisions == nil {
		return nil, nil
	}
	return u.req.Revisions(ParseRef(u.req.Namespace.Name, s.Preset), s)
}

// snapshot has the recorded revisions. Those of reapplied presets are the oldest ones in round 0.
func (v *revisions) snapshot(u *update, round int) *Snapshot {
	all := slices.Concat(v.others, v.idle)
	for _, of := range v.named {
		if len(of) > 0 {
			all = append(all, of[min(round, len(of)-1)])
		}
	}
	return u.snapshotOf(all)
}

// reapplied has the current revisions of reapplied presets.
func (v *revisions) reapplied(u *update) *Snapshot {
	return u.snapshotOf(slices.Concat(v.others, v.idle, v.current))
}

func (u *update) snapshotOf(all []*Compiled) *Snapshot {
	s := NewSnapshot(all, nil)
	s.exceptions, s.now = u.snapshot.exceptions, u.snapshot.now
	return s
}

// mergeExceptions returns the recorded exceptions, but the current ones from the presets of only.
func mergeExceptions(recorded, current []provenance.Exception, only []string) []provenance.Exception {
	var out []provenance.Exception
	for _, e := range recorded {
		for _, ref := range e.Presets {
			if !slices.Contains(only, ref) {
				out = addException(out, e.Name, ref)
			}
		}
	}
	for _, e := range current {
		for _, ref := range e.Presets {
			out = addException(out, e.Name, ref)
		}
	}
	slices.SortFunc(out, func(a, b provenance.Exception) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

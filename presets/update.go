package presets

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

type update struct {
	engine   *Engine
	snapshot *Snapshot
	req      Request
	// old is the stored VM, sent the VM of the request.
	old, sent map[string]any
	// record is that of the stored VM; the one that was sent does not count.
	record *provenance.Record
	// enforcing are the presets that it has because they forbid or require.
	enforcing map[string]bool
	// recordText is the stored record. If it cannot be read, it stays, and users own every field.
	recordText       string
	recordUnreadable bool
	// stamps is the new value of virtwright.dev/rolled-out; nil for the one that was sent.
	stamps *string
}

// update resolves an update of a VM; VMIs are expanded only when they are created.
//
// An update is a three-way merge. The user intent of a VM is the VM without the values that presets
// and the platform set, as its record says. The stored and the sent intent are both expanded with
// the current presets. The fields that differ between these two expansions change in the stored VM;
// all others keep their value and their record. So with unchanged presets the result is the
// expansion of the sent intent, and changed presets reach a VM only where its author's change
// concerns them.
//
// The VM is not expanded if neither spec, labels nor annotations changed, if the writer is trusted,
// or if the VM is being deleted. With virtwright.dev/reapply, the result
// is the expansion of the sent intent, unless its value names some presets (update_only.go).
func (e *Engine) update(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	isRollout := annotations(r.root)[v1alpha1.AnnotationRolledOut] != nil
	if req.Trusted && !isRollout || req.Kind == VirtualMachineInstance || vmschema.Value(r.root, deletion) != nil {
		return &Result{state: r}, nil
	}
	u := &update{engine: e, snapshot: s, req: req, sent: r.root}
	if u.old, err = decode("stored object", req.OldObject); err != nil {
		return nil, err
	}
	if problems := checkRequiredParents(u.old); len(problems) > 0 {
		return nil, &Rejection{Problems: problems}
	}
	u.readRecord()
	out, err := u.answer(ctx)
	if err != nil {
		return nil, err
	}
	out.Patch = r.withDecimalOps(out.Patch)
	return out, nil
}

func (u *update) readRecord() {
	u.recordText = tree.AsText(vmschema.Value(u.old, provenanceOn(VirtualMachine)))
	stored, err := provenance.Decode(u.recordText)
	if err != nil {
		stored = provenance.New()
	}
	u.record, u.recordUnreadable = stored, err != nil && u.recordText != ""
	u.enforcing = enforcers(stored)
}

func (u *update) answer(ctx context.Context) (*Result, error) {
	switch {
	case u.requests(v1alpha1.AnnotationRolledOut):
		stamp := tree.AsText(annotations(u.sent)[v1alpha1.AnnotationRolledOut])
		if err := u.snapshot.checkStamp(stamp); err != nil {
			return nil, err
		}
		u.stamps = new(u.snapshot.withStamp(tree.AsText(annotations(u.old)[v1alpha1.AnnotationRolledOut]), stamp))
		return u.reapplyOnly(ctx, reapplyNames(stamp))
	case u.req.Trusted:
		return &Result{state: &mergeState{root: u.sent}}, nil
	case u.requests(v1alpha1.AnnotationReapply):
		only := reapplyNames(tree.AsText(annotations(u.sent)[v1alpha1.AnnotationReapply]))
		if before := tree.AsText(annotations(u.sent)[v1alpha1.AnnotationRolledOut]); before != "" {
			u.stamps = new(u.snapshot.withoutHeld(before, only))
		}
		if only != nil {
			return u.reapplyOnly(ctx, only)
		}
		return u.reapply(ctx)
	case u.isRelevant():
		return u.merge(ctx)
	}
	return u.keepRecord(), nil
}

var (
	deletion      = provenance.Of("metadata", "deletionTimestamp")
	vmLabels      = provenance.Of("metadata", "labels")
	vmAnnotations = provenance.Of("metadata", "annotations")
)

// isRelevant reports whether the update changes a field that expansion depends on.
func (u *update) isRelevant() bool {
	lacksRecord := u.recordText != "" && annotations(u.sent)[v1alpha1.AnnotationProvenance] == nil // a manifest
	return lacksRecord || u.sentBothRunStates() || differAt(u.old, u.sent, vmLabels) || u.selectionChanged() || u.annotationsDiffer() ||
		!tree.Equal(withoutRunState(u.old["spec"]), withoutRunState(u.sent["spec"]))
}

// annotationsDiffer reports whether an annotation differs that a preset may set or read.
func (u *update) annotationsDiffer() bool {
	ofPresets := func(vm map[string]any) map[string]any {
		out := maps.Clone(annotations(vm))
		maps.DeleteFunc(out, func(key string, _ any) bool {
			return strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") || key == corev1.LastAppliedConfigAnnotation
		})
		return out
	}
	return !tree.Equal(ofPresets(u.old), ofPresets(u.sent))
}

func (u *update) selectionChanged() bool {
	return u.annotationDiffers(v1alpha1.AnnotationPresets) || u.annotationDiffers(v1alpha1.AnnotationExclude)
}

func (u *update) reapplies() bool {
	return u.requests(v1alpha1.AnnotationReapply) || u.requests(v1alpha1.AnnotationRolledOut)
}

// requests reports whether an annotation that requests a reapply has a new value.
func (u *update) requests(annotation string) bool {
	return u.annotationDiffers(annotation) && annotations(u.sent)[annotation] != nil
}

func annotations(vm map[string]any) map[string]any {
	return tree.AsObject(vmschema.Value(vm, vmAnnotations))
}

func (u *update) annotationDiffers(key string) bool {
	return !tree.Equal(annotations(u.old)[key], annotations(u.sent)[key])
}

func withoutRunState(spec any) map[string]any {
	out := maps.Clone(tree.AsObject(spec))
	delete(out, "running")
	delete(out, "runStrategy")
	return out
}

func differAt(a, b map[string]any, p provenance.Path) bool {
	return !tree.Equal(vmschema.Value(a, p), vmschema.Value(b, p))
}

func (u *update) keepRecord() *Result {
	r := &mergeState{root: u.sent, record: provenance.New()}
	u.keepRecordText(r)
	return &Result{Patch: r.patch(), Record: u.record, state: r}
}

func (u *update) keepRecordText(r *mergeState) {
	key := v1alpha1.AnnotationProvenance
	switch at := r.holderOf(provenanceOn(VirtualMachine)); {
	case u.recordText != "" && at.get(key) != u.recordText:
		at.set(key, u.recordText)
	case u.recordText == "" && at.get(key) != nil:
		at.remove(r.record.Child(at.record(), provenance.Segment{Name: key}))
	}
}

// userIntent returns the user intent of vm, the stored or the sent object. Both get the same run
// state, because users change it, not presets.
func (u *update) userIntent(vm map[string]any) map[string]any { return u.intentBy(u.record, vm) }

// intentBy is userIntent by another record.
func (u *update) intentBy(record *provenance.Record, vm map[string]any) map[string]any {
	root := copyMutable(vm)
	r := &mergeState{root: root}
	r.dropProvenance(record)
	unapply{rec: record, update: true}.value(record.Root(), root, u.old, vmschema.VM())
	u.setRunState(root)
	for _, p := range matcherPaths { // KubeVirt adds a kind to a preset's matcher
		fields := tree.AsObject(vmschema.Value(root, p))
		if fields != nil && record.At(p.Field("name")).IsDecided() && fields["name"] == nil && fields["inferFromVolume"] == nil {
			r.unset(p)
		}
	}
	return root
}

// copyMutable returns vm with copies of what expansion may change: spec, labels and annotations.
func copyMutable(vm map[string]any) map[string]any {
	out := maps.Clone(vm)
	if v := vm["spec"]; v != nil {
		out["spec"] = tree.Clone(v)
	}
	if fields, ok := vm["metadata"].(map[string]any); ok {
		meta := maps.Clone(fields)
		for _, name := range []string{"labels", "annotations"} {
			if v := meta[name]; v != nil {
				meta[name] = tree.Clone(v)
			}
		}
		out["metadata"] = meta
	}
	return out
}

// runState is an object with the run state that was sent, or else the stored one. If the author
// sets one of the two fields, the other is dropped unless it is the author's, too.
func (u *update) runState() map[string]any {
	sent, old := tree.AsObject(u.sent["spec"]), tree.AsObject(u.old["spec"])
	if sent["running"] == nil && sent["runStrategy"] == nil {
		return old
	}
	if u.sentBothRunStates() {
		for i, p := range runStateFields {
			name, other := p[1].Name, runStateFields[1-i]
			if !tree.Equal(sent[name], old[name]) && tree.Equal(sent[other[1].Name], old[other[1].Name]) && u.record.At(other).IsDecided() {
				return map[string]any{name: sent[name]}
			}
		}
	}
	return sent
}

func (u *update) sentBothRunStates() bool {
	spec := tree.AsObject(u.sent["spec"])
	return spec["running"] != nil && spec["runStrategy"] != nil
}

// setRunState gives a VM the run state.
func (u *update) setRunState(vm map[string]any) {
	from := u.runState()
	spec := tree.AsObject(vm["spec"])
	for _, name := range []string{"running", "runStrategy"} {
		switch v := from[name]; {
		case v == nil:
			delete(spec, name)
		case spec == nil:
			spec = map[string]any{name: v}
			vm["spec"] = spec
		default:
			spec[name] = v
		}
	}
}

// expand prepares the expansion of an intent. Recorded exceptions, unless nil, replace current
// ones.
func (u *update) expand(ctx context.Context, intent map[string]any, recorded []provenance.Exception) (*expansion, error) {
	r := &mergeState{root: intent, recordedExceptions: recorded, record: provenance.New(), stored: true, previousSources: u.record.Sources, keepsRunState: !u.reapplies(), lenient: !u.reapplies() && !u.selectionChanged()}
	return u.engine.prepare(ctx, u.snapshot, r, u.req)
}

func (u *update) reapply(ctx context.Context) (*Result, error) {
	x, err := u.expand(ctx, u.sentIntent(u.record), nil)
	if err != nil {
		return nil, err
	}
	x.matchErrs = append(x.matchErrs, x.unevaluableLosses()...)
	x.match.warnings = append(x.match.warnings, x.ended(u.record.Exceptions)...)
	u.engine.apply(x)
	vmschema.VM().KeepSpelling(u.sent, x.root)
	u.setStamps(x.root)
	out, err := u.engine.finish(x)
	if err != nil {
		return nil, err
	}
	out.Patch = diff(u.sent, x.root, vmschema.VM())
	return out, nil
}

// setStamps gives a VM the stamps of rollouts.
func (u *update) setStamps(vm map[string]any) {
	switch all := annotations(vm); {
	case u.stamps == nil || all == nil:
	case *u.stamps == "":
		delete(all, v1alpha1.AnnotationRolledOut)
	default:
		all[v1alpha1.AnnotationRolledOut] = *u.stamps
	}
}

// unevaluableLosses reports presets that set fields, but cannot be evaluated to set them again.
func (x *expansion) unevaluableLosses() field.ErrorList {
	var errs field.ErrorList
	for _, c := range x.match.unevaluable {
		if slices.ContainsFunc(x.previousSources, func(s provenance.Source) bool { return s.Preset == c.Ref }) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationReapply),
				fmt.Sprintf("cannot evaluate the conditions of preset %s: the fields that it set would be lost", c.Ref)).WithOrigin(originPresets+c.Ref))
		}
	}
	return errs
}

func (u *update) merge(ctx context.Context) (*Result, error) {
	from, to := u.userIntent(u.old), u.sentIntent(u.record)
	sameSpec := tree.Equal(from["spec"], to["spec"]) && !differAt(from, to, vmLabels)
	same := sameSpec && !differAt(from, to, vmAnnotations)
	recorded := append([]provenance.Exception{}, u.record.Exceptions...)
	a, err := u.expand(ctx, from, recorded)
	if err != nil {
		return nil, err
	}
	var exceptions []provenance.Exception
	if sameSpec && !u.selectionChanged() { // an exception that has ended lasts until spec or labels change
		exceptions = recorded
	}
	b, err := u.expand(ctx, to, exceptions)
	if err != nil {
		return nil, err
	}
	m := &merger{update: u, before: a, after: b, result: u.mergeBase(), unevaluable: slices.Concat(a.match.unevaluable, b.match.unevaluable)}
	a.exclude(m.unevaluable)
	b.exclude(m.unevaluable)
	if !same {
		if exceptions == nil {
			b.match.warnings = append(b.match.warnings, b.ended(u.record.Exceptions)...)
		}
		if err := m.apply(ctx, exceptions); err != nil {
			return nil, err
		}
		m.run()
	}
	return m.finish()
}

// apply applies the presets to both intents.
func (m *merger) apply(ctx context.Context, exceptions []provenance.Exception) error {
	m.engine.apply(m.before)
	m.engine.apply(m.after)
	record := m.writtenOut()
	if record == nil {
		return nil
	}
	x, err := m.expand(ctx, m.sentIntent(record), exceptions)
	if err != nil {
		return err
	}
	x.match.warnings = m.after.match.warnings
	x.exclude(m.unevaluable)
	m.engine.apply(x)
	m.after = x
	return nil
}

// mergeBase returns the sent VM with the stored spec, labels and annotations, which it shares.
func (u *update) mergeBase() *mergeState {
	root := maps.Clone(u.sent)
	copyOrDelete(root, u.old, "spec")
	meta := map[string]any{}
	maps.Copy(meta, tree.AsObject(u.sent["metadata"]))
	copyOrDelete(meta, tree.AsObject(u.old["metadata"]), "labels")
	copyOrDelete(meta, tree.AsObject(u.old["metadata"]), "annotations")
	if root["metadata"] = meta; len(meta) == 0 && u.sent["metadata"] == nil {
		delete(root, "metadata")
	}
	return &mergeState{root: root, record: u.record}
}

func copyOrDelete(to, from map[string]any, name string) {
	if v := from[name]; v != nil {
		to[name] = v
	} else {
		delete(to, name)
	}
}

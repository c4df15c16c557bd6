package presets

import (
	"context"
	"slices"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// A revision is an update of a VM in progress: a VM keeps what it was given
// until somebody asks.
type revision struct {
	engine *Engine
	snap   *Snapshot
	req    Request
	// old is what is stored and sent what was sent; work starts as sent and is
	// changed in place.
	old, sent map[string]any
	work      *work
	// matched are the presets that matched what is stored, and before those of
	// them whose defaults acted.
	matched, before []*Compiled
	// foreign says that the stored record is of a version that this program
	// cannot read, and so stays as it is.
	foreign string
	// notes for the writer.
	notes []string
}

// update answers an update of a VM; instances are expanded only when created.
//
// What happens depends on what the writer changed:
//
//   - nothing, or run state, or the writer is trusted, or the VM is going: nothing;
//   - spec or labels: leaves that a recorded override governs are put back, leaves of
//     virtwright's that vanished return, forbid rules refuse what is new;
//   - labels or steering annotations: presets that match now and did not
//     before act as on a create;
//   - virtwright.dev/reapply: the VM is expanded anew.
//
// In every case the provenance annotation is recomputed from the stored object.
func (e *Engine) update(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	if req.Trusted || req.Kind == VirtualMachineInstance || lookup(w.root, vmSchema(), deletion) != nil {
		return &Result{w: w}, nil
	}
	notes := e.dropInferred(w)
	old, err := decode("stored object", req.OldObject)
	if err != nil {
		return nil, err
	}
	sent, err := decode("object", req.Object)
	if err != nil {
		return nil, err
	}
	r := &revision{engine: e, snap: s, req: req, old: old, sent: sent, work: w, notes: notes}
	if err := r.loadRecord(); err != nil {
		return nil, err
	}
	return r.run(ctx)
}

var (
	deletion       = provenance.Of("metadata", "deletionTimestamp")
	vmLabels       = provenance.Of("metadata", "labels")
	templateLabels = provenance.Of("spec", "template", "metadata", "labels")
	vmAnnotations  = provenance.Of("metadata", "annotations")
)

// loadRecord reads the record of the stored VM; the one that was sent does not count.
func (r *revision) loadRecord() error {
	if problems := checkSpine(r.old); len(problems) > 0 {
		return &Refusal{Problems: problems}
	}
	text, _ := lookup(r.old, vmSchema(), provenanceOn(VirtualMachine)).(string)
	rec, err := provenance.Decode(text)
	if err != nil {
		rec, r.foreign = provenance.New(), text
	}
	for _, n := range rec.Decided() {
		n.Weak = true
	}
	w := r.work
	w.rec, w.inherited = rec, len(rec.Sources)
	for _, s := range rec.Sources {
		c, _ := r.snap.Lookup(r.req.Namespace.Name, s.Preset)
		w.by = append(w.by, c)
	}
	return nil
}

func (r *revision) run(ctx context.Context) (*Result, error) {
	spec := !equalJSON(withoutRunState(r.old["spec"]), withoutRunState(r.work.root["spec"]))
	labels := r.differs(vmLabels) || r.differs(templateLabels)
	anew := labels || r.steers()
	if anew {
		r.matched, r.before = r.matchBefore(ctx)
	}
	if spec || labels {
		r.reconcile()
	}
	if r.asksAnew() {
		return r.reapply(ctx)
	}
	var m matching
	if spec || anew {
		var err error
		if m, err = r.match(ctx, anew); err != nil {
			return nil, err
		}
	}
	return r.finish(m)
}

// asksAnew reports whether the writer asks for the VM to be expanded anew.
func (r *revision) asksAnew() bool {
	return r.annotationDiffers(v1alpha1.AnnotationReapply) && annotations(r.sent)[v1alpha1.AnnotationReapply] != nil
}

func annotations(vm map[string]any) map[string]any {
	out, _ := lookup(vm, vmSchema(), vmAnnotations).(map[string]any)
	return out
}

func (r *revision) annotationDiffers(key string) bool {
	return !equalJSON(annotations(r.old)[key], annotations(r.sent)[key])
}

func withoutRunState(spec any) map[string]any {
	fields, _ := spec.(map[string]any)
	out := make(map[string]any, len(fields))
	for k, v := range fields {
		if k != "running" && k != "runStrategy" {
			out[k] = v
		}
	}
	return out
}

func (r *revision) differs(p provenance.Path) bool {
	return !equalJSON(lookup(r.old, vmSchema(), p), lookup(r.work.root, vmSchema(), p))
}

// match lets newly matching presets act, where labels or steering changed, and
// checks forbid rules.
func (r *revision) match(ctx context.Context, anew bool) (matching, error) {
	w := r.work
	q := r.query(ctx, w.root)
	m, problems := r.snap.match(q)
	enforced, _ := split(m.presets)
	w.current = slices.Concat(m.presets, m.undecided) // what may match keeps what it gave
	if anew {
		w.applyNew(r, q, slices.DeleteFunc(slices.Clone(enforced), func(c *Compiled) bool { return slices.Contains(r.before, c) }))
		w.closeUp()
		problems = append(problems, w.errs...)
	}
	for _, v := range w.violations(enforced) {
		was := lookup(r.old, vmSchema(), v.path)
		if came := anew && !slices.Contains(r.matched, v.preset); came || was == nil || Grows(was, v.value) {
			problems = append(problems, v.problem())
		}
	}
	if r.engine.RejectConflicts {
		problems = append(problems, w.rejected()...)
	}
	if len(problems) > 0 {
		refusal := w.refusal(problems)
		refusal.OverBudget = m.overBudget
		return m, refusal
	}
	return m, nil
}

// query looks at what the user wrote of root.
func (r *revision) query(ctx context.Context, root map[string]any) *query {
	view, _ := cloneJSON(root).(map[string]any)
	residueOfStored(view, r.work.rec)
	q := (&work{root: view}).query(ctx, r.req, nil)
	q.lenient = !r.steers()
	return q
}

// steers reports whether the writer changed what steers the engine.
func (r *revision) steers() bool {
	return r.annotationDiffers(v1alpha1.AnnotationPresets) || r.annotationDiffers(v1alpha1.AnnotationExclude)
}

// matchBefore are the presets that match what is stored, and of those the ones
// whose defaults were not kept away.
func (r *revision) matchBefore(ctx context.Context) (matched, acted []*Compiled) {
	q := r.query(ctx, r.old)
	q.lenient = true
	m, _ := r.snap.match(q)
	m.presets = append(m.presets, m.undecided...) // what may have acted does not act as if it were new
	return m.presets, slices.DeleteFunc(slices.Clone(m.presets), func(c *Compiled) bool {
		all, some := q.steering.excludes(c.Ref) // what was kept away has not acted
		return all || len(some) > 0
	})
}

// applyNew lets presets act on a VM that others have filled. A default
// replaces a leaf of a preset that it outranks or that matches no longer, and
// a platform default.
func (w *work) applyNew(r *revision, q *query, presets []*Compiled) {
	if len(presets) == 0 {
		return
	}
	w.indexElements(w.rec.Root(), w.root, vmSchema())
	w.stored = true
	w.apply(r.snap, q, presets)
	w.rec.Snapshot = r.snap.Hash()
}

// reapply expands the VM anew from what its user wrote.
func (r *revision) reapply(ctx context.Context) (*Result, error) {
	w := r.work
	w.dropProvenance()
	residueOfStored(w.root, w.rec)
	fresh := &work{root: w.root, rec: provenance.New(), again: true, before: w.rec.Sources}
	out, err := r.engine.expand(ctx, r.snap, fresh, r.req)
	if err != nil {
		return nil, err
	}
	out.Warnings = bounded(slices.Concat(r.notes, out.Warnings))
	out.Patch = diff(r.sent, fresh.root, vmSchema())
	return out, nil
}

// forgetGone drops what the record says of containers that are gone.
func (w *work) forgetGone(n *provenance.Node, v any, s *schema) {
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

// finish stores the record of the stored VM, as far as it still holds.
func (r *revision) finish(m matching) (*Result, error) {
	w := r.work
	deeds := w.deeds()
	w.forgetGone(w.rec.Root(), w.root, vmSchema())
	w.rec.DropUnused()
	if r.foreign != "" {
		w.setAnnotation(r.foreign)
	} else if w.rec.Empty() {
		w.dropProvenance()
	} else if err := w.annotate(); err != nil {
		return nil, err
	}
	out := &Result{Record: w.rec, Matched: m.presets, OverBudget: m.overBudget, Conflicts: w.conflicts, w: w}
	out.Warnings = bounded(append(r.notes, w.warnings(deeds, m, nil)...))
	out.Audit = audit(deeds, nil)
	out.Patch = diff(r.sent, w.root, vmSchema())
	return out, nil
}

package presets

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// An update is an update of a VM in progress.
type update struct {
	engine *Engine
	snap   *Snapshot
	req    Request
	// old is the stored object and sent the one that was sent.
	old, sent map[string]any
	// record of the stored VM; the one that was sent does not count.
	record *provenance.Record
	// text is the stored record as it is written. A record that this program cannot
	// read stays as it is, and everything counts as the author's.
	text       string
	unreadable bool
}

// update answers an update of a VM; instances are expanded only when created.
//
// An update is a three-way merge. The intent of an author is an object without what
// its record says presets and the platform set. A is the expansion of the stored
// intent and B that of the sent intent, both under the presets of now. What differs
// between A and B is done to the stored object; everything else keeps its value and
// its record. So with unchanged presets the result is B, and a change of presets
// reaches a VM only as far as its author's own change concerns it.
//
// Nothing is done when neither spec, labels nor the annotations that select presets
// changed, the writer is trusted, or the VM is being deleted. The record is always
// the stored one, or follows from it. With virtwright.dev/reapply the result is B.
func (e *Engine) update(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	if req.Trusted || req.Kind == VirtualMachineInstance || lookup(w.root, vmSchema(), deletion) != nil {
		return &Result{w: w}, nil
	}
	u := &update{engine: e, snap: s, req: req, sent: w.root}
	if u.old, err = decode("stored object", req.OldObject); err != nil {
		return nil, err
	}
	if problems := checkSpine(u.old); len(problems) > 0 {
		return nil, &Refusal{Problems: problems}
	}
	u.readRecord()
	out, err := u.answer(ctx)
	if err != nil {
		return nil, err
	}
	out.Patch = w.afterDecimals(out.Patch)
	return out, nil
}

// readRecord reads the record of the stored VM.
func (u *update) readRecord() {
	u.text, _ = lookup(u.old, vmSchema(), provenanceOn(VirtualMachine)).(string)
	u.record = provenance.New()
	if u.text != "" {
		if stored, err := provenance.Decode(u.text); err == nil {
			u.record = stored
		} else {
			u.unreadable = true
		}
	}
}

func (u *update) answer(ctx context.Context) (*Result, error) {
	switch {
	case u.reapplies():
		return u.reapply(ctx)
	case u.concerns():
		return u.merge(ctx)
	}
	return u.keepRecord(), nil
}

var (
	deletion      = provenance.Of("metadata", "deletionTimestamp")
	vmLabels      = provenance.Of("metadata", "labels")
	vmAnnotations = provenance.Of("metadata", "annotations")
)

// concerns reports whether the update changes what expansion depends on.
func (u *update) concerns() bool {
	lacksRecord := u.text != "" && annotations(u.sent)[v1alpha1.AnnotationProvenance] == nil // it is a manifest
	return lacksRecord || differAt(u.old, u.sent, vmLabels) || u.selects() || !equalJSON(withoutRunState(u.old["spec"]), withoutRunState(u.sent["spec"]))
}

// selects reports whether the writer changed the annotations that select presets.
func (u *update) selects() bool {
	return u.annotationDiffers(v1alpha1.AnnotationPresets) || u.annotationDiffers(v1alpha1.AnnotationExclude)
}

// reapplies reports whether the writer asks for the VM to be expanded anew.
func (u *update) reapplies() bool {
	return u.annotationDiffers(v1alpha1.AnnotationReapply) && annotations(u.sent)[v1alpha1.AnnotationReapply] != nil
}

func annotations(vm map[string]any) map[string]any {
	out, _ := lookup(vm, vmSchema(), vmAnnotations).(map[string]any)
	return out
}

func (u *update) annotationDiffers(key string) bool {
	return !equalJSON(annotations(u.old)[key], annotations(u.sent)[key])
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

func differAt(a, b map[string]any, p provenance.Path) bool {
	return !equalJSON(lookup(a, vmSchema(), p), lookup(b, vmSchema(), p))
}

// keepRecord answers an update that changes nothing of concern.
func (u *update) keepRecord() *Result {
	w := &resolution{root: u.sent, rec: provenance.New()}
	u.keepText(w)
	return &Result{Patch: w.patch(), Record: u.record, w: w}
}

// keepText gives w the record as it is stored.
func (u *update) keepText(w *resolution) {
	key := v1alpha1.AnnotationProvenance
	switch at := w.holderOf(provenanceOn(VirtualMachine)); {
	case u.text != "" && at.get(key) != u.text:
		at.set(key, u.text)
	case u.text == "" && at.get(key) != nil:
		at.remove(w.rec.Child(at.record(), provenance.Segment{Name: key}))
	}
}

// intent returns the intent of the author of vm, which is the stored or the sent
// object. Run state is the same in both, since people change it, and not presets.
func (u *update) intent(vm map[string]any) map[string]any {
	root := withOwnParts(vm)
	w := &resolution{root: root}
	w.dropProvenance(u.record)
	unapply{rec: u.record, update: true}.value(u.record.Root(), root, u.old, vmSchema())
	u.setRunState(root)
	for _, p := range matcherPaths { // KubeVirt adds a kind to the name that a preset gave
		fields, _ := lookup(root, vmSchema(), p).(map[string]any)
		if fields != nil && isDecided(u.record.At(p.With(provenance.Segment{Name: "name"}))) && fields["name"] == nil && fields["inferFromVolume"] == nil {
			w.unset(p)
		}
	}
	return root
}

// withOwnParts is vm with copies of what expansion may change: spec, labels and annotations.
func withOwnParts(vm map[string]any) map[string]any {
	out := maps.Clone(vm)
	if v := vm["spec"]; v != nil {
		out["spec"] = cloneJSON(v)
	}
	if fields, ok := vm["metadata"].(map[string]any); ok {
		meta := maps.Clone(fields)
		for _, name := range []string{"labels", "annotations"} {
			if v := meta[name]; v != nil {
				meta[name] = cloneJSON(v)
			}
		}
		out["metadata"] = meta
	}
	return out
}

// setRunState gives a VM the run state that it has after the update.
func (u *update) setRunState(vm map[string]any) {
	spec, _ := vm["spec"].(map[string]any)
	for name, v := range u.runState() {
		switch {
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

// runState is the run state of the VM after the update, by field: the one that was
// sent, else the stored one. Absent fields are nil.
func (u *update) runState() map[string]any {
	sent, _ := u.sent["spec"].(map[string]any)
	old, _ := u.old["spec"].(map[string]any)
	from := sent
	if sent["running"] == nil && sent["runStrategy"] == nil {
		from = old
	}
	return map[string]any{"running": from["running"], "runStrategy": from["runStrategy"]}
}

// expand prepares the expansion of an intent. With recorded exceptions, which are not nil, those of
// now do not count.
func (u *update) expand(ctx context.Context, intent map[string]any, recorded []provenance.Exception) (*expansion, error) {
	w := &resolution{root: intent, recordedExceptions: recorded, rec: provenance.New(), stored: true, before: u.record.Sources, keepsRunState: !u.reapplies(), lenient: !u.reapplies() && !u.selects()}
	return u.engine.prepare(ctx, u.snap, w, u.req)
}

// reapply expands the VM anew from the intent of its author.
func (u *update) reapply(ctx context.Context) (*Result, error) {
	x, err := u.expand(ctx, u.intent(u.sent), nil)
	if err != nil {
		return nil, err
	}
	x.unmatched = append(x.unmatched, x.wouldLose()...)
	x.matching.warnings = append(x.matching.warnings, x.ended(u.record.Exceptions)...)
	u.engine.act(x)
	vmSchema().keepSpelling(u.sent, x.root)
	out, err := u.engine.finish(x)
	if err != nil {
		return nil, err
	}
	out.Patch = diff(u.sent, x.root, vmSchema())
	return out, nil
}

// wouldLose refuses to expand a VM anew without presets that gave something of
// what it has, and whose conditions cannot be evaluated now.
func (x *expansion) wouldLose() field.ErrorList {
	var errs field.ErrorList
	for _, c := range x.matching.undecided {
		if slices.ContainsFunc(x.before, func(s provenance.Source) bool { return s.Preset == c.Ref }) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationReapply),
				fmt.Sprintf("the conditions of preset %s cannot be evaluated, and what it gave would be lost", c.Ref)))
		}
	}
	return errs
}

// merge is the three-way merge.
func (u *update) merge(ctx context.Context) (*Result, error) {
	from, to := u.intent(u.old), u.intent(u.sent)
	same := equalJSON(from["spec"], to["spec"]) && !differAt(from, to, vmLabels) && !differAt(from, to, vmAnnotations)
	a, err := u.expand(ctx, from, append([]provenance.Exception{}, u.record.Exceptions...))
	if err != nil {
		return nil, err
	}
	b, err := u.expand(ctx, to, nil)
	if err != nil {
		return nil, err
	}
	m := &merger{update: u, a: a, b: b, into: u.stored(), undecided: slices.Concat(a.matching.undecided, b.matching.undecided)}
	a.leaveOut(m.undecided)
	b.leaveOut(m.undecided)
	if !same {
		b.matching.warnings = append(b.matching.warnings, b.ended(u.record.Exceptions)...)
		u.engine.act(a)
		u.engine.act(b)
		m.run()
	}
	return m.finish()
}

// stored is the object that the merge starts from: the stored one, with what
// was sent outside of spec, labels and annotations. It shares what is stored.
func (u *update) stored() *resolution {
	root := make(map[string]any, len(u.sent))
	maps.Copy(root, u.sent)
	take(root, u.old, "spec")
	meta := map[string]any{}
	sent, _ := u.sent["metadata"].(map[string]any)
	before, _ := u.old["metadata"].(map[string]any)
	maps.Copy(meta, sent)
	take(meta, before, "labels")
	take(meta, before, "annotations")
	if root["metadata"] = meta; len(meta) == 0 && u.sent["metadata"] == nil {
		delete(root, "metadata")
	}
	return &resolution{root: root, rec: u.record}
}

// take gives to the value that from has of a field.
func take(to, from map[string]any, name string) {
	if v := from[name]; v != nil {
		to[name] = v
	} else {
		delete(to, name)
	}
}

package presets

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/provenance"
)

// Resolve answers one request against the presets of s. The error is a
// *Refusal (the object is wrong or forbidden) or a *Malformed (it is no object).
// The context bounds the evaluation of conditions.
func (e *Engine) Resolve(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	if err := req.CheckSize(); err != nil {
		return nil, err
	}
	if len(req.OldObject) > 0 {
		return e.update(ctx, s, req)
	}
	return e.create(ctx, s, req)
}

func (e *Engine) create(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	w, err := loadDecoded(req.Kind, req.Object, req.Decoded)
	req.Decoded = nil // w changes it
	if err != nil {
		return nil, err
	}
	if text := w.storedProvenance(); text != "" {
		if out := e.restore(ctx, s, req, text); out != nil {
			out.Patch = w.afterDecimals(out.Patch)
			return out, nil
		}
		w.discardProvenance()
	}
	out, err := e.expand(ctx, s, w, req)
	if err != nil {
		return nil, err
	}
	out.Patch = w.afterDecimals(w.patch())
	return out, nil
}

// An expansion is an object on which presets act, or have acted.
type expansion struct {
	*resolution
	snap  *Snapshot
	query *query
	req   Request
	owner *ownerVM
	// matching are the presets that match; of these, the enforced ones act, and
	// shadowed ones only say what they would do.
	matching           matching
	enforced, shadowed []*Compiled
	// base is the object before presets acted, where shadowed ones want it.
	base map[string]any
	// unmatched are problems of matching and of computed overrides, which refuse updates
	// too. Of the other problems, updates may keep those that there were.
	unmatched, problems field.ErrorList
}

// expand lets presets and platform defaults act on w, which holds the intent of its
// author and nothing else.
func (e *Engine) expand(ctx context.Context, s *Snapshot, w *resolution, req Request) (*Result, error) {
	x, err := e.prepare(ctx, s, w, req)
	if err != nil {
		return nil, err
	}
	if len(x.shadowed) > 0 {
		x.base, _ = cloneJSON(w.root).(map[string]any)
	}
	e.act(x)
	return e.finish(x)
}

// prepare finds the presets that match w.
func (e *Engine) prepare(ctx context.Context, s *Snapshot, w *resolution, req Request) (*expansion, error) {
	w.find, w.warnEverything = req.Instancetypes, e.WarnEverything
	owner, err := w.adoptOwner(req.Owner)
	if err != nil {
		return nil, err
	}
	w.notes = e.dropInferred(w)
	x := &expansion{resolution: w, snap: s, query: w.query(ctx, req, owner), req: req, owner: owner}
	x.matching, x.unmatched = s.match(x.query)
	w.rec.Exceptions = x.matching.exceptions
	x.enforced, x.shadowed = split(x.matching.presets)
	return x, nil
}

// leaveOut keeps presets from acting.
func (x *expansion) leaveOut(presets []*Compiled) {
	if len(presets) > 0 {
		x.enforced = slices.DeleteFunc(slices.Clone(x.enforced), func(c *Compiled) bool { return slices.Contains(presets, c) })
	}
}

// act lets the enforced presets and the platform act.
func (e *Engine) act(x *expansion) {
	x.apply(x.snap, x.query, x.enforced)
	if x.instance != nil {
		x.problems = append(x.problems, x.legacyConflicts()...)
		x.markLegacy(x.enforced)
	}
	if e.Platform != nil {
		x.applyPlatform(e.Platform)
	}
	x.closeUp()
	x.unmatched = append(x.unmatched, x.uncomputed...)
	x.problems = append(x.problems, x.errs...)
	x.problems = append(x.problems, e.unserved(x.resolution)...)
	if e.RejectConflicts {
		x.problems = append(x.problems, x.rejected()...)
	}
}

// finish answers with the expanded object, unless there are problems.
func (e *Engine) finish(x *expansion) (*Result, error) {
	if problems := slices.Concat(x.unmatched, x.problems, x.forbidden(x.enforced)); len(problems) > 0 {
		refusal := x.refusal(problems)
		refusal.OverBudget = x.matching.overBudget
		return nil, refusal
	}
	return e.result(x)
}

// unserved refuses what standalone mode does not serve.
func (e *Engine) unserved(w *resolution) field.ErrorList {
	var errs field.ErrorList
	if e.servesInstancetypes() || w.instance != nil {
		return nil
	}
	spec, _ := w.root["spec"].(map[string]any)
	for _, name := range matcherFields {
		remedy := "write a preset, or name the values in spec.template"
		if matcher, _ := spec[name].(map[string]any); matcher["inferFromVolume"] != nil {
			remedy = "remove the field, or set inferFromVolumeFailurePolicy: Ignore"
		}
		if spec[name] != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", name),
				"virtwright runs in standalone mode, which serves no instancetypes or preferences: "+remedy))
		}
	}
	return errs
}

func split(matched []*Compiled) (enforced, shadowed []*Compiled) {
	for i, c := range matched {
		if c.Mode != v1alpha1.ModeEnforce {
			enforced = slices.Clone(matched[:i])
			for _, c := range matched[i:] {
				if c.Mode == v1alpha1.ModeEnforce {
					enforced = append(enforced, c)
				} else {
					shadowed = append(shadowed, c)
				}
			}
			return enforced, shadowed
		}
	}
	return matched, nil
}

// query says what selectors and conditions see of w.
func (w *resolution) query(ctx context.Context, req Request, owner *ownerVM) *query {
	view := w.root
	if owner != nil {
		view = owner.view(w)
	}
	meta, _ := view["metadata"].(map[string]any)
	template, _ := lookup(view, vmSchema(), provenance.Of("spec", "template", "metadata")).(map[string]any)
	q := &query{
		labels:    matchLabels(meta["labels"], template["labels"]),
		namespace: req.Namespace,
		recorded:  w.recordedExceptions,
		owned:     owner != nil,
		launch:    w.instance != nil,
		eval:      evaluation{ctx: ctx, object: withSpine(view)},
	}
	q.eval.namespaceOf = &q.namespace
	if w.instance == nil || owner != nil {
		annotations, _ := meta["annotations"].(map[string]any)
		q.selection = parseSelection(annotations)
	}
	if w.instance != nil {
		q.noLegacy, q.instanceLabels = w.legacyExcluded(), matchLabels(template["labels"])
		annotations, _ := template["annotations"].(map[string]any)
		q.selection = q.selection.merge(parseSelection(annotations))
	}
	// What a VM says was judged when the VM was written.
	q.lenient = owner != nil || w.lenient
	return q
}

// apply lets the presets act, strongest layer first.
func (w *resolution) apply(s *Snapshot, q *query, enforced []*Compiled) {
	w.layers = make([]layer, 0, 2*len(enforced))
	for _, cluster := range []bool{true, false} {
		for _, c := range enforced {
			if c.Cluster() == cluster && c.overrules() {
				w.addLayer(layer{preset: c, role: provenance.Override, root: c.overrides, beats: overOwner(s, c)})
			}
		}
	}
	for _, c := range enforced {
		if all, paths := q.selection.excludes(c.Ref); c.defaults != nil && !all {
			w.addLayer(layer{preset: c, role: c.defaultRole(), root: c.defaults, excluded: paths, beats: isDefault})
		}
	}
	w.compute(q)
	w.act()
	w.recordForbids(enforced)
}

// recordForbids records presets that only forbid, which set nothing.
func (w *resolution) recordForbids(enforced []*Compiled) {
	for _, c := range enforced {
		if len(c.forbids) > 0 {
			w.addSource(c.source(provenance.Forbid), c)
		}
	}
}

func (w *resolution) addLayer(l layer) {
	l.w, l.source = w, provenance.NoSource
	w.layers = append(w.layers, l)
}

func (c *Compiled) overrules() bool { return c.overrides != nil || len(c.removes) > 0 }

func (c *Compiled) defaultRole() provenance.Role {
	if c.legacy {
		return provenance.Legacy
	}
	return provenance.Default
}

// run lets the layer act on the whole object.
func (l *layer) run() {
	if l.root != nil {
		l.act(l.root.kids, l.w.cursor(l))
	}
	if l.role == provenance.Override && len(l.preset.removes) > 0 {
		removing := &layer{w: l.w, preset: l.preset, role: provenance.Remove, source: provenance.NoSource, reserved: l.reserved, beats: l.beats}
		for _, r := range l.preset.removes {
			removing.remove(r)
		}
	}
}

// reservedFields returns which fields a layer must leave alone.
func (w *resolution) reservedFields(r provenance.Role) ownership {
	if w.instance != nil {
		return beyondTemplate
	}
	var o ownership
	if w.keepsRunState {
		o |= runState // it is people's by now
	}
	if w.contributions.instancetype != nil {
		o |= ownedByInstancetype | templateAnnotation
	}
	if !r.Outranks() && w.contributions.preference != nil {
		o |= ownedByPreference | templateAnnotation
	}
	if !r.Outranks() && w.heldBack != "" {
		o |= namesInstancetype
	}
	return o
}

// overOwner says against which overrides and removes that the owner's record has those
// of c prevail: all but those of a stronger preset that still exists.
func overOwner(s *Snapshot, c *Compiled) func(provenance.Source) bool {
	return func(recorded provenance.Source) bool {
		other, ok := s.Lookup(c.Namespace, recorded.Preset)
		switch {
		case !ok:
			return true
		case other.Cluster() != c.Cluster():
			return c.Cluster()
		}
		return byPrecedence(c, other) < 0
	}
}

// isDefault reports whether what is recorded is a default. At launch, defaults
// replace all those of the VM: what came earlier is the weakest layer.
func isDefault(recorded provenance.Source) bool { return !recorded.Role.Outranks() }

// rejected makes conflicts refusals.
func (w *resolution) rejected() field.ErrorList {
	var errs field.ErrorList
	for _, c := range w.conflicts {
		errs = append(errs, field.Forbidden(field.NewPath(c.Path), c.String()+"; the cluster refuses such conflicts: give one of them another priority"))
	}
	return errs
}

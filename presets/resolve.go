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
	if len(req.OldObject) > 0 {
		return e.update(ctx, s, req)
	}
	return e.create(ctx, s, req)
}

func (e *Engine) create(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	if text := w.storedProvenance(); text != "" {
		if out := e.proven(ctx, s, req, text); out != nil {
			return out, nil
		}
		w.discardProvenance()
	}
	out, err := e.expand(ctx, s, w, req)
	if err != nil {
		return nil, err
	}
	out.Patch = w.patch()
	return out, nil
}

// expand lets presets and platform defaults act on w, which holds what the user
// wrote and nothing else.
func (e *Engine) expand(ctx context.Context, s *Snapshot, w *work, req Request) (*Result, error) {
	owner, err := w.adoptOwner(req.Owner)
	if err != nil {
		return nil, err
	}
	q, problems := w.query(ctx, req, owner)
	problems = append(problems, e.unserved(w)...)
	m, more := s.match(q)
	problems = append(problems, more...)
	enforced, shadowed := split(m.presets)
	w.apply(s, q, enforced)
	if w.instance != nil {
		problems = append(problems, w.legacyConflicts()...)
		w.markLegacy(enforced)
	}
	if e.Platform != nil {
		w.applyPlatform(e.Platform)
	}
	w.closeUp()
	problems = append(problems, w.errs...)
	problems = append(problems, w.forbidden(enforced)...)
	if e.RejectConflicts {
		problems = append(problems, w.rejected()...)
	}
	if len(problems) > 0 {
		return nil, w.refusal(problems)
	}
	return w.finish(s, q, outcome{matching: m, shadowed: shadowed, req: req, owner: owner})
}

// unserved refuses what standalone mode does not serve.
func (e *Engine) unserved(w *work) field.ErrorList {
	var errs field.ErrorList
	if e.Platform == nil || w.instance != nil {
		return nil
	}
	spec, _ := w.root["spec"].(map[string]any)
	for _, name := range []string{"instancetype", "preference"} {
		if spec[name] != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", name),
				"virtwright runs in standalone mode, which serves no instancetypes or preferences: write a preset, or name the values in spec.template"))
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
func (w *work) query(ctx context.Context, req Request, owner *ownerVM) (*query, field.ErrorList) {
	view := w.root
	if owner != nil {
		view = owner.view(w)
	}
	meta, _ := view["metadata"].(map[string]any)
	template, _ := lookup(view, vmSchema(), provenance.Of("spec", "template", "metadata")).(map[string]any)
	q := &query{
		labels:    matchLabels(meta["labels"], template["labels"]),
		namespace: req.Namespace,
		owned:     owner != nil,
		launch:    w.instance != nil,
		eval:      evaluation{ctx: ctx, object: withSpine(view)},
	}
	q.eval.namespaceOf = &q.namespace
	var errs, more field.ErrorList
	if w.instance == nil || owner != nil {
		annotations, _ := meta["annotations"].(map[string]any)
		q.steering, errs = parseSteering(annotations, field.NewPath("metadata", "annotations"))
	}
	if w.instance != nil {
		q.noLegacy, q.instanceLabels = w.legacyExcluded(), matchLabels(template["labels"])
		annotations, _ := template["annotations"].(map[string]any)
		var own steering
		own, more = parseSteering(annotations, field.NewPath("metadata", "annotations"))
		q.steering = q.steering.merge(own)
	}
	return q, append(errs, more...)
}

// apply lets the presets act, strongest layer first.
func (w *work) apply(s *Snapshot, q *query, enforced []*Compiled) {
	w.layers = make([]layer, 0, 2*len(enforced))
	for _, cluster := range []bool{true, false} {
		for _, c := range enforced {
			if c.Cluster() == cluster && c.overrules() {
				w.addLayer(layer{preset: c, role: provenance.Override, root: c.overrides, beats: w.outranks(s, c)})
			}
		}
	}
	for _, c := range enforced {
		if all, paths := q.steering.excludes(c.Ref); c.defaults != nil && !all {
			w.addLayer(layer{preset: c, role: c.defaultRole(), root: c.defaults, excluded: paths, beats: w.weaker})
		}
	}
	for i := range w.layers {
		w.layers[i].act()
	}
	w.recordForbids(enforced)
}

// recordForbids records presets that only forbid, which set nothing.
func (w *work) recordForbids(enforced []*Compiled) {
	for _, c := range enforced {
		if len(c.forbids) > 0 {
			w.addSource(provenance.Source{Preset: c.Ref, Generation: c.Generation, Role: provenance.Forbid}, c)
		}
	}
}

func (w *work) addLayer(l layer) {
	l.w, l.source, l.barred = w, provenance.NoSource, w.barred(l.role)
	w.layers = append(w.layers, l)
}

func (c *Compiled) overrules() bool { return c.overrides != nil || len(c.removes) > 0 }

func (c *Compiled) defaultRole() provenance.Role {
	if c.legacy {
		return provenance.Legacy
	}
	return provenance.Default
}

func (l *layer) act() {
	root := l.w.rec.Root()
	if l.role != provenance.Override {
		l.fill(l.root.kids, l.w.root, root, false)
		return
	}
	if l.root != nil {
		l.force(l.root.kids, l.w.root, root, false)
	}
	if len(l.preset.removes) > 0 {
		taking := &layer{w: l.w, preset: l.preset, role: provenance.Remove, source: provenance.NoSource, barred: l.barred}
		for _, r := range l.preset.removes {
			taking.takeAway(r)
		}
	}
}

// barred says which fields a layer must leave to somebody else.
func (w *work) barred(r provenance.Role) ownership {
	if w.instance != nil {
		return beyondTemplate
	}
	spec, _ := w.root["spec"].(map[string]any)
	var o ownership
	if spec["instancetype"] != nil {
		o |= ownedByInstancetype
	}
	if spec["preference"] != nil && !r.Outranks() {
		o |= ownedByPreference
	}
	return o
}

// weaker: a default that acts later replaces what earlier ones defaulted.
func (w *work) weaker(s provenance.Source) bool { return !s.Role.Outranks() }

// outranks says against which recorded overrides the overrides of c prevail.
func (w *work) outranks(s *Snapshot, c *Compiled) func(provenance.Source) bool {
	return func(recorded provenance.Source) bool {
		_, cluster := nameOf(recorded.Preset)
		if cluster != c.Cluster() {
			return c.Cluster()
		}
		namespace := c.Namespace
		if other, ok := s.byRef[presetKey{namespace, recorded.Preset}]; ok {
			return byPrecedence(c, other) < 0
		}
		return true
	}
}

// rejected makes conflicts refusals.
func (w *work) rejected() field.ErrorList {
	var errs field.ErrorList
	for _, c := range w.conflicts {
		errs = append(errs, field.Forbidden(field.NewPath(c.Path), c.String()+"; the cluster refuses such conflicts: give one of them another priority"))
	}
	return errs
}

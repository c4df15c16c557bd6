package presets

import (
	"context"
	"fmt"
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
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	if text := w.storedProvenance(); text != "" {
		if out := e.restore(ctx, s, req, text); out != nil {
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
	w.find = req.Instancetypes
	owner, err := w.adoptOwner(req.Owner)
	if err != nil {
		return nil, err
	}
	q := w.query(ctx, req, owner)
	m, problems := s.match(q)
	problems = append(problems, w.wouldLose(m.undecided)...)
	enforced, shadowed := split(m.presets)
	var base map[string]any
	if len(shadowed) > 0 {
		base, _ = cloneJSON(w.root).(map[string]any)
	}
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
	problems = append(problems, e.unserved(w)...)
	problems = append(problems, w.forbidden(enforced)...)
	if e.RejectConflicts {
		problems = append(problems, w.rejected()...)
	}
	if len(problems) > 0 {
		refusal := w.refusal(problems)
		refusal.OverBudget = m.overBudget
		return nil, refusal
	}
	return w.finish(s, q, outcome{matching: m, shadowed: shadowed, req: req, owner: owner, platform: e.Platform, base: base})
}

// wouldLose refuses to expand a VM anew without presets that gave something of
// what it has, and whose conditions cannot be evaluated now.
func (w *work) wouldLose(undecided []*Compiled) field.ErrorList {
	var errs field.ErrorList
	for _, c := range undecided {
		if slices.ContainsFunc(w.before, func(s provenance.Source) bool { return s.Preset == c.Ref }) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationReapply),
				fmt.Sprintf("the conditions of preset %s cannot be evaluated, and what it gave would be lost", c.Ref)))
		}
	}
	return errs
}

// unserved refuses what standalone mode does not serve.
func (e *Engine) unserved(w *work) field.ErrorList {
	var errs field.ErrorList
	if e.Platform == nil || e.Platform.Instancetypes || w.instance != nil {
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
func (w *work) query(ctx context.Context, req Request, owner *ownerVM) *query {
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
	if w.instance == nil || owner != nil {
		annotations, _ := meta["annotations"].(map[string]any)
		q.steering = parseSteering(annotations)
	}
	if w.instance != nil {
		q.noLegacy, q.instanceLabels = w.legacyExcluded(), matchLabels(template["labels"])
		annotations, _ := template["annotations"].(map[string]any)
		q.steering = q.steering.merge(parseSteering(annotations))
	}
	// What a VM says was judged when the VM was written.
	q.lenient = owner != nil
	return q
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
			w.addLayer(layer{preset: c, role: c.defaultRole(), root: c.defaults, excluded: paths, beats: w.weakerThan(s, c)})
		}
	}
	w.act()
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
		taking := &layer{w: l.w, preset: l.preset, role: provenance.Remove, source: provenance.NoSource, barred: l.barred, beats: l.beats}
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
	var o ownership
	if w.stored {
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

// weakerThan says which recorded defaults the defaults of c replace. At launch
// they replace all: what came earlier is the weakest layer. On a stored VM they
// replace those of the platform, of presets that match no longer, and of
// presets that c outranks.
func (w *work) weakerThan(s *Snapshot, c *Compiled) func(provenance.Source) bool {
	return func(recorded provenance.Source) bool {
		if recorded.Role.Outranks() {
			return false
		}
		other := w.standing(s, recorded, c.Namespace)
		return !w.stored || other == nil || byPrecedence(c, other) < 0
	}
}

// outranks says against which recorded overrides and removes those of c prevail.
func (w *work) outranks(s *Snapshot, c *Compiled) func(provenance.Source) bool {
	return func(recorded provenance.Source) bool {
		other := w.standing(s, recorded, c.Namespace)
		switch {
		case other == nil:
			return true
		case other.Cluster() != c.Cluster():
			return c.Cluster()
		}
		return byPrecedence(c, other) < 0
	}
}

// standing is the preset that recorded names, if it still has a say: nil
// where it is gone, or matches a stored VM no longer.
func (w *work) standing(s *Snapshot, recorded provenance.Source, namespace string) *Compiled {
	other, ok := s.Lookup(namespace, recorded.Preset)
	if !ok && namespace == "" { // a namespaced preset, seen from a cluster one
		for _, c := range w.current {
			if c.Ref == recorded.Preset {
				return c
			}
		}
		return nil
	}
	if !ok || w.stored && !slices.Contains(w.current, other) {
		return nil
	}
	return other
}

// rejected makes conflicts refusals.
func (w *work) rejected() field.ErrorList {
	var errs field.ErrorList
	for _, c := range w.conflicts {
		errs = append(errs, field.Forbidden(field.NewPath(c.Path), c.String()+"; the cluster refuses such conflicts: give one of them another priority"))
	}
	return errs
}

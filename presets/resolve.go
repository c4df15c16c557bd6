package presets

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets/condition"
	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Resolve expands the object of a create or update request. The error is a *Rejection or a
// *Malformed. The context bounds the evaluation of conditions.
func (e *Engine) Resolve(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	if err := req.CheckSize(); err != nil {
		return nil, err
	}
	s = s.For(req)
	switch {
	case req.Restored:
		return e.restored(ctx, s, req)
	case len(req.OldObject) > 0:
		return e.update(ctx, s, req)
	}
	return e.create(ctx, s, req)
}

func (e *Engine) create(ctx context.Context, s *Snapshot, req Request) (*Result, error) {
	r, err := loadDecoded(req.Kind, req.Object, req.Decoded)
	req.Decoded = nil // r changes it
	if err != nil {
		return nil, err
	}
	return e.expandClaimed(ctx, s, r, req)
}

// expandClaimed expands r, whose record counts as far as it is true.
func (e *Engine) expandClaimed(ctx context.Context, s *Snapshot, r *mergeState, req Request) (*Result, error) {
	if text := r.storedProvenance(); text != "" {
		if out := e.restore(ctx, s, req, r, text); out != nil {
			out.Patch = r.withDecimalOps(out.Patch)
			return out, nil
		}
		r.discardProvenance()
	}
	out, err := e.expand(ctx, s, r, req)
	if err != nil {
		return nil, err
	}
	out.Patch = r.withDecimalOps(r.patch())
	return out, nil
}

// An expansion is an object that presets expand, with the state of that.
type expansion struct {
	*mergeState
	snapshot *Snapshot
	query    *query
	req      Request
	owner    *ownerVM
	// match holds the presets that match; of these, only enforced ones act.
	match                 matchResult
	enforced, notEnforced []*Compiled
	// original is the object before presets acted; nil if every matching preset is enforced.
	original map[string]any
	// matchErrs always reject an update. Other problems do only if the stored object lacks them.
	matchErrs, problems field.ErrorList
}

// expand applies presets and platform defaults to r, which holds only what the user wrote.
func (e *Engine) expand(ctx context.Context, s *Snapshot, r *mergeState, req Request) (*Result, error) {
	x, err := e.prepare(ctx, s, r, req)
	if err != nil {
		return nil, err
	}
	if len(x.notEnforced) > 0 {
		x.original, _ = tree.Clone(r.root).(map[string]any)
	}
	e.apply(x)
	return e.finish(x)
}

func (e *Engine) prepare(ctx context.Context, s *Snapshot, r *mergeState, req Request) (*expansion, error) {
	r.findInstancetype, r.warnEverything = req.Instancetypes, e.WarnEverything
	owner, err := r.adoptOwner(req.Owner)
	if err != nil {
		return nil, err
	}
	r.notes = e.dropInferred(r)
	x := &expansion{mergeState: r, snapshot: s, query: r.query(ctx, req, owner), req: req, owner: owner}
	x.match, x.matchErrs = s.match(x.query)
	r.record.Exceptions = x.match.exceptions
	x.enforced, x.notEnforced = split(x.match.presets)
	return x, nil
}

func (x *expansion) exclude(presets []*Compiled) {
	x.enforced = slices.DeleteFunc(x.enforced, func(c *Compiled) bool { return slices.Contains(presets, c) })
}

// apply applies the enforced presets and the platform defaults.
func (e *Engine) apply(x *expansion) {
	x.platform = e.Platform
	x.applyPresets(x.snapshot, x.query, x.enforced)
	if x.sentVMI != nil {
		x.problems = append(x.problems, x.legacyConflicts()...)
		x.markLegacy(x.enforced)
	}
	x.applyPlatform(e.Platform)
	x.compactLists()
	x.matchErrs = append(x.matchErrs, x.computeErrs...)
	x.problems = append(x.problems, x.errs...)
	x.problems = append(x.problems, e.unserved(x.mergeState)...)
	if e.RejectConflicts {
		for _, c := range x.conflicts {
			x.problems = append(x.problems, field.Forbidden(field.NewPath(c.Path),
				c.String()+"; conflicts are rejected: give one of the presets another priority").
				WithOrigin(originPresets+c.Winner+" "+c.Loser))
		}
	}
}

func (e *Engine) finish(x *expansion) (*Result, error) {
	if err := x.verdict(); err != nil {
		return nil, err
	}
	return e.result(x)
}

// verdict is a *Rejection; nil if presets accept the object.
func (x *expansion) verdict() error {
	problems := slices.Concat(x.matchErrs, x.problems, problemsOf(x.newViolations()))
	if len(problems) == 0 {
		return nil
	}
	rejection := x.rejection(problems)
	rejection.OverBudget = x.match.overBudget
	return rejection
}

func (e *Engine) unserved(r *mergeState) field.ErrorList {
	var errs field.ErrorList
	if e.servesInstancetypes() || r.sentVMI != nil {
		return nil
	}
	spec := tree.AsObject(r.root["spec"])
	for _, p := range matcherPaths {
		name, remedy := p[1].Name, "write a preset, or set the values in spec.template"
		if matcher, _ := spec[name].(map[string]any); matcher["inferFromVolume"] != nil {
			remedy = "remove the field, or set inferFromVolumeFailurePolicy: Ignore"
		}
		if spec[name] != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", name),
				"standalone mode does not support instancetypes and preferences: "+remedy))
		}
	}
	return errs
}

func split(matched []*Compiled) (enforced, shadowed []*Compiled) {
	enforced = make([]*Compiled, 0, len(matched))
	for _, c := range matched {
		if c.Mode == v1alpha1.ModeEnforce {
			enforced = append(enforced, c)
		} else {
			shadowed = append(shadowed, c)
		}
	}
	return enforced, shadowed
}

// query returns what selectors and conditions can read of r.
func (r *mergeState) query(ctx context.Context, req Request, owner *ownerVM) *query {
	view := r.root
	if owner != nil {
		view = owner.view(r)
	}
	meta, templated := tree.AsObject(view["metadata"]), tree.AsObject(vmschema.Value(view, vmschema.TemplateMetadata))
	q := &query{
		labels:             matchLabels(meta["labels"], templated["labels"]),
		namespace:          req.Namespace,
		recordedExceptions: r.recordedExceptions,
		reapplied:          r.reapplied,
		hasOwner:           owner != nil,
		isVMI:              r.sentVMI != nil,
		eval:               condition.Evaluation{Context: ctx, Object: withRequiredParents(view)},
	}
	q.eval.Namespace = q.namespace.object
	if r.sentVMI == nil || owner != nil {
		q.selection = parseSelection(tree.AsObject(meta["annotations"]))
	}
	if r.sentVMI != nil {
		q.excludesLegacy, q.templateLabels = r.legacyExcluded(), matchLabels(templated["labels"])
		own := parseSelection(tree.AsObject(templated["annotations"]))
		if owner != nil { // KubeVirt adds annotations of instancetypes and preferences, of other authors
			own.named = parseSelection(tree.AsObject(vmschema.Value(owner.root, vmschema.TemplateAnnotations))).named
		}
		q.selection = q.selection.merge(own)
	}
	// Annotations of the VM were checked when the VM was written.
	q.lenient = owner != nil || r.lenient
	return q
}

// reservedFields returns the fields that a layer of this role must not set.
func (r *mergeState) reservedFields(role provenance.Role) ownership {
	if r.sentVMI != nil {
		return beyondTemplate
	}
	var o ownership
	if r.keepsRunState {
		o |= runState // it belongs to the user
	}
	if r.contributions.instancetype != nil {
		o |= ownedByInstancetype | templateAnnotation
	}
	if !role.OutranksUser() && r.contributions.preference != nil {
		o |= ownedByPreference | templateAnnotation
	}
	if !role.OutranksUser() && r.skippedInstancetype != "" {
		o |= namesInstancetype
	}
	return o
}

// dropInferred removes an instancetype or preference that may be ignored, if neither is supported:
// virtctl writes both into most VMs, and inference fails. It returns a warning for each.
func (e *Engine) dropInferred(r *mergeState) []string {
	if e.servesInstancetypes() || r.sentVMI != nil {
		return nil
	}
	spec := tree.AsObject(r.root["spec"])
	var warnings []string
	for _, p := range matcherPaths {
		name := p[1].Name
		matcher := tree.AsObject(spec[name])
		volume := matcher["inferFromVolume"]
		if volume == nil || matcher["inferFromVolumeFailurePolicy"] != "Ignore" || matcher["name"] != nil {
			continue
		}
		delete(spec, name)
		r.record.Ensure(p).Change = provenance.Removed
		warnings = append(warnings, fmt.Sprintf("spec.%s was dropped: it cannot be inferred from volume %s in standalone mode, "+
			"and its inferFromVolumeFailurePolicy is Ignore", name, tree.Show(tree.AsText(volume))))
	}
	return warnings
}

func (e *Engine) servesInstancetypes() bool { return e.Platform == nil || e.Platform.Alongside }

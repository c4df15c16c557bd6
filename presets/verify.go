package presets

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// VerifyApplied checks an object before it is stored, because other webhooks act after ours:
// overrides, removals and forbid rules of the recorded presets must still hold. A preset that has
// changed since acts in the next request. On an update, a value that was wrong before may stay.
// Without a record, the presets that match now count: skipping the webhook does not skip its
// presets. The error is a *Rejection or a *Malformed.
func (e *Engine) VerifyApplied(ctx context.Context, s *Snapshot, req Request) error {
	s = s.For(req)
	r, err := loadDecoded(req.Kind, req.Object, req.Decoded)
	if err != nil {
		return err
	}
	c := verification{snapshot: s, object: r, namespace: req.Namespace.Name}
	if len(req.OldObject) > 0 {
		if c.old, err = loadDecoded(req.Kind, req.OldObject, req.OldDecoded); err != nil {
			return nil //nolint:nilerr // an unreadable stored object has nothing to keep
		}
	}
	if c.record = outranking(r); c.record == nil {
		if c.old != nil && outranking(c.old) == nil || r.owned() {
			return nil // older than virtwright, or created by a controller
		}
		if c.record, err = e.unrecorded(ctx, s, req); err != nil {
			return err
		}
	}
	problems := append(c.undoneOverrides(), c.forbidden()...)
	if len(problems) > 0 {
		return r.rejection(problems)
	}
	return nil
}

func recorded(r *mergeState) *provenance.Record {
	return readable(provenance.Decode(r.storedProvenance()))
}

// outranking returns the record on r, with leaves only if a source outranks the user.
func outranking(r *mergeState) *provenance.Record {
	rec := readable(provenance.DecodeSources(r.storedProvenance()))
	if rec == nil || slices.ContainsFunc(rec.Sources, func(s provenance.Source) bool { return s.Role.OutranksUser() }) {
		return recorded(r)
	}
	return rec
}

func readable(rec *provenance.Record, err error) *provenance.Record {
	if err != nil || rec.Empty() {
		return nil
	}
	return rec
}

// unrecorded returns the record that the object would have if it were created now.
func (e *Engine) unrecorded(ctx context.Context, s *Snapshot, req Request) (*provenance.Record, error) {
	r, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	r.discardProvenance()
	if _, err := e.expand(ctx, s, r, Request{Kind: req.Kind, Object: req.Object, Namespace: req.Namespace, Instancetypes: req.Instancetypes}); err != nil {
		return nil, err
	}
	return r.record, nil
}

// owned reports whether a controller created the VMI.
func (r *mergeState) owned() bool {
	return r.sentVMI != nil && vmschema.Value(r.root, vmschema.TemplateMetadata.Field("ownerReferences")) != nil
}

type verification struct {
	snapshot  *Snapshot
	object    *mergeState
	old       *mergeState // nil on a create
	record    *provenance.Record
	namespace string
}

// preset returns the preset of a source; nil if it has changed.
func (c *verification) preset(s provenance.Source) *Compiled {
	found, ok := c.snapshot.Lookup(c.namespace, s.Preset)
	if !ok || found.Generation != s.Generation {
		return nil
	}
	return found
}

func (c *verification) undoneOverrides() field.ErrorList {
	var errs field.ErrorList
	for p, n := range c.record.Decided() {
		s := c.record.Sources[n.Source]
		if !s.Role.OutranksUser() || ownerOf(p)&runState != 0 {
			continue
		}
		preset := c.preset(s)
		if preset == nil || c.isApplied(c.object, p, preset, s.Role) || c.old != nil && !c.isApplied(c.old, p, preset, s.Role) {
			continue
		}
		want := "must have the preset's value"
		if s.Role == provenance.Remove {
			want = "must be absent"
		}
		errs = append(errs, field.Invalid(field.NewPath(p.String()), tree.Show(vmschema.Value(c.object.root, p)),
			fmt.Sprintf("%s: preset %s overrules it, but a later webhook changed it", want, s.Preset)).
			WithOrigin(originPresets+s.Preset))
	}
	return errs
}

// isApplied reports whether r has the value of the preset at p. An empty object may have been
// filled, for example by platform defaults.
func (c *verification) isApplied(r *mergeState, p provenance.Path, preset *Compiled, role provenance.Role) bool {
	is := vmschema.Value(r.root, p)
	if role == provenance.Remove {
		return is == nil
	}
	want := preset.overrides.setting(p)
	return want == nil || want.equals(is) || want.computed != nil && is != nil || want.isEmptyObject() && tree.IsObject(is)
}

func (c *verification) forbidden() field.ErrorList {
	var presets []*Compiled
	for _, s := range c.record.Sources {
		if preset := c.preset(s); s.Role == provenance.Forbid && preset != nil {
			presets = append(presets, preset)
		}
	}
	return problemsOf(notIn(c.old, c.object.violations(presets)))
}

// notIn returns the violations that old lacks; all if old is nil.
func notIn(old *mergeState, found []violation) []violation {
	if old == nil {
		return found
	}
	return slices.DeleteFunc(found, func(v violation) bool { return v.isIn(old.root) })
}

// isIn reports whether an old VM has the violation too: the same values, or the same gap. A new
// element of a list has no old gap.
func (v violation) isIn(old map[string]any) bool {
	if !v.rule.required {
		was := vmschema.Value(old, v.path)
		return was != nil && !tree.HasNewValues(was, v.value)
	}
	found := false
	visitGaps(old, vmschema.VM(), v.rule.path, nil, func(p provenance.Path) { found = found || p.Equal(v.path) })
	return found
}

type violation struct {
	preset  *Compiled
	path    provenance.Path
	value   any
	problem *field.Error
	// rule is the violated forbid or require; empty for an override or a removal.
	rule rule
}

func problemsOf(found []violation) field.ErrorList {
	var errs field.ErrorList
	for _, v := range found {
		errs = append(errs, v.problem)
	}
	return errs
}

// text is the message of a rule, or a general one.
func (r rule) text() string {
	if r.required {
		return cmp.Or(r.message, "set a value")
	}
	return cmp.Or(r.message, "must not be set")
}

func (r *mergeState) violations(presets []*Compiled) []violation {
	var out []violation
	for _, c := range presets {
		for _, f := range c.forbids {
			if r.sentVMI != nil && ownerOf(f.path)&beyondTemplate != 0 {
				continue
			}
			visitMatches(r.root, vmschema.VM(), f.path, nil, func(p provenance.Path, value any) {
				out = append(out, violation{c, p, value, c.broken(field.Forbidden(field.NewPath(p.String()), f.text())), f})
			})
		}
		out = append(out, r.gaps(c, false)...)
	}
	return out
}

// broken adds the preset to the problem of an object that breaks one of its rules.
func (c *Compiled) broken(e *field.Error) *field.Error {
	e.Detail += " (preset " + c.Ref + ")"
	return e.WithOrigin(originPresetRule + c.Ref)
}

// Breaks reports whether a problem is a broken rule of the preset with a Ref.
func Breaks(e *field.Error, ref string) bool { return e.Origin == originPresetRule+ref }

// gaps returns the required paths of c that are not set. Those that the VM's instancetype or
// preference may set are checked only on the expanded VM, and no others are then.
func (r *mergeState) gaps(c *Compiled, expanded bool) []violation {
	var out []violation
	spec := tree.AsObject(r.root["spec"])
	for _, rule := range c.requires {
		if r.sentVMI != nil && ownerOf(rule.path)&beyondTemplate != 0 || awaitsExpansion(spec, rule.path) != expanded {
			continue
		}
		visitGaps(r.root, vmschema.VM(), rule.path, nil, func(p provenance.Path) {
			out = append(out, violation{c, p, nil, c.broken(field.Required(field.NewPath(p.String()), rule.text())), rule})
		})
	}
	return out
}

// awaitsExpansion reports whether the instancetype or preference that spec names may set p.
func awaitsExpansion(spec map[string]any, p provenance.Path) bool {
	return spec["instancetype"] != nil && under(p, instancetypeFields) || spec["preference"] != nil && under(p, preferenceFields)
}

// visitGaps calls visit for each path of pattern that v does not set. Empty lists count as absent,
// and [*] has no gaps in a list without elements.
func visitGaps(v any, s *vmschema.Schema, pattern, at provenance.Path, visit func(provenance.Path)) {
	every := slices.IndexFunc(pattern, func(s provenance.Segment) bool { return s.Kind == provenance.AnyElement })
	if every < 0 {
		if found := s.ValueAt(v, pattern); found == nil || isEmptyList(found) {
			visit(slices.Concat(at, pattern))
		}
		return
	}
	list, listSchema := s.ValueAt(v, pattern[:every]), s.At(pattern[:every])
	elements := tree.AsList(list)
	if listSchema == nil || len(elements) == 0 {
		return
	}
	visitMatchingElements(elements, listSchema, pattern[every:], func(key string, fields map[string]any) {
		visitGaps(fields, listSchema.Elem, pattern[every+1:], slices.Concat(at, pattern[:every]).Element(key), visit)
	})
}

func isEmptyList(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) == 0
}

// visitMatches calls visit for each value at pattern in v. Empty lists count as absent.
func visitMatches(v any, s *vmschema.Schema, pattern, at provenance.Path, visit func(provenance.Path, any)) {
	if list, ok := v.([]any); v == nil || ok && len(list) == 0 || s == nil {
		return
	}
	if len(pattern) == 0 {
		visit(at, v)
		return
	}
	seg := pattern[0]
	switch value := v.(type) {
	case map[string]any:
		visitMatches(value[seg.Name], s.Step(seg), pattern[1:], at.With(seg), visit)
	case []any:
		visitMatchingElements(value, s, pattern, func(key string, fields map[string]any) {
			visitMatches(fields, s.Elem, pattern[1:], at.Element(key), visit)
		})
	}
}

func visitMatchingElements(list []any, s *vmschema.Schema, pattern provenance.Path, visit func(string, map[string]any)) {
	for _, e := range list {
		fields := tree.AsObject(e)
		key, missing := vmschema.ElementKey(s.Keys, fields)
		if missing == "" && (pattern[0].Kind == provenance.AnyElement || pattern[0].Name == key) {
			visit(key, fields)
		}
	}
}

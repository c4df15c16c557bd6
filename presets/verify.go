package presets

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// VerifyApplied checks an object as it will be stored: that what overrides and
// removals set, according to the record on it, still holds, and that nothing is
// in it which a recorded preset forbids. Other webhooks act after ours, and
// may undo what it did.
//
// It judges by presets of the recorded generation only: one that has changed
// meanwhile has not acted, which the next request will see. On an update,
// what did not hold before may stay. An object without a record that should have
// one is judged by the presets that match now: bypassing the webhook
// does not bypass them. The error is a *Refusal or a *Malformed.
func (e *Engine) VerifyApplied(ctx context.Context, s *Snapshot, req Request) error {
	w, err := loadDecoded(req.Kind, req.Object, req.Decoded)
	if err != nil {
		return err
	}
	c := verification{snap: s, now: w, namespace: req.Namespace.Name}
	if len(req.OldObject) > 0 {
		if c.old, err = loadDecoded(req.Kind, req.OldObject, req.OldDecoded); err != nil {
			return nil //nolint:nilerr // what is stored cannot be worse than it is
		}
	}
	if c.rec = outranking(w); c.rec == nil {
		if c.old != nil && outranking(c.old) == nil || w.owned() {
			return nil // written before virtwright was there, or launched by a controller
		}
		if c.rec, err = e.unrecorded(ctx, s, req); err != nil {
			return err
		}
	}
	problems := append(c.governed(), c.forbidden()...)
	if len(problems) > 0 {
		return w.refusal(problems)
	}
	return nil
}

// recorded is the record on w; nil where there is none that can be read.
func recorded(w *resolution) *provenance.Record {
	return readable(provenance.Decode(w.storedProvenance()))
}

// outranking is recorded, but without leaves where no source outranks the user: only those of
// other sources are compared with the object.
func outranking(w *resolution) *provenance.Record {
	rec := readable(provenance.DecodeSources(w.storedProvenance()))
	if rec == nil || slices.ContainsFunc(rec.Sources, func(s provenance.Source) bool { return s.Role.Outranks() }) {
		return recorded(w)
	}
	return rec
}

func readable(rec *provenance.Record, err error) *provenance.Record {
	if err != nil || rec.Empty() {
		return nil
	}
	return rec
}

// unrecorded is the record that the object would have if it were created now.
func (e *Engine) unrecorded(ctx context.Context, s *Snapshot, req Request) (*provenance.Record, error) {
	w, err := load(req.Kind, req.Object)
	if err != nil {
		return nil, err
	}
	w.discardProvenance()
	if _, err := e.expand(ctx, s, w, Request{Kind: req.Kind, Object: req.Object, Namespace: req.Namespace, Instancetypes: req.Instancetypes}); err != nil {
		return nil, err
	}
	return w.rec, nil
}

var templateOwners = provenance.Of("spec", "template", "metadata", "ownerReferences")

// owned reports whether a controller made the instance.
func (w *resolution) owned() bool {
	return w.instance != nil && lookup(w.root, vmSchema(), templateOwners) != nil
}

// A verification compares an object with its record.
type verification struct {
	snap      *Snapshot
	now       *resolution
	old       *resolution // nil on a create
	rec       *provenance.Record
	namespace string
}

// preset is the preset of a source, if it is what it was.
func (c *verification) preset(s provenance.Source) *Compiled {
	found, ok := c.snap.Lookup(c.namespace, s.Preset)
	if !ok || found.Generation != s.Generation {
		return nil
	}
	return found
}

// governed finds leaves that are not as an override or removal left them.
func (c *verification) governed() field.ErrorList {
	var errs field.ErrorList
	for p, n := range c.rec.Decided() {
		s := c.rec.Sources[n.Source]
		if !s.Role.Outranks() || ownerOf(p)&runState != 0 {
			continue
		}
		preset := c.preset(s)
		if preset == nil || c.holds(c.now, p, preset, s.Role) || c.old != nil && !c.holds(c.old, p, preset, s.Role) {
			continue
		}
		want := "must be as the preset sets it"
		if s.Role == provenance.Remove {
			want = "must be left out"
		}
		errs = append(errs, field.Invalid(field.NewPath(p.String()), show(lookup(c.now.root, vmSchema(), p)),
			fmt.Sprintf("%s: preset %s overrules it, and something that acts after virtwright has undone that", want, s.Preset)))
	}
	return errs
}

// holds reports whether w has at p what the preset makes of it. An empty object may be filled, as
// the platform does.
func (c *verification) holds(w *resolution, p provenance.Path, preset *Compiled, role provenance.Role) bool {
	is := lookup(w.root, vmSchema(), p)
	if role == provenance.Remove {
		return is == nil
	}
	want := preset.overrides.find(p)
	return want == nil || !want.leaf || want.same(is) || want.computed != nil && is != nil || want.emptyObject() && isObject(is)
}

// forbidden finds what recorded presets forbid.
func (c *verification) forbidden() field.ErrorList {
	var errs field.ErrorList
	checked := map[*Compiled]bool{}
	for _, s := range c.rec.Sources {
		preset := c.preset(s)
		if preset == nil || checked[preset] {
			continue
		}
		checked[preset] = true
		for _, v := range c.now.violations([]*Compiled{preset}) {
			if c.old != nil {
				if was := lookup(c.old.root, vmSchema(), v.path); was != nil && !Grows(was, v.value) {
					continue
				}
			}
			errs = append(errs, v.problem())
		}
	}
	return errs
}

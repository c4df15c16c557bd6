package presets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
)

// VerifyExpansion checks the presets that match a VM on what its instancetype and its preference
// make of it: no override may have another value there, nothing that is removed may be there, and
// no forbid rule may be violated. Req is about the VM as KubeVirt's webhook left it.
//
// On an update, what the stored VM violated in the same way may stay. An instancetype or preference
// that is not found is KubeVirt's to judge. The error is a *Refusal, a *Malformed, or that of
// req.Instancetypes.
func (e *Engine) VerifyExpansion(ctx context.Context, s *Snapshot, req Request) error {
	now, err := expansionOf(req, req.Object)
	if err != nil || now.contributions == (contributions{}) {
		return err
	}
	now.match(ctx, s, req)
	if len(now.uncomputed) > 0 {
		return now.w.refusal(now.uncomputed)
	}
	found, err := now.newViolations(ctx, s, req)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	problems := make(field.ErrorList, 0, len(found))
	for _, v := range found {
		problems = append(problems, v.problem)
	}
	return now.w.refusal(problems)
}

// newViolations are those that the stored VM, if there is one, has not.
func (x *expandedVM) newViolations(ctx context.Context, s *Snapshot, req Request) ([]expansionViolation, error) {
	found := x.violations()
	if len(found) == 0 || len(req.OldObject) == 0 {
		return found, nil
	}
	old, err := expansionOf(req, req.OldObject)
	switch {
	case err != nil && !isUnreadable(err):
		return nil, err
	case err == nil:
		old.match(ctx, s, req)
		found = slices.DeleteFunc(found, old.had)
	}
	return found, nil
}

func isUnreadable(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	_, malformed := errors.AsType[*Malformed](err)
	return refused || malformed
}

// An expandedVM is a VM with what its instancetype and its preference give it.
type expandedVM struct {
	w *resolution
	// overrides of the presets that match, with what they compute, and what could not be.
	overrides  map[*Compiled]*fieldNode
	uncomputed field.ErrorList
	// full is the VM after expansion.
	full          map[string]any
	contributions contributions
	// matched presets that are enforced, strongest first.
	matched []*Compiled
}

// An expansionViolation is one thing in an expansion that a preset does not let be.
type expansionViolation struct {
	preset  *Compiled
	path    provenance.Path
	value   any
	problem *field.Error
}

// expansionOf expands a VM with what it names, as far as that is known.
func expansionOf(req Request, raw []byte) (*expandedVM, error) {
	w, err := load(req.Kind, raw)
	if err != nil {
		return nil, err
	}
	w.find = req.Instancetypes
	x := &expandedVM{w: w}
	if x.contributions, err = w.known(); err != nil {
		return nil, err
	}
	x.full = x.contributions.expanded(w.root)
	return x, nil
}

// known are the contributions to a VM that are known.
func (w *resolution) known() (contributions, error) {
	spec, _ := w.root["spec"].(map[string]any)
	if w.instance != nil || spec["instancetype"] == nil && spec["preference"] == nil {
		return contributions{}, nil
	}
	all := w.contributionsOf(spec)
	for _, c := range []**contribution{&all.instancetype, &all.preference} {
		if *c != nil && (*c).err != nil {
			return all, fmt.Errorf("cannot read %s: %w", *c, (*c).err)
		}
		if *c != nil && (*c).spec == nil {
			*c = nil
		}
	}
	return all, nil
}

// match finds the presets that match what the VM's author wrote.
func (x *expandedVM) match(ctx context.Context, s *Snapshot, req Request) {
	rec := recorded(x.w)
	if rec == nil {
		rec = provenance.New()
	}
	intent := (&update{old: x.w.root, sent: x.w.root, record: rec}).intent(x.w.root)
	author := &resolution{root: intent, rec: provenance.New(), find: x.w.find, stored: true, keepsRunState: true}
	q := author.query(ctx, req, nil)
	m, _ := s.match(q)
	enforced, _ := split(m.presets)
	for _, cluster := range []bool{true, false} {
		for _, c := range enforced {
			if c.Cluster() == cluster {
				x.matched = append(x.matched, c)
			}
		}
	}
	x.computeOverrides(author, s, q, enforced)
}

// computeOverrides finds the overrides of the presets that match. Computed values are what
// they are when the presets act on what the author wrote.
func (x *expandedVM) computeOverrides(author *resolution, s *Snapshot, q *query, enforced []*Compiled) {
	x.overrides = map[*Compiled]*fieldNode{}
	computes := false
	for _, c := range x.matched {
		x.overrides[c] = c.overrides
		computes = computes || c.computes
	}
	if !computes {
		return
	}
	author.apply(s, q, enforced)
	x.uncomputed = author.uncomputed
	for _, l := range author.layers {
		if l.role == provenance.Override {
			x.overrides[l.preset] = l.root
		}
	}
}

// had reports whether a violation was there before, in a VM that the preset matched too.
func (x *expandedVM) had(v expansionViolation) bool {
	if !slices.Contains(x.matched, v.preset) {
		return false
	}
	was := lookup(x.full, vmSchema(), v.path)
	return equalJSON(was, v.value) || was != nil && v.value != nil && !Grows(was, v.value)
}

func (x *expandedVM) violations() []expansionViolation {
	var decided, chosen, removed []provenance.Path
	var out []expansionViolation
	for _, c := range x.matched {
		visitLeaves(x.overrides[c], func(leaf *fieldNode) {
			if under(leaf.at, decided) || under(leaf.at, removed) || losesChoice(leaf.at, chosen) {
				return // a stronger preset decides
			}
			if chosen = append(chosen, leaf.at); !leaf.emptyObject() { // which asks for presence only
				decided = append(decided, leaf.at)
			}
			out = append(out, x.overridden(c, leaf)...)
		})
		for _, r := range c.removes {
			if !slices.ContainsFunc(decided, func(p provenance.Path) bool { return p.HasPrefix(r.path) }) {
				out = append(out, x.left(c, r)...)
			}
			removed = append(removed, r.path)
		}
	}
	return append(out, x.forbidden()...)
}

// losesChoice reports whether a stronger override decided another member of a one-of
// that p is in.
func losesChoice(p provenance.Path, decided []provenance.Path) bool {
	return eachRival(p, func(_, rival provenance.Path) bool {
		return slices.ContainsFunc(decided, func(d provenance.Path) bool { return d.HasPrefix(rival) })
	})
}

// overridden finds a leaf of an override that the expansion has otherwise. Only what an
// instancetype or preference has a say on can be: VerifyApplied checks the VM itself.
func (x *expandedVM) overridden(c *Compiled, leaf *fieldNode) []expansionViolation {
	is := lookup(x.full, vmSchema(), leaf.at)
	by := x.ownerOfOverride(leaf.at, leaf.owner)
	if by == nil || leaf.isKey || leaf.same(is) || leaf.emptyObject() && isObject(is) {
		return nil
	}
	says := fmt.Sprintf("must be %s, as preset %s overrides it, but %s sets ", show(leaf.value), c.Ref, by)
	problem := field.Required(field.NewPath(leaf.path), says+"nothing: name another "+by.field)
	if is != nil {
		problem = field.Invalid(field.NewPath(leaf.path), is, says+show(is)+": name another "+by.field)
	}
	return []expansionViolation{{c, leaf.at, is, problem}}
}

// left finds what a preset removes and the instancetype or preference puts back.
func (x *expandedVM) left(c *Compiled, r removal) []expansionViolation {
	is := lookup(x.full, vmSchema(), r.path)
	if !x.brings(r.path, is) {
		return nil
	}
	by := x.contributorOf(r.path)
	return []expansionViolation{{c, r.path, is, field.Forbidden(field.NewPath(r.text),
		fmt.Sprintf("preset %s removes it, but %s sets %s: name another %s", c.Ref, by, show(is), by.field))}}
}

// forbidden finds what a preset forbids and only the instancetype or preference brings.
func (x *expandedVM) forbidden() []expansionViolation {
	var out []expansionViolation
	for _, v := range (&resolution{root: x.full}).violations(x.matched) {
		if !x.brings(v.path, v.value) {
			continue
		}
		by := x.contributorOf(v.path)
		problem := v.problem()
		problem.Detail += fmt.Sprintf("; %s sets %s: name another %s", by, show(v.value), by.field)
		out = append(out, expansionViolation{v.preset, v.path, v.value, problem})
	}
	return out
}

// brings reports whether the expansion alone gives the VM the value at p. One socket, core or thread
// does not count: KubeVirt gives it to every VM.
func (x *expandedVM) brings(p provenance.Path, value any) bool {
	return value != nil && !equalJSON(value, lookup(x.w.root, vmSchema(), p)) && !(under(p, topologyFields) && equalJSON(value, int64(1)))
}

// ownerOfOverride is what has a say on a field of an override; nil where the override acts on the VM
// itself. An instancetype that was not known when the VM was expanded has a say on whatever it may
// own, a preference only on what it changes.
func (x *expandedVM) ownerOfOverride(p provenance.Path, owner ownership) *contribution {
	switch {
	case x.contributions.instancetype != nil && (owner&ownedByInstancetype != 0 || x.contributions.instancetype.owns(p)):
		return x.contributions.instancetype
	case x.contributions.preference != nil && x.contributions.preference.owns(p) && x.brings(p, lookup(x.full, vmSchema(), p)):
		return x.contributions.preference
	}
	return nil
}

// contributorOf is what gives something at or beneath p.
func (x *expandedVM) contributorOf(p provenance.Path) *contribution {
	it := x.contributions.instancetype
	if it != nil && (x.contributions.preference == nil || it.owns(p) || slices.ContainsFunc(it.owned, func(o provenance.Path) bool { return o.HasPrefix(p) })) {
		return it
	}
	return x.contributions.preference
}

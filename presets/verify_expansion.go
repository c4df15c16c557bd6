package presets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// VerifyExpansion checks the matching presets on a VM, after KubeVirt's webhook, with the fields of
// its instancetype and its preference: these must not violate an override, removal or forbid rule.
// On an update, violations of the stored VM may stay. KubeVirt reports an unknown instancetype. The
// error is a *Rejection, a *Malformed, or that of req.Instancetypes.
func (e *Engine) VerifyExpansion(ctx context.Context, s *Snapshot, req Request) error {
	s = s.For(req)
	now, err := expansionOf(req, req.Object)
	if err != nil || now.contributions == (contributions{}) {
		return err
	}
	now.match(ctx, s, req)
	if len(now.uncomputed) > 0 {
		return now.state.rejection(now.uncomputed)
	}
	found, err := now.newViolations(ctx, s, req)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return now.state.rejection(problemsOf(found))
}

func (x *expandedVM) newViolations(ctx context.Context, s *Snapshot, req Request) ([]violation, error) {
	found := x.violations()
	if len(found) == 0 || len(req.OldObject) == 0 {
		return found, nil
	}
	storedOnly := req
	storedOnly.Instancetypes = func(m Matcher) (map[string]any, error) {
		// What an instancetype says today may be newer than the stored VM.
		if m.Revision = cmp.Or(m.Revision, m.Stored); m.Revision == "" || req.Instancetypes == nil {
			return nil, nil
		}
		return req.Instancetypes(m)
	}
	old, err := expansionOf(storedOnly, req.OldObject)
	if err != nil {
		if isUnreadable(err) {
			return found, nil
		}
		return nil, err
	}
	old.match(ctx, s, req)
	return slices.DeleteFunc(found, old.hadBefore), nil
}

func isUnreadable(err error) bool {
	_, rejected := errors.AsType[*Rejection](err)
	_, malformed := errors.AsType[*Malformed](err)
	return rejected || malformed
}

// An expandedVM is a VM with the fields of its instancetype and its preference.
type expandedVM struct {
	state *mergeState
	// overrides of the matching presets for this VM, with computed values; and the problems of
	// computing them.
	overrides     map[*Compiled]*fieldNode
	uncomputed    field.ErrorList
	expanded      map[string]any
	contributions contributions
	matched       []*Compiled
}

func expansionOf(req Request, raw []byte) (*expandedVM, error) {
	r, err := load(req.Kind, raw)
	if err != nil {
		return nil, err
	}
	r.findInstancetype = req.Instancetypes
	x := &expandedVM{state: r}
	if x.contributions, err = r.known(); err != nil {
		return nil, err
	}
	x.expanded = x.contributions.expanded(r.root)
	return x, nil
}

// known returns the contributions that are known.
func (r *mergeState) known() (contributions, error) {
	spec := tree.AsObject(r.root["spec"])
	if r.sentVMI != nil || spec["instancetype"] == nil && spec["preference"] == nil {
		return contributions{}, nil
	}
	all := r.contributionsOf(spec)
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

func (x *expandedVM) match(ctx context.Context, s *Snapshot, req Request) {
	u := &update{old: x.state.root, sent: x.state.root, record: cmp.Or(recorded(x.state), provenance.New())}
	intent := u.userIntent(u.sent)
	author := &mergeState{root: intent, record: provenance.New(), findInstancetype: x.state.findInstancetype, stored: true, keepsRunState: true}
	q := author.query(ctx, req, nil)
	m, _ := s.match(q)
	enforced, _ := split(m.presets)
	x.matched = slices.Clone(enforced)
	slices.SortStableFunc(x.matched, func(a, b *Compiled) int { return falseFirst(b.Cluster(), a.Cluster()) })
	x.computeOverrides(author, s, q, enforced)
}

func (x *expandedVM) computeOverrides(author *mergeState, s *Snapshot, q *query, enforced []*Compiled) {
	x.overrides = map[*Compiled]*fieldNode{}
	differ := false
	for _, c := range x.matched {
		x.overrides[c] = c.overrides
		differ = differ || c.computes || c.setsEvery
	}
	if !differ {
		return
	}
	author.applyPresets(s, q, enforced)
	x.uncomputed = author.computeErrs
	for _, l := range author.layers {
		if l.role == provenance.Override {
			x.overrides[l.preset] = l.root
		}
	}
}

// hadBefore reports whether a violation existed before, in a VM that the preset matched too.
func (x *expandedVM) hadBefore(v violation) bool {
	if !slices.Contains(x.matched, v.preset) {
		return false
	}
	if v.rule.required {
		return v.isIn(x.expanded)
	}
	was := vmschema.Value(x.expanded, v.path)
	return tree.Equal(was, v.value) || was != nil && v.value != nil && !tree.HasNewValues(was, v.value)
}

func (x *expandedVM) violations() []violation {
	var decided, chosen, removed []provenance.Path
	var out []violation
	for _, c := range x.matched {
		visitLeaves(x.overrides[c], func(leaf *fieldNode) {
			if under(leaf.path, decided) || under(leaf.path, removed) || losesChoice(leaf.path, chosen) {
				return // a stronger preset decides
			}
			if chosen = append(chosen, leaf.path); !leaf.isEmptyObject() { // {} asks for presence only
				decided = append(decided, leaf.path)
			}
			out = append(out, x.overridden(c, leaf)...)
		})
		for _, r := range c.removes {
			if !slices.ContainsFunc(decided, func(p provenance.Path) bool { return p.HasPrefix(r.path) }) {
				out = append(out, x.restored(c, r)...)
			}
			removed = append(removed, r.path)
		}
	}
	return append(out, x.forbidden()...)
}

func losesChoice(p provenance.Path, decided []provenance.Path) bool {
	for _, alternative := range vmschema.AlternativesOf(p) {
		if slices.ContainsFunc(decided, func(d provenance.Path) bool { return d.HasPrefix(alternative) }) {
			return true
		}
	}
	return false
}

// overridden reports a leaf of an override that has another value after expansion. Only fields of
// an instancetype or preference can: VerifyApplied checks the VM itself.
func (x *expandedVM) overridden(c *Compiled, leaf *fieldNode) []violation {
	is := vmschema.Value(x.expanded, leaf.path)
	by := x.ownerOfOverride(leaf.path, leaf.owner)
	if by == nil || leaf.isKey || leaf.equals(is) || leaf.isEmptyObject() && tree.IsObject(is) {
		return nil
	}
	says := fmt.Sprintf("must be %s, as preset %s overrides it, but %s sets ", tree.Show(leaf.value), c.Ref, by)
	problem := field.Required(field.NewPath(leaf.text), says+"nothing: name another "+by.field)
	if is != nil {
		problem = field.Invalid(field.NewPath(leaf.text), is, says+tree.Show(is)+": name another "+by.field)
	}
	return []violation{{preset: c, path: leaf.path, value: is, problem: problem.WithOrigin(originPresets + c.Ref)}}
}

func (x *expandedVM) restored(c *Compiled, removed removal) []violation {
	is := vmschema.Value(x.expanded, removed.path)
	if !x.brings(removed.path, is) {
		return nil
	}
	by := x.contributorOf(removed.path)
	problem := field.Forbidden(field.NewPath(removed.text),
		fmt.Sprintf("preset %s removes it, but %s sets %s: name another %s", c.Ref, by, tree.Show(is), by.field))
	return []violation{{preset: c, path: removed.path, value: is, problem: problem.WithOrigin(originPresets + c.Ref)}}
}

// forbidden reports forbidden values that the instancetype or preference sets, and required ones
// that it might have set.
func (x *expandedVM) forbidden() []violation {
	var out []violation
	for _, v := range (&mergeState{root: x.expanded}).violations(x.matched) {
		if v.rule.required || !x.brings(v.path, v.value) {
			continue
		}
		by := x.contributorOf(v.path)
		v.problem.Detail += fmt.Sprintf("; %s sets %s: name another %s", by, tree.Show(v.value), by.field)
		out = append(out, v)
	}
	for _, c := range x.matched {
		out = append(out, (&mergeState{root: x.expanded}).gaps(c, true)...)
	}
	return out
}

// brings reports whether the value at p comes from the expansion. One socket, core or thread does
// not count: KubeVirt gives it to every VM.
func (x *expandedVM) brings(p provenance.Path, value any) bool {
	return value != nil && !tree.Equal(value, vmschema.Value(x.state.root, p)) && !(under(p, topologyFields) && tree.Equal(value, int64(1)))
}

// ownerOfOverride returns the contribution that may change an overridden field; nil if the override
// acts on the VM itself. An instancetype that was unknown when the VM was expanded may change any
// field that it may own, a preference only fields that it changes.
func (x *expandedVM) ownerOfOverride(p provenance.Path, owner ownership) *contribution {
	if owner&ownedByInstancetype != 0 && x.contributions.instancetype != nil || x.contributions.instancetype.owns(p) {
		return x.contributions.instancetype
	}
	if x.contributions.preference.owns(p) && x.brings(p, vmschema.Value(x.expanded, p)) {
		return x.contributions.preference
	}
	return nil
}

func (x *expandedVM) contributorOf(p provenance.Path) *contribution {
	it := x.contributions.instancetype
	if it != nil && (x.contributions.preference == nil || it.owns(p) || slices.ContainsFunc(it.owned, func(o provenance.Path) bool { return o.HasPrefix(p) })) {
		return it
	}
	return x.contributions.preference
}

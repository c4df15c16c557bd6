package presets

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// Sparsify leaves out every leaf of a new object that a create does not need: a create of the
// manifest gives the same object, but not without one more leaf. It also returns that object,
// without its record; nil if presets overrule or remove a leaf. The request is that of the full
// object. The error is a *Rejection if that is rejected, or a *Malformed.
func (e *Engine) Sparsify(ctx context.Context, s *Snapshot, req Request) (out *Sparse, expanded map[string]any, err error) {
	x, err := e.sparsifier(ctx, s, req)
	if err != nil {
		return nil, nil, err
	}
	for { // a leaf may be needed only because of another one
		before := len(x.leftOut)
		if err := x.reduce(ctx); err != nil {
			return nil, nil, err
		}
		if len(x.leftOut) == before {
			if x.overrules {
				return x.result(), nil, nil
			}
			return x.result(), x.asSent(x.expanded), nil
		}
		if err := x.begin(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// Abridge is a fast Sparsify: a create of its manifest gives the same object, but leaves may stay
// that need not.
func (e *Engine) Abridge(ctx context.Context, s *Snapshot, req Request) (map[string]any, error) {
	x, err := e.sparsifier(ctx, s, req)
	if err != nil {
		return nil, err
	}
	if len(x.leftOut) == 0 {
		err = x.reduce(ctx)
	}
	return x.manifest(), err
}

// sparsifier returns a sparsifier with a manifest that need not be the smallest.
func (e *Engine) sparsifier(ctx context.Context, s *Snapshot, req Request) (*sparsifier, error) {
	if err := req.CheckSize(); err != nil {
		return nil, err
	}
	object, err := decode("object", req.Object)
	if err != nil {
		return nil, err
	}
	full, err := newMergeState(req.Kind, object) // keeps quantities as they were written
	if err != nil {
		return nil, err
	}
	full.dropProvenance(provenance.New())
	x := &sparsifier{Engine: e, snapshot: s, request: req, full: full, leftOut: map[string]bool{}, needed: map[string]trial{}}
	x.divided = divide(full.root, vmschema.VM(), nil)
	x.smallest = x.manifest()
	if x.got, err = x.create(ctx, x.smallest); err != nil {
		return nil, err
	}
	x.matched, x.expanded, x.want = x.got.match.presets, x.got.root, leavesByPath(x.got.root)
	x.list()
	return x, x.begin(ctx)
}

type sparsifier struct {
	*Engine
	snapshot  *Snapshot
	request   Request
	full      *mergeState
	divided   *divided        // the full object
	leaves    []Leaf          // of the full object that may be left out, by path
	authors   []Leaf          // others, which neither a preset nor the platform may give
	leftOut   map[string]bool // their paths
	want      map[string]Leaf // of the expanded object, by path
	overrules bool            // one of the leaves of the full object is another one there, or none
	expanded  map[string]any
	matched   []*Compiled      // the presets that match it
	smallest  map[string]any   // the manifest up to now
	got       *expansion       // of its create
	needed    map[string]trial // the last one without a leaf, by its path
	next      int              // the index of the leaf to leave out
	unchanged int              // how many leaves were tried since one was left out
}

// list finds the leaves that may be left out, and those that nothing else may give.
func (x *sparsifier) list() {
	names, others := x.full.names(), x.presetsOfParts()
	all := leavesByPath(x.full.root)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		leaf := all[path]
		x.overrules = x.overrules || !tree.Equal(leaf.Value, x.want[path].Value)
		switch {
		case slices.ContainsFunc(names, leaf.Path.HasPrefix):
		case x.mayBeGiven(leaf, others):
			x.leaves = append(x.leaves, leaf)
		default:
			x.authors = append(x.authors, leaf)
		}
	}
}

// mayBeGiven reports whether anything besides the author may give a leaf of the expanded object. It
// is much faster than a create.
func (x *sparsifier) mayBeGiven(leaf Leaf, by []*Compiled) bool {
	_, stays := x.want[leaf.Path.String()]
	isMarked := x.full.sentVMI != nil && isMetadata(leaf.Path) // VirtualMachineInstancePresets mark VMIs
	isElsewhere := len(x.request.Owner) > 0 || len(x.snapshot.rollouts) > 0
	return !stays || isMarked || isElsewhere || keyed(leaf.Path) != nil || hasField(by, leaf.Path)
}

// presetsOfParts are the presets that may match a part of the object. It has fewer labels, or one
// of the VM instead of one of its template.
func (x *sparsifier) presetsOfParts() (out []*Compiled) {
	q := x.got.query
	keep := func(c *Compiled) { out = append(out, c) }
	x.snapshot.candidates(q.labels, q.namespace, keep)
	x.snapshot.candidates(matchLabels(tree.AsObject(x.full.root["metadata"])["labels"]), q.namespace, keep)
	for _, ref := range q.selection.named {
		if c, exists := x.snapshot.Lookup(q.namespace.Name, ref); exists {
			keep(c)
		}
	}
	return out
}

// hasField reports whether the platform sets a field at p, above or beneath it, or one of the
// presets sets or requires one.
func hasField(some []*Compiled, p provenance.Path) bool {
	isRequired := func(r rule) bool { return r.path.HasPrefix(p) || p.HasPrefix(r.path) }
	has := func(c *Compiled) bool {
		return c.defaults.meets(p) || c.overrides.meets(p) || slices.ContainsFunc(c.requires, isRequired)
	}
	return platformFields().meets(p) || slices.ContainsFunc(some, has)
}

// names are the fields that name an object and its type.
func (r *mergeState) names() []provenance.Path {
	out := []provenance.Path{
		provenance.Of("apiVersion"), provenance.Of("kind"),
		provenance.Of("metadata", "name"), provenance.Of("metadata", "generateName"), provenance.Of("metadata", "namespace"),
	}
	if r.sentVMI != nil {
		for _, p := range out[2:] {
			out = append(out, slices.Concat(vmschema.Template, p))
		}
	}
	return out
}

func leavesByPath(root map[string]any) map[string]Leaf {
	out := map[string]Leaf{}
	listLeaves(root, vmschema.VM(), nil, func(p provenance.Path, v any) { out[p.String()] = Leaf{slices.Clone(p), v} })
	delete(out, "") // an object without any
	return out
}

func isMetadata(p provenance.Path) bool {
	return len(p) > 0 && p[0].Name == "metadata" || p.HasPrefix(vmschema.Template.Field("metadata"))
}

// leave decides whether leaves are left out.
func (x *sparsifier) leave(out bool, paths []string) {
	for _, path := range paths {
		if out {
			x.leftOut[path] = true
		} else {
			delete(x.leftOut, path)
		}
	}
}

// reduce leaves out what changes nothing: first the elements of one key in all lists, such as a
// disk and its volume, then one leaf after the other, until none can be left out.
func (x *sparsifier) reduce(ctx context.Context) error {
	elements := map[string][]string{}
	for _, leaf := range x.leaves {
		if i := leaf.Path.ElementIndex(); i >= 0 {
			elements[leaf.Path[i].Name] = append(elements[leaf.Path[i].Name], leaf.Path.String())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(elements)) {
		if _, err := x.without(ctx, elements[key]...); err != nil {
			return err
		}
	}
	for ; x.unchanged < len(x.leaves); x.next = (x.next + 1) % len(x.leaves) {
		x.unchanged++
		path := x.leaves[x.next].Path.String()
		t, err := x.without(ctx, path)
		if err != nil {
			return err
		}
		x.needed[path] = t
	}
	return nil
}

// without leaves out leaves unless that changes something.
func (x *sparsifier) without(ctx context.Context, paths ...string) (trial, error) {
	paths = slices.DeleteFunc(paths, func(path string) bool { return x.leftOut[path] })
	if len(paths) == 0 {
		return trial{isSame: true}, nil
	}
	x.leave(true, paths)
	manifest := x.manifest()
	if tree.Equal(x.smallest, manifest) { // the key of an element that has other leaves
		x.leave(false, paths)
		return trial{isSame: true}, nil
	}
	t, err := x.try(ctx, manifest)
	if err != nil || !t.isSame {
		x.leave(false, paths)
		return t, err
	}
	x.take(manifest, t)
	return t, nil
}

// take keeps a manifest whose create gives the same object.
func (x *sparsifier) take(manifest map[string]any, t trial) {
	if !tree.Equal(x.smallest, manifest) {
		x.unchanged = 0
	}
	x.smallest, x.got = manifest, t.got
}

// A trial is a create of a manifest.
type trial struct {
	isSame bool
	got    *expansion // nil if it was rejected
}

func (x *sparsifier) try(ctx context.Context, manifest map[string]any) (trial, error) {
	got, err := x.create(ctx, manifest)
	if _, isRejected := errors.AsType[*Rejection](err); isRejected {
		return trial{}, nil
	}
	t := trial{got: got}
	t.isSame = err == nil && tree.Equal(x.expanded, got.root) && x.lost(t) == nil
	return t, err
}

// lost is a preset that matches the full object and not that of a trial. It gives nothing now, but
// would no longer forbid, require or override.
func (x *sparsifier) lost(t trial) *Compiled {
	if t.got == nil {
		return nil
	}
	i := slices.IndexFunc(x.matched, func(c *Compiled) bool { return !slices.Contains(t.got.match.presets, c) })
	if i < 0 {
		return nil
	}
	return x.matched[i]
}

// changed are the paths of leaves that a trial changes; none if the create was rejected, or if only
// the order of elements is different.
func (x *sparsifier) changed(t trial) (out []string) {
	if t.got == nil {
		return nil
	}
	is := leavesByPath(t.got.root)
	for path, leaf := range x.want {
		if other, has := is[path]; !has || !tree.Equal(leaf.Value, other.Value) {
			out = append(out, path)
		}
	}
	for path := range is {
		if _, has := x.want[path]; !has {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// create expands a manifest.
func (x *sparsifier) create(ctx context.Context, manifest map[string]any) (*expansion, error) {
	r, err := loadDecoded(x.request.Kind, x.request.Object, tree.AsObject(tree.Clone(manifest)))
	if err != nil {
		return nil, err
	}
	request := x.request
	request.Decoded = manifest
	out, err := x.prepare(ctx, x.snapshot.For(request), r, request)
	if err != nil {
		return nil, err
	}
	x.apply(out)
	if err := cmp.Or(out.verdict(), out.annotate()); err != nil {
		return nil, err
	}
	out.dropProvenance(provenance.New())
	return out, nil
}

// manifest returns the rest of the full object.
func (x *sparsifier) manifest() map[string]any { return x.asSent(x.rest()) }

// asSent returns a VMI if a VM stands for one.
func (x *sparsifier) asSent(root map[string]any) map[string]any {
	if x.full.sentVMI == nil {
		return root
	}
	out := map[string]any{"apiVersion": root["apiVersion"], "kind": string(VirtualMachineInstance)}
	copyFields(out, tree.AsObject(vmschema.Value(root, vmschema.Template)), "metadata", "spec")
	return out
}

func (x *sparsifier) rest() map[string]any {
	return tree.AsObject(x.divided.part(func(path string, v any) any {
		if x.leftOut[path] {
			return nil
		}
		return v
	}))
}

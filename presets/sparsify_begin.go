package presets

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// begin leaves out the leaves that a create gives without any of them. It repeats that, because a
// leaf may be given only beside others: first labels and annotations, by which presets select. If
// that leads nowhere, nothing more is left out.
func (x *sparsifier) begin(ctx context.Context) error {
	before := maps.Clone(x.leftOut)
	for _, leaf := range x.leaves {
		x.leftOut[leaf.Path.String()] = true
	}
	for grows := true; grows; {
		manifest := x.manifest()
		t, err := x.try(ctx, manifest)
		if err != nil {
			return err
		}
		if t.isSame {
			x.take(manifest, t)
			return nil
		}
		differ := x.changed(t)
		switch {
		case len(differ) > 0:
		case x.lost(t) == nil:
			differ = x.reordered(t)
		default:
			if differ, err = x.matching(ctx, before); err != nil {
				return err
			}
		}
		missing := slices.DeleteFunc(differ, func(path string) bool { return before[path] || !x.leftOut[path] })
		if selecting := slices.DeleteFunc(slices.Clone(missing), func(path string) bool { return !isMetadata(x.want[path].Path) }); len(selecting) > 0 {
			missing = selecting
		}
		grows = len(missing) > 0
		x.leave(false, missing)
	}
	x.leftOut = before
	return nil
}

// reordered are the paths of leaves in lists whose elements a trial has in another order.
func (x *sparsifier) reordered(t trial) (out []string) {
	if t.got == nil {
		return nil
	}
	for _, leaf := range x.leaves {
		i := leaf.Path.ElementIndex()
		if i >= 0 && !tree.Equal(vmschema.Value(x.expanded, leaf.Path[:i]), vmschema.Value(t.got.root, leaf.Path[:i])) {
			out = append(out, leaf.Path.String())
		}
	}
	return out
}

// matching is a leaf by which presets match that otherwise would not: without it and those before
// it, one of them is lost.
func (x *sparsifier) matching(ctx context.Context, before map[string]bool) ([]string, error) {
	var out []string
	for _, leaf := range x.leaves {
		if path := leaf.Path.String(); x.leftOut[path] && !before[path] {
			out = append(out, path)
		}
	}
	var failed error
	n := sort.Search(len(out), func(n int) bool {
		x.leave(false, out[:n+1])
		t, err := x.try(ctx, x.manifest())
		x.leave(true, out[:n+1])
		failed = cmp.Or(failed, err)
		return err != nil || t.got != nil && x.lost(t) == nil
	})
	if failed != nil || n == len(out) {
		return nil, failed
	}
	return out[n : n+1], nil
}

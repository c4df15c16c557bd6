package presets

import (
	"cmp"
	"slices"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// A Sparse is an object without the leaves that presets and the platform give it anyway.
type Sparse struct {
	// Object is a part of the full object. A create of it stores the same, but for the record, and
	// all presets match that match the full object.
	Object map[string]any
	// Kept are the leaves of Object, by path. Those that name the object are not counted, nor keys
	// of elements that have other leaves.
	Kept []KeptLeaf
	// Given are the leaves that were left out, by path, with the sources that set them.
	Given []Origin
}

// A KeptLeaf is a leaf that stays, because a create without it is rejected, gives another object,
// or is matched by fewer presets.
type KeptLeaf struct {
	Path provenance.Path
	// Changed is a leaf that would be different, if possible Path; nil if the create is rejected.
	Changed provenance.Path
	// By would set another value of Changed; the zero Source if nothing would.
	By provenance.Source
	// IsSameQuantity reports whether that value is equal, but written differently: 4096Mi and 4Gi.
	IsSameQuantity bool
	// Selects is the preset that would not match, if nothing would be different; nil for none.
	Selects *Compiled
}

// Reason says why the leaf stays. It has no values, which may be secret.
func (k KeptLeaf) Reason() string {
	switch {
	case k.Selects != nil:
		return k.Selects.Ref + " would not match"
	case k.Changed == nil:
		return "without it, the object is rejected"
	case !k.Changed.Equal(k.Path):
		return "without it, " + k.Changed.String() + " is different"
	case k.By == provenance.Source{}:
		return "nothing else sets it"
	}
	by, does := "the platform", "sets another value"
	if k.By.Role != provenance.Platform {
		by = k.By.Preset
	}
	if k.IsSameQuantity {
		does = "writes the same quantity differently"
	}
	return by + " " + does
}

// kept says why a leaf stays that a trial left out.
func (x *sparsifier) kept(leaf Leaf, t trial) KeptLeaf {
	out := KeptLeaf{Path: leaf.Path}
	if t.got == nil {
		return out
	}
	out.Changed = leaf.Path
	if tree.Equal(vmschema.Value(t.got.root, leaf.Path), x.want[leaf.Path.String()].Value) {
		changed := x.changed(t)
		if len(changed) == 0 {
			out.Changed, out.Selects = nil, x.lost(t)
			return out
		}
		out.Changed, _ = provenance.ParsePath(changed[0])
	}
	if is := vmschema.Value(t.got.root, out.Changed); is != nil {
		out.By, _ = t.got.record.SourceOf(out.Changed)
		out.IsSameQuantity = vmschema.SameValue(out.Changed, is, x.want[out.Changed.String()].Value)
	}
	return out
}

// result says for each leaf why it stays, or what sets it.
func (x *sparsifier) result() *Sparse {
	out := &Sparse{Object: x.smallest}
	left := leavesByPath(x.rest())
	for _, leaf := range x.leaves {
		path := leaf.Path.String()
		if _, stays := left[path]; !stays {
			by, _ := x.got.record.SourceOf(leaf.Path)
			out.Given = append(out.Given, Origin{Path: leaf.Path, Value: leaf.Value, By: by})
		} else if t := x.needed[path]; !t.isSame {
			out.Kept = append(out.Kept, x.kept(leaf, t))
		}
	}
	for _, leaf := range x.authors {
		out.Kept = append(out.Kept, KeptLeaf{Path: leaf.Path, Changed: leaf.Path})
	}
	slices.SortFunc(out.Kept, func(a, b KeptLeaf) int { return cmp.Compare(a.Path.String(), b.Path.String()) })
	return out
}

package presets

import (
	"cmp"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/presets/provenance"
	"github.com/virtwright/virtwright/presets/tree"
	"github.com/virtwright/virtwright/presets/vmschema"
)

// EveryElement is the key of an element in defaults and overrides that stands for every element
// that the list has. It never adds an element.
const EveryElement = "*"

var every = provenance.Segment{Name: EveryElement, Kind: provenance.AnyElement}

// namesEvery returns the field with which an element stands for every element; empty if it does
// not.
func namesEvery(keys []vmschema.ListKey, element map[string]any) string {
	for _, k := range keys {
		if v, _ := tree.Lookup(element, k.Field); v == EveryElement {
			return k.Field
		}
	}
	return ""
}

// withoutKey removes the key of an element, and reports whether any other field is left.
func withoutKey(element map[string]any, key string) bool {
	name, rest, nested := strings.Cut(key, ".")
	if !nested || !withoutKey(tree.AsObject(element[name]), rest) {
		delete(element, name)
	}
	return len(element) > 0
}

func (f *fieldNode) isEvery() bool { return f.segment.Kind == provenance.AnyElement }

func (f *fieldNode) hasEvery() bool {
	return f != nil && slices.ContainsFunc(f.children, func(kid *fieldNode) bool { return kid.isEvery() || kid.hasEvery() })
}

// setting returns the leaf that sets p, which may do so for every element; nil if none does.
func (f *fieldNode) setting(p provenance.Path) *fieldNode {
	switch {
	case f == nil:
		return nil
	case len(p) > 0 && p[0].Kind == provenance.Element:
		return cmp.Or(f.find(p[:1]).setting(p[1:]), f.find(provenance.Path{every}).setting(p[1:]))
	case len(p) > 0:
		return f.find(p[:1]).setting(p[1:])
	case !f.leaf:
		return nil
	}
	return f
}

// spreadEvery replaces each element that stands for every element. The replacements are the
// elements that the VM has after all layers and the platform defaults acted without it.
func (r *mergeState) spreadEvery() {
	if !slices.ContainsFunc(r.layers, func(l layer) bool { return l.preset.setsEvery }) {
		return
	}
	without := r.rehearsal()
	without.applyLayers()
	chosen := tree.AsObject(tree.Clone(without.root))
	without.applyPlatform(r.platform)
	s := forEvery{without.root, chosen}
	for i := range r.layers {
		r.layers[i].root = s.over(r.layers[i].root)
	}
}

// rehearsal returns a copy of r to which no layer was applied.
func (r *mergeState) rehearsal() *mergeState {
	root := tree.AsObject(tree.Clone(r.root))
	out := &mergeState{
		root: root, sentVMI: r.sentVMI, record: provenance.New(), stored: r.stored, keepsRunState: r.keepsRunState,
		findInstancetype: r.findInstancetype, platform: r.platform, trial: r.trial,
	}
	_, _ = out.adoptOwner(r.owner) // r adopted it without an error
	for _, l := range r.layers {
		out.addLayer(l)
	}
	return out
}

// A forEvery has the VM whose elements count, and the VM whose choices among one-ofs count. These
// lack platform defaults, because presets outrank them.
type forEvery struct{ elements, choices map[string]any }

// over returns f with elements of the VM for those that stand for every element.
func (s forEvery) over(f *fieldNode) *fieldNode {
	if !f.hasEvery() {
		return f
	}
	return s.copyTo(f.path, f, func(*fieldNode) bool { return true }, s.over)
}

// under returns f, a field for every element, for the element that p lies in. It leaves out
// alternatives to the choices of the VM.
func (s forEvery) under(p provenance.Path, f *fieldNode) *fieldNode {
	wanted := func(kid *fieldNode) bool {
		return !slices.ContainsFunc(kid.alternatives, func(alternative string) bool { return vmschema.Value(s.choices, p.Field(alternative)) != nil })
	}
	return s.copyTo(p, f, wanted, func(kid *fieldNode) *fieldNode { return s.under(p.With(kid.segment), kid) })
}

func (s forEvery) copyTo(p provenance.Path, f *fieldNode, wanted func(*fieldNode) bool, copied func(*fieldNode) *fieldNode) *fieldNode {
	out := f.moved(p)
	out.children = nil
	for _, kid := range f.children {
		switch {
		case kid.isEvery():
			s.elementsOf(out, kid)
		case wanted(kid):
			out.add(copied(kid))
		}
	}
	if !f.leaf && len(out.children)+len(out.unkeyed) == 0 {
		return nil
	}
	return out
}

// elementsOf adds the fields of an element that stands for all to the elements of a list. What the
// preset sets for one element counts more.
func (s forEvery) elementsOf(list, forAll *fieldNode) {
	for p := range vmschema.ElementsAt(s.elements, list.path) {
		element := s.under(p, forAll)
		if element == nil {
			continue
		}
		element.existing = true
		list.merge(element)
	}
}

// merge adds a child to f. If f has that child, it adds what that child lacks.
func (f *fieldNode) merge(kid *fieldNode) {
	f.computes = f.computes || kid.computes
	i := slices.IndexFunc(f.children, func(own *fieldNode) bool { return own.segment == kid.segment })
	switch {
	case i < 0 && !slices.ContainsFunc(f.children, func(own *fieldNode) bool { return slices.Contains(kid.alternatives, own.segment.Name) }):
		f.children = append(f.children, kid)
	case i < 0 || kid.leaf:
	case f.children[i].leaf && f.children[i].isEmptyObject():
		f.children[i] = kid
	case !f.children[i].leaf:
		own := *f.children[i]
		own.children = slices.Clone(own.children)
		for _, sub := range kid.children {
			own.merge(sub)
		}
		f.children[i] = &own
	}
}

// moved returns a copy of f at p.
func (f *fieldNode) moved(p provenance.Path) *fieldNode {
	out := *f
	if out.original == nil {
		out.original = f
	}
	if p.Equal(f.path) {
		return &out
	}
	if out.path = p; len(p) > 0 {
		out.segment, out.text, out.owner = p[len(p)-1], p.String(), ownerOf(p)
	}
	if out.pairing != nil {
		out.pairing = vmschema.PairingOf(p)
	}
	return &out
}

// A waitingElement is an element that a layer does not add, but changes if a weaker one adds it.
type waitingElement struct {
	layer   *layer
	element *fieldNode
}

// applyAwaited sets the key of e, a new element of list f, if stronger layers wait for the element,
// and applies these layers.
func (l *layer) applyAwaited(f, e *fieldNode, c *cursor) {
	if !slices.ContainsFunc(l.state.waiting, func(w waitingElement) bool { return w.element.path.Equal(e.path) }) {
		return
	}
	for _, k := range f.schema.Keys {
		at, p := c, provenance.Of(strings.Split(k.Field, ".")...)
		for _, seg := range p[:len(p)-1] {
			at = at.child(seg.Name)
		}
		if key := e.find(p); key != nil {
			l.applyFields([]*fieldNode{key}, at)
		}
	}
	c.applyWaiting(e.path)
}

// applyWaiting applies the layers that wait for the element at c, which another layer added.
func (c *cursor) applyWaiting(p provenance.Path) {
	if c.object == nil {
		return
	}
	for _, w := range c.state.waiting {
		if w.element.path.Equal(p) {
			at := *c
			at.layer = w.layer
			w.layer.applyFields(w.element.children, &at)
		}
	}
}

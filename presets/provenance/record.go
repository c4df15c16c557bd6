package provenance

import "iter"

// NoSource marks a node that no source decided.
const NoSource = -1

// A Node is one field or element in a Record.
type Node struct {
	// Name of the segment; see Segment.
	Name string
	// Was holds the user's value, as decoded JSON, where it was Overruled and
	// is not Lost.
	Was any
	// Value is what is now at this path, where Change is Added or Replaced.
	Value any

	child, next *Node

	// Source is the index in Record.Sources of what decided this very
	// field, or NoSource.
	Source int32
	// Index is the position of an element in its list before elements were
	// removed, -1 while unknown.
	Index int32
	// Kind of the segment; see Segment.
	Kind Kind

	// WasEmpty says that the user wrote this container, and wrote it empty.
	WasEmpty bool
	// Overruled says that the user's value was replaced or removed; Lost, that
	// it was too large to be kept.
	Overruled, Lost bool

	// What follows is, with Value and Index, working state of whoever fills
	// the record; it is not stored.

	// Change is what happened to the object at this path.
	Change Change
	// Weak says that a default which comes later may replace this field.
	Weak bool
	// New says that this element was added to its list, and Now that the node
	// was decided since the record was made or read.
	New, Now bool
}

// Segment is the step that leads to n.
func (n *Node) Segment() Segment { return Segment{Name: n.Name, Kind: n.Kind} }

// A Change says what a patch has to do at a node.
type Change uint8

// The changes.
const (
	Kept     Change = iota // nothing, though something beneath may have changed
	Added                  // the object had nothing here
	Replaced               // the object had another value here
	Removed                // the object had something here
)

// slabNodes is how many nodes are allocated at a time.
const slabNodes = 40

// firstNodes is enough for a machine that presets make whole.
const firstNodes = 2 * slabNodes

// A Record maps fields to their sources. The zero Record is empty.
type Record struct {
	// Snapshot is the hash of the set of presets that acted.
	Snapshot string
	// Sources in the order in which they acted.
	Sources []Source
	// Exceptions kept presets from acting, by name.
	Exceptions []Exception

	root Node
	slab []Node
}

// An Exception is the name of an exception, and of the presets that it kept from acting.
type Exception struct {
	Name    string
	Presets []string
}

// New returns an empty record.
func New() *Record {
	r := &Record{}
	r.root.Source = NoSource
	return r
}

// Root returns the node of the whole object.
func (r *Record) Root() *Node { return &r.root }

// AddSource returns the index of s, adding it when it is new.
func (r *Record) AddSource(s Source) int32 {
	for i := range r.Sources {
		if r.Sources[i] == s {
			return int32(i)
		}
	}
	r.Sources = append(r.Sources, s)
	return int32(len(r.Sources) - 1)
}

// Find returns the child of n, or nil.
func (n *Node) Find(s Segment) *Node {
	for c := n.child; c != nil; c = c.next {
		if c.Name == s.Name && c.Kind == s.Kind {
			return c
		}
	}
	return nil
}

// Children yields the children of n in the order of their stored keys.
func (n *Node) Children() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for c := n.child; c != nil; c = c.next {
			if !yield(c) {
				return
			}
		}
	}
}

// Child returns the child of n, adding it when it is new.
func (r *Record) Child(n *Node, s Segment) *Node {
	at := &n.child
	for c := *at; c != nil; c = *at {
		if c.Name == s.Name && c.Kind == s.Kind {
			return c
		}
		if after(c.Segment(), s) {
			break
		}
		at = &c.next
	}
	if len(r.slab) == cap(r.slab) {
		r.slab = make([]Node, 0, r.room())
	}
	r.slab = append(r.slab, Node{Name: s.Name, Kind: s.Kind, Source: NoSource, Index: -1, next: *at})
	*at = &r.slab[len(r.slab)-1]
	return *at
}

// room is how many nodes to make room for.
func (r *Record) room() int {
	if r.slab == nil {
		return firstNodes
	}
	return slabNodes
}

// after orders fields before elements and each by name, so that equal records
// have equal stored forms.
func after(a, b Segment) bool {
	if a.Kind != b.Kind {
		return a.Kind > b.Kind
	}
	return a.Name > b.Name
}

// At returns the node at p, or nil.
func (r *Record) At(p Path) *Node {
	n := &r.root
	for _, s := range p {
		if n = n.Find(s); n == nil {
			return nil
		}
	}
	return n
}

// Ensure returns the node at p, adding it when it is new.
func (r *Record) Ensure(p Path) *Node {
	n := &r.root
	for _, s := range p {
		n = r.Child(n, s)
	}
	return n
}

// Set records that source i decided p.
func (r *Record) Set(p Path, i int32) *Node {
	n := r.Ensure(p)
	n.Source = i
	return n
}

// Decided yields each decided path with its node, in stored order. The path
// is good until the next step only; clone it to keep it.
func (r *Record) Decided() iter.Seq2[Path, *Node] {
	return func(yield func(Path, *Node) bool) {
		walk(&r.root, make(Path, 0, 16), yield)
	}
}

func walk(n *Node, p Path, yield func(Path, *Node) bool) bool {
	if n.Source != NoSource && !yield(p, n) {
		return false
	}
	for c := n.child; c != nil; c = c.next {
		if !walk(c, append(p, c.Segment()), yield) {
			return false
		}
	}
	return true
}

// SourceOf returns the source of exactly p.
func (r *Record) SourceOf(p Path) (Source, bool) {
	n := r.At(p)
	if n == nil || n.Source == NoSource {
		return Source{}, false
	}
	return r.Sources[n.Source], true
}

// Has reports whether n or anything beneath it is worth storing.
func (n *Node) Has() bool {
	if n.Source != NoSource || n.WasEmpty {
		return true
	}
	for c := n.child; c != nil; c = c.next {
		if c.Has() {
			return true
		}
	}
	return false
}

// Release forgets what decided n itself.
func (n *Node) Release() {
	n.Source, n.Overruled, n.Lost, n.Was, n.Weak = NoSource, false, false, nil, false
}

// Clear forgets n and everything beneath it.
func (n *Node) Clear() {
	n.Source, n.child = NoSource, nil
	n.Overruled, n.Lost, n.Was, n.WasEmpty, n.Weak = false, false, nil, false, false
}

// DropUnused forgets sources that decide nothing any more. Sources that forbid decide
// no field; they stay where forbids says so.
func (r *Record) DropUnused(forbids func(Source) bool) {
	used := make([]bool, len(r.Sources))
	for _, n := range r.Decided() {
		used[n.Source] = true
	}
	moved := make([]int32, len(r.Sources))
	kept := r.Sources[:0:0]
	for i, s := range r.Sources {
		if used[i] || s.Role == Forbid && forbids(s) {
			moved[i] = int32(len(kept))
			kept = append(kept, s)
		}
	}
	for _, n := range r.Decided() {
		n.Source = moved[n.Source]
	}
	r.Sources = kept
}

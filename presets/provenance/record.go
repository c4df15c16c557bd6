package provenance

import (
	"cmp"
	"iter"
	"slices"
)

// NoSource marks a node that no source decided.
const NoSource = -1

// A Node is one field or element in a Record.
type Node struct {
	// Name of the segment; see Segment.
	Name string
	// UserValue is the user's value, as decoded JSON, if it was Overruled and is not TooLarge.
	UserValue any
	// Value is the new value, if Change is Added or Replaced.
	Value any

	child, next *Node

	// Source is the index in Record.Sources of the source that decided this field, or NoSource.
	Source int32
	// Index is the position of an element in its list before removals; -1 while unknown.
	Index int32
	// Kind of the segment; see Segment.
	Kind Kind

	// EmptyByUser says that the user wrote this object or list, and wrote it empty.
	EmptyByUser bool
	// Overruled says that the user's value was replaced or removed; TooLarge that it is too large
	// for the record.
	Overruled, TooLarge bool

	// The following fields, Value and Index are working state, which is not stored.

	// Change is the change of the object at this path.
	Change Change
	// Replaceable says that a later default may replace this field.
	Replaceable bool
	// NewElement says that this element was added to its list, DecidedNow that the node was decided
	// in this request.
	NewElement, DecidedNow bool
	// Withheld says that a removal kept a weaker source from setting a value here.
	Withheld bool
}

// Segment is the step that leads to n.
func (n *Node) Segment() Segment { return Segment{Name: n.Name, Kind: n.Kind} }

// A Change is the patch operation at a node.
type Change uint8

// The changes.
const (
	Unchanged Change = iota // nothing, though something beneath may have changed
	Added                   // the object had nothing here
	Replaced                // the object had another value here
	Removed                 // the object had something here
)

// A Record maps fields to their sources. The zero Record is empty.
type Record struct {
	// Snapshot is the hash of the presets that acted.
	Snapshot string
	// Sources in the order in which they acted.
	Sources []Source
	// Exceptions kept presets from acting, by name.
	Exceptions []Exception

	root Node
}

// An Exception names an exception and the presets that it kept from acting.
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

// IsDecided reports whether a source decided n; a nil node is not decided.
func (n *Node) IsDecided() bool { return n != nil && n.Source != NoSource }

// Find returns the child of n, or nil; a nil node has no children.
func (n *Node) Find(s Segment) *Node {
	if n == nil {
		return nil
	}
	for c := n.child; c != nil; c = c.next {
		if c.Name == s.Name && c.Kind == s.Kind {
			return c
		}
	}
	return nil
}

// Children yields the children of n in the order of their stored keys; a nil node has none.
func (n *Node) Children() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if n == nil {
			return
		}
		for c := n.child; c != nil; c = c.next {
			if !yield(c) {
				return
			}
		}
	}
}

// Child returns the child of n, and adds it if it is new.
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
	*at = &Node{Name: s.Name, Kind: s.Kind, Source: NoSource, Index: -1, next: *at}
	return *at
}

// after orders fields before elements, each by name, so that equal records have equal stored forms.
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
		n = n.Find(s)
	}
	return n
}

// Ensure returns the node at p, and adds it if it is new.
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

// Decided yields each decided path with its node, in stored order. The path is valid until the next
// step; clone it to keep it.
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

// HasContent reports whether n or a node beneath it is stored.
func (n *Node) HasContent() bool {
	if n.Source != NoSource || n.EmptyByUser {
		return true
	}
	for c := n.child; c != nil; c = c.next {
		if c.HasContent() {
			return true
		}
	}
	return false
}

// ClearDecision clears the source of n itself.
func (n *Node) ClearDecision() {
	n.Source, n.Overruled, n.TooLarge, n.UserValue, n.Replaceable = NoSource, false, false, nil, false
}

// ClearSubtree clears n and everything beneath it.
func (n *Node) ClearSubtree() {
	n.ClearDecision()
	n.child, n.EmptyByUser = nil, false
}

// Reorder gives sources the order of another list. Those that it lacks come last.
func (r *Record) Reorder(like []Source) {
	order := make([]int, len(r.Sources))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		if at := slices.Index(like, r.Sources[i]); at >= 0 {
			return at
		}
		return len(like)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	sources, moved := make([]Source, len(order)), make([]int32, len(order))
	for to, from := range order {
		sources[to], moved[from] = r.Sources[from], int32(to)
	}
	for _, n := range r.Decided() {
		n.Source = moved[n.Source]
	}
	r.Sources = sources
}

// DropUnused removes sources that decide no field. A source that forbids stays if forbids returns
// true.
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

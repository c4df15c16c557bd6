package presets

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A Snapshot is an immutable set of compiled presets, indexed so that a
// request looks only at presets that may match it. The zero Snapshot holds none.
type Snapshot struct {
	hash    string
	cluster index
	// namespaced has an index for each namespace that has presets.
	namespaced map[string]*index
	// byRef finds a preset by namespace ("" for cluster) and Ref.
	byRef map[PresetName]*Compiled
	// broken are presets that exist and do not compile.
	broken map[PresetName]bool
	// all presets, by precedence.
	all []*Compiled
	// exceptions by namespace, and the clock that ends them.
	exceptions map[string][]*Exception
	now        func() time.Time
	// launches says that some act when instances are made.
	launches bool
}

// NewSnapshot indexes presets. Their order does not matter. Broken names
// presets that exist but do not compile, so that a VM that asks for one by name
// is told so; it may be nil.
func NewSnapshot(compiled []*Compiled, broken []PresetName) *Snapshot {
	s := &Snapshot{namespaced: map[string]*index{}, byRef: map[PresetName]*Compiled{}, broken: map[PresetName]bool{}}
	for _, b := range broken {
		s.broken[b] = true
	}
	sorted := slices.SortedFunc(slices.Values(compiled), func(a, b *Compiled) int {
		return bytes.Compare(a.digest[:], b.digest[:])
	})
	sum := sha256.New()
	for _, c := range sorted {
		sum.Write(c.digest[:])
	}
	// Filled by precedence, so that matches need next to no sorting.
	slices.SortStableFunc(sorted, byPrecedence)
	s.all = sorted
	for _, c := range sorted {
		s.launches = s.launches || c.launching()
		if !c.legacy { // those have no names in annotations
			s.byRef[PresetName{c.Namespace, c.Ref}] = c
		}
		if c.Cluster() {
			s.cluster.add(c)
			continue
		}
		at := s.namespaced[c.Namespace]
		if at == nil {
			at = &index{}
			s.namespaced[c.Namespace] = at
		}
		at.add(c)
	}
	s.cluster.selected.sort()
	for _, x := range s.namespaced {
		x.selected.sort()
	}
	s.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	return s
}

// A PresetName is a Ref in a namespace, "" for cluster presets.
type PresetName struct{ Namespace, Ref string }

// Hash identifies what the presets say: equal sets have equal hashes, whatever
// their order, spelling and history. It is 16 hexadecimal digits.
func (s *Snapshot) Hash() string { return s.hash }

// Len is the number of presets.
func (s *Snapshot) Len() int { return len(s.all) }

// All yields the presets, by precedence.
func (s *Snapshot) All() iter.Seq[*Compiled] { return slices.Values(s.all) }

// Differs reports whether two presets say different things.
func (c *Compiled) Differs(o *Compiled) bool { return c.digest != o.digest }

// Lookup finds a preset by its Ref as seen from a namespace.
func (s *Snapshot) Lookup(namespace, ref string) (*Compiled, bool) {
	c, ok := s.byRef[NameIn(namespace, ref)]
	return c, ok
}

// NameIn is the name of the preset with this Ref as seen from a namespace.
func NameIn(namespace, ref string) PresetName {
	if _, cluster := Bare(ref); cluster {
		namespace = ""
	}
	return PresetName{namespace, ref}
}

// refs are the presets that a VM in namespace could name.
func (s *Snapshot) refs(namespace string) []string {
	var out []string
	for k := range s.byRef {
		if k.Namespace == namespace || k.Namespace == "" {
			out = append(out, k.Ref)
		}
	}
	slices.Sort(out)
	return out
}

// An index finds the presets of one scope that may match. Each preset stands
// in exactly one place: under one thing that it requires, if it requires any.
type index struct {
	byLabel     map[labelPair][]*Compiled
	byLabelKey  map[string][]*Compiled
	byNamespace map[labelPair][]*Compiled
	rest        []*Compiled
	selected    selected
}

type labelPair struct{ key, value string }

func (x *index) add(c *Compiled) {
	x.selected.add(c)
	if c.Explicit {
		return // found by name
	}
	if pairs := requiredPairs(c.labels); pairs != nil {
		x.byLabel = put(x.byLabel, c, pairs...)
		return
	}
	if pairs := requiredPairs(c.namespaces); pairs != nil {
		x.byNamespace = put(x.byNamespace, c, pairs...)
		return
	}
	if key := requiredKey(c.labels); key != "" {
		x.byLabelKey = put(x.byLabelKey, c, key)
		return
	}
	x.rest = append(x.rest, c)
}

func put[K comparable](m map[K][]*Compiled, c *Compiled, keys ...K) map[K][]*Compiled {
	if m == nil {
		m = map[K][]*Compiled{}
	}
	for _, k := range keys {
		m[k] = append(m[k], c)
	}
	return m
}

// requiredPairs returns the pairs of one requirement, of which a match needs one.
func requiredPairs(s labels.Selector) []labelPair {
	if s == nil {
		return nil
	}
	requirements, _ := s.Requirements()
	var best []labelPair
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			var pairs []labelPair
			for v := range r.Values() {
				pairs = append(pairs, labelPair{r.Key(), v})
			}
			if best == nil || len(pairs) < len(best) {
				best = pairs
			}
		}
	}
	return best
}

func requiredKey(s labels.Selector) string {
	if s == nil {
		return ""
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		if r.Operator() == selection.Exists {
			return r.Key()
		}
	}
	return ""
}

// candidates calls keep with every preset of x that may match, explicit ones excepted.
func (x *index) candidates(vm, namespace labels.Set, keep func(*Compiled)) {
	visit := func(cs []*Compiled) {
		for _, c := range cs {
			keep(c)
		}
	}
	if len(x.byLabel) > 0 || len(x.byLabelKey) > 0 {
		for k, v := range vm {
			visit(x.byLabel[labelPair{k, v}])
			visit(x.byLabelKey[k])
		}
	}
	if len(x.byNamespace) > 0 {
		for k, v := range namespace {
			visit(x.byNamespace[labelPair{k, v}])
		}
	}
	visit(x.rest)
}

// byPrecedence orders presets that act in one layer, strongest first: by
// priority, for defaults namespaced before cluster, then by name.
func byPrecedence(a, b *Compiled) int {
	if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
		return c
	}
	if a.legacy != b.legacy {
		if a.legacy {
			return 1
		}
		return -1
	}
	if a.Cluster() != b.Cluster() {
		if a.Cluster() {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.Ref, b.Ref)
}

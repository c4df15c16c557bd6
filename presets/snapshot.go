package presets

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A Snapshot is an immutable set of compiled presets, with indexes to find those that may match a
// request. The zero Snapshot is empty.
type Snapshot struct {
	hash       string
	cluster    index
	namespaced map[string]*index
	// byRef finds a preset by namespace ("" for cluster) and Ref.
	byRef  map[PresetName]*Compiled
	broken map[PresetName]bool
	// all presets, by precedence.
	all []*Compiled
	// exceptions by namespace, and the clock that ends them.
	exceptions map[string][]*Exception
	now        func() time.Time
	// launches says that some presets act when VMIs are created.
	launches bool
	// platformOnly says that nothing matches, and that annotations that name presets are ignored.
	platformOnly bool
	// rollouts give each VM a variant of the snapshot; variants has those by the names of rollouts
	// that hold their presets back. A variant has no rollouts, but stamps: each stamp of a rollout,
	// and whether the rollout has reached the VM.
	rollouts []*Rollout
	variants *sync.Map
	stamps   map[string]bool
	// held are the current revisions that rollouts hold back from the VM.
	held []heldPreset
}

type heldPreset struct {
	*Compiled
	rollout string
}

// PlatformOnly has no presets. It ignores presets that an object names.
var PlatformOnly = &Snapshot{platformOnly: true}

// NewSnapshot indexes presets. Their order does not matter. Broken lists presets that exist but do
// not compile, so that errors about them say so; it may be nil.
func NewSnapshot(compiled []*Compiled, broken []PresetName) *Snapshot {
	s := &Snapshot{cluster: index{selected: labelIndex{}}, namespaced: map[string]*index{}, byRef: map[PresetName]*Compiled{}, broken: map[PresetName]bool{}}
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
	// Added by precedence, so that matches need almost no sorting.
	slices.SortStableFunc(sorted, byPrecedence)
	s.all = sorted
	for _, c := range sorted {
		s.launches = s.launches || c.launching()
		if !c.legacy { // annotations cannot name a legacy preset
			s.byRef[PresetName{c.Namespace, c.Ref}] = c
		}
		if c.Cluster() {
			s.cluster.add(c)
			continue
		}
		if s.namespaced[c.Namespace] == nil {
			s.namespaced[c.Namespace] = &index{selected: labelIndex{}}
		}
		s.namespaced[c.Namespace].add(c)
	}
	s.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	return s
}

// A PresetName is a Ref in a namespace, "" for cluster presets.
type PresetName struct{ Namespace, Ref string }

// Hash is equal for equal sets of presets, in any order and spelling; 16 hexadecimal digits.
func (s *Snapshot) Hash() string { return s.hash }

// Len returns the number of presets.
func (s *Snapshot) Len() int { return len(s.all) }

// All yields the presets, by precedence.
func (s *Snapshot) All() iter.Seq[*Compiled] { return slices.Values(s.all) }

// Differs reports whether two presets have different content.
func (c *Compiled) Differs(o *Compiled) bool { return c.digest != o.digest }

// Lookup finds a preset by its Ref, as a namespace uses it.
func (s *Snapshot) Lookup(namespace, ref string) (*Compiled, bool) {
	c, ok := s.byRef[ParseRef(namespace, ref)]
	return c, ok
}

// ParseRef returns the name of the preset with this Ref, as a namespace uses it.
func ParseRef(namespace, ref string) PresetName {
	if _, cluster := SplitRef(ref); cluster {
		namespace = ""
	}
	return PresetName{namespace, ref}
}

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

// An index has each preset of a scope in one place: under one of its requirements, if it has any.
type index struct {
	byLabel     map[labelPair][]*Compiled
	byLabelKey  map[string][]*Compiled
	byNamespace map[labelPair][]*Compiled
	rest        []*Compiled
	selected    labelIndex
}

type labelPair struct{ key, value string }

func (x *index) add(c *Compiled) {
	x.selected.add(c)
	pairs, namespaces, key := requiredPairs(c.labels), requiredPairs(c.namespaces), requiredKey(c.labels)
	switch {
	case c.Explicit: // found by name
	case pairs != nil:
		x.byLabel = addUnder(x.byLabel, c, pairs...)
	case namespaces != nil:
		x.byNamespace = addUnder(x.byNamespace, c, namespaces...)
	case key != "":
		x.byLabelKey = addUnder(x.byLabelKey, c, key)
	default:
		x.rest = append(x.rest, c)
	}
}

func addUnder[K comparable](m map[K][]*Compiled, c *Compiled, keys ...K) map[K][]*Compiled {
	if m == nil {
		m = map[K][]*Compiled{}
	}
	for _, k := range keys {
		m[k] = append(m[k], c)
	}
	return m
}

func requirementsOf(s labels.Selector) labels.Requirements {
	if s == nil {
		return nil
	}
	out, _ := s.Requirements()
	return out
}

// requiredPairs returns the label pairs of one requirement; a match needs one of them.
func requiredPairs(s labels.Selector) []labelPair {
	var best []labelPair
	for _, r := range requirementsOf(s) {
		if pairs := pairsOf(r); pairs != nil && (best == nil || len(pairs) < len(best)) {
			best = pairs
		}
	}
	return best
}

// pairsOf returns the label pairs that satisfy r; nil if r requires something else.
func pairsOf(r labels.Requirement) []labelPair {
	var out []labelPair
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		for v := range r.Values() {
			out = append(out, labelPair{r.Key(), v})
		}
	}
	return out
}

func requiredKey(s labels.Selector) string {
	for _, r := range requirementsOf(s) {
		if r.Operator() == selection.Exists {
			return r.Key()
		}
	}
	return ""
}

// candidates calls keep with every preset that may match in a namespace, except explicit ones.
func (s *Snapshot) candidates(vm labels.Set, namespace Namespace, keep func(*Compiled)) {
	s.cluster.candidates(vm, namespace.Labels, keep)
	s.namespaced[namespace.Name].candidates(vm, namespace.Labels, keep)
}

func (x *index) candidates(vm, namespace labels.Set, keep func(*Compiled)) {
	if x == nil {
		return
	}
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

// byPrecedence orders the presets of one layer, strongest first: by priority, for defaults
// namespaced before cluster, then by name.
func byPrecedence(a, b *Compiled) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority), falseFirst(a.legacy, b.legacy), falseFirst(a.Cluster(), b.Cluster()), cmp.Compare(a.Ref, b.Ref))
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

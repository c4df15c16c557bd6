package learn

import (
	"cmp"
	"context"
	"maps"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/presets/tree"
)

// A featureKind is how a selector reads a feature, the most readable first.
type featureKind uint8

const (
	namespaceLabel featureKind = iota
	label
	labelExists
	instancetype
	preference
	namespace
)

// A feature is a property of VMs that a selector can name.
type feature struct {
	kind       featureKind
	key, value string
}

const (
	// mostTerms limits the features of a selector.
	mostTerms = 3
	// mostSelectors limits the selectors, those with fewer features and more VMs first.
	mostSelectors = 10_000
)

func (f *fleet) featuresOf(m VM) (out []feature) {
	own := m.labels()
	maps.DeleteFunc(own, func(key, _ string) bool { return v1alpha1.IsToolLabel(key) })
	if m.Kind == presets.VirtualMachine {
		spec := tree.AsObject(m.Object["spec"])
		for kind, field := range map[featureKind]string{instancetype: "instancetype", preference: "preference"} {
			if name, ok := tree.AsObject(spec[field])["name"].(string); ok {
				out = append(out, feature{kind, "", name})
			}
		}
	}
	if f.selecting != nil {
		maps.DeleteFunc(own, func(key, _ string) bool { return !f.selecting[key] })
	}
	for key, value := range own {
		out = append(out, feature{labelExists, key, ""}, feature{label, key, value})
	}
	if !f.Namespaced {
		for key, value := range m.Namespace.Labels {
			kind := namespaceLabel
			if key == corev1.LabelMetadataName {
				kind = namespace
			}
			out = append(out, feature{kind, key, value})
		}
	}
	return out
}

// labels returns those of a VM and of its template.
func (m VM) labels() map[string]string {
	out := ownLabels(m.Object)
	if m.Kind == presets.VirtualMachine {
		maps.Copy(out, texts(tree.AsObject(tree.AsObject(tree.AsObject(m.Object["spec"])["template"])["metadata"])["labels"]))
	}
	return out
}

func ownLabels(object map[string]any) map[string]string {
	return texts(tree.AsObject(object["metadata"])["labels"])
}

// texts returns the texts of an object.
func texts(v any) map[string]string {
	out := map[string]string{}
	for key, value := range tree.AsObject(v) {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

// A selector is a conjunction of features.
type selector struct {
	terms  []int
	extent set // of classes
	vms    int
}

// A set of small numbers.
type set []uint64

func newSet(size int) set { return make(set, (size+63)/64) }

func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s set) key() string {
	out := make([]byte, 0, 8*len(s))
	for _, word := range s {
		for i := range 8 {
			out = append(out, byte(word>>(8*i)))
		}
	}
	return string(out)
}

func (s set) and(o set) set {
	out := make(set, len(s))
	for i := range s {
		out[i] = s[i] & o[i]
	}
	return out
}

// all yields the numbers in order.
func (s set) all(yield func(int) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(64*i + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// selectors returns a selector for each set of VMs that one can select: the shortest one, of the
// most readable features.
func (f *fleet) selectors(ctx context.Context) ([]selector, error) {
	every := selector{extent: newSet(len(f.classes)), vms: len(f.rows)}
	for i := range f.classes {
		every.extent.add(i)
	}
	single := make([]selector, len(f.features))
	for i := range single {
		single[i] = selector{terms: []int{i}, extent: newSet(len(f.classes))}
	}
	for i, c := range f.classes {
		for _, is := range c.features {
			single[is].extent.add(i)
		}
	}
	known := map[string]bool{every.extent.key(): true}
	out, level := []selector{every}, []selector{every}
	for range mostTerms {
		var next []selector
		for _, s := range level {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if len(known) < mostSelectors {
				next = append(next, f.narrower(s, single, known)...)
			}
		}
		slices.SortStableFunc(next, func(a, b selector) int { return cmp.Compare(b.vms, a.vms) })
		out, level = append(out, next...), next
	}
	return out, nil
}

// narrower returns selectors with one more feature that select other VMs than all known ones.
func (f *fleet) narrower(s selector, single []selector, known map[string]bool) (out []selector) {
	first := 0
	if len(s.terms) > 0 {
		first = s.terms[len(s.terms)-1] + 1
	}
	for i := first; i < len(single); i++ {
		extent := s.extent.and(single[i].extent)
		vms := 0
		for class := range extent.all {
			vms += len(f.classes[class].rows)
		}
		if key := extent.key(); vms >= f.Support && !known[key] {
			known[key] = true
			out = append(out, selector{append(slices.Clone(s.terms), i), extent, vms})
		}
	}
	return out
}

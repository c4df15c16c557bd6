package fleet

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A requirement is all that selectors require of one label key.
type requirement []labels.Requirement

// requirements lists what selectors require, by label key. A nil selector requires nothing.
func requirements(selectors ...labels.Selector) map[string]requirement {
	out := map[string]requirement{}
	for _, s := range selectors {
		if s == nil {
			continue
		}
		all, _ := s.Requirements()
		for _, r := range all {
			out[r.Key()] = append(out[r.Key()], r)
		}
	}
	return out
}

// compatible reports whether some labels meet two sets of requirements.
func compatible(x, y map[string]requirement) bool {
	for key, r := range x {
		other := y[key]
		if len(other) == 0 {
			continue
		}
		one, isOne := r.only()
		another, isAlsoOne := other.only()
		switch {
		case isOne && isAlsoOne && one != another:
			return false
		case isOne && isAlsoOne:
		case len(choices(append(slices.Clip(r), other...), append(slices.Clip(r), other...))) == 0:
			return false
		}
	}
	return true
}

// only returns the one value that a requirement allows, if it is that simple.
func (r requirement) only() (string, bool) {
	if len(r) != 1 || len(r[0].ValuesUnsorted()) != 1 {
		return "", false
	}
	op := r[0].Operator()
	return r[0].ValuesUnsorted()[0], op == selection.In || op == selection.Equals || op == selection.DoubleEquals
}

// satisfy returns labels that all selectors select, as few as possible; false where there are
// none.
func satisfy(selectors ...labels.Selector) (map[string]string, bool) {
	out := map[string]string{}
	required := requirements(selectors...)
	for _, key := range slices.Sorted(maps.Keys(required)) {
		allowed := choices(required[key], required[key])
		if len(allowed) == 0 {
			return nil, false
		}
		maps.Copy(out, allowed[0])
	}
	return out, true
}

// implies reports whether a VM that the first selector selects is always selected by the second
// one.
func implies(first, second labels.Selector) bool {
	given := requirements(first)
	for key, wanted := range requirements(second) {
		for _, r := range wanted {
			for _, set := range choices(given[key], append(slices.Clone(given[key]), r)) {
				if !r.Matches(set) {
					return false
				}
			}
		}
	}
	return true
}

// choices are the labels of one key that meet the requirements: no label, or one of the values
// that the mentioned requirements tell apart.
func choices(required, mentioned requirement) []labels.Set {
	key := ""
	candidates := []labels.Set{{}}
	for _, r := range append(slices.Clone(mentioned), required...) {
		key = r.Key()
	}
	for _, value := range valuesOf(mentioned) {
		candidates = append(candidates, labels.Set{key: value})
	}
	return slices.DeleteFunc(candidates, func(set labels.Set) bool {
		return slices.ContainsFunc(required, func(r labels.Requirement) bool { return !r.Matches(set) })
	})
}

// valuesOf are one value for each outcome that requirements of one key can have.
func valuesOf(rs requirement) []string {
	var out []string
	for _, r := range rs {
		for _, v := range slices.Sorted(maps.Keys(r.Values())) {
			if bound, err := strconv.ParseInt(v, 10, 64); err == nil && (r.Operator() == selection.GreaterThan || r.Operator() == selection.LessThan) {
				out = append(out, strconv.FormatInt(bound+1, 10), strconv.FormatInt(bound-1, 10))
			}
			out = append(out, v)
		}
	}
	fresh := "any"
	for slices.Contains(out, fresh) {
		fresh += "-other"
	}
	return append(out, fresh)
}

// inNamespace selects one namespace by name.
func inNamespace(name string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{corev1.LabelMetadataName: name})
}

package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var affinityRules = []Rule{{
	ID:          "affinity-weight",
	Leaf:        true,
	Requirement: "The weight of a preferred affinity is 1 to 100.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, term := range pointers(nodeAffinityOf(vm).PreferredDuringSchedulingIgnoredDuringExecution) {
			if term.Weight < 1 || term.Weight > maxWeight {
				r.Add(field.Invalid(vm.Path("spec", "affinity", "nodeAffinity", preferred).Index(i).Child("weight"), term.Weight, "must be 1 to 100"))
			}
		}
		for term := range vm.eachPodTerm {
			if term.weight != nil && (*term.weight < 1 || *term.weight > maxWeight) {
				r.Add(field.Invalid(vm.Path("spec", "affinity", term.kind, preferred).Index(term.i).Child("weight"), *term.weight, "must be 1 to 100"))
			}
		}
	},
}, {
	ID:          "node-affinity-terms",
	Requirement: "A required node affinity has a term.",
	Check: func(vm *ExpandedVM, r *Report) {
		selector := nodeAffinityOf(vm).RequiredDuringSchedulingIgnoredDuringExecution
		if selector != nil && len(selector.NodeSelectorTerms) == 0 {
			r.Add(field.Required(vm.Path("spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"), "must have a term"))
		}
	},
}, {
	ID:          "node-affinity-preference",
	Requirement: "A preferred node affinity has a preference.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, term := range pointers(nodeAffinityOf(vm).PreferredDuringSchedulingIgnoredDuringExecution) {
			at := vm.Path("spec", "affinity", "nodeAffinity", preferred).Index(i).Child("preference")
			if len(term.Preference.MatchExpressions) == 0 && len(term.Preference.MatchFields) == 0 && !vm.sends(at) {
				r.Add(field.Required(at, "must select nodes by matchExpressions or matchFields"))
			}
		}
	},
}, {
	ID:          "node-affinity-expression",
	Requirement: "An expression of a node affinity has a label key, an operator, and the values that the operator requires.",
	Check: func(vm *ExpandedVM, r *Report) {
		for term, at := range vm.eachNodeTerm {
			for i, expression := range pointers(term.MatchExpressions) {
				part := func(name string) *field.Path { return at().Child("matchExpressions").Index(i).Child(name) }
				checkLabelKey(r, expression.Key, func() *field.Path { return part("key") })
				checkOperator(r, string(expression.Operator), len(expression.Values), part)
			}
		}
	},
}, {
	ID:          "node-affinity-field",
	Requirement: "A node affinity matches no field but metadata.name, In or NotIn one name.",
	Check: func(vm *ExpandedVM, r *Report) {
		for term, at := range vm.eachNodeTerm {
			for i, match := range pointers(term.MatchFields) {
				part := func(name string) *field.Path { return at().Child("matchFields").Index(i).Child(name) }
				valueSet{metav1.ObjectNameField}.check(r, match.Key, func() *field.Path { return part("key") })
				valueSet{"In", "NotIn"}.check(r, string(match.Operator), func() *field.Path { return part("operator") })
				if len(match.Values) != 1 {
					r.Add(field.Required(part("values"), "must be the name of exactly one node"))
				} else if !isDNSSubdomain(match.Values[0]) {
					r.Add(field.Invalid(part("values").Index(0), match.Values[0], dnsSubdomainDetail))
				}
			}
		}
	},
}, {
	ID:          "pod-affinity-topology-key",
	Requirement: "A pod affinity or anti-affinity names a label of nodes.",
	Check: func(vm *ExpandedVM, r *Report) {
		for term := range vm.eachPodTerm {
			if term.TopologyKey == "" {
				r.Add(field.Required(term.at(vm, "topologyKey"), "must be the key of a label of nodes, such as topology.kubernetes.io/zone"))
				continue
			}
			checkLabelKey(r, term.TopologyKey, func() *field.Path { return term.at(vm, "topologyKey") })
		}
	},
}, {
	ID:          "pod-affinity-selector",
	Requirement: "A pod affinity or anti-affinity selects by labels that pods and namespaces can have.",
	Check: func(vm *ExpandedVM, r *Report) {
		for term := range vm.eachPodTerm {
			checkLabelSelector(r, term.LabelSelector, func(name string) *field.Path { return term.at(vm, "labelSelector", name) })
			checkLabelSelector(r, term.NamespaceSelector, func(name string) *field.Path { return term.at(vm, "namespaceSelector", name) })
		}
	},
}, {
	ID:          "pod-affinity-keys",
	Requirement: "matchLabelKeys and mismatchLabelKeys of a pod affinity are keys of labels, differ, and need a labelSelector without them.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for term := range vm.eachPodTerm {
			checkLabelKeys(r, term.MatchLabelKeys, term.LabelSelector, func() *field.Path { return term.at(vm, "matchLabelKeys") })
			checkLabelKeys(r, term.MismatchLabelKeys, term.LabelSelector, func() *field.Path { return term.at(vm, "mismatchLabelKeys") })
			if len(term.MatchLabelKeys) == 0 {
				continue
			}
			mismatched := sets.New(term.MismatchLabelKeys...)
			for i, key := range term.MatchLabelKeys {
				if mismatched.Has(key) {
					r.Add(field.Invalid(term.at(vm, "matchLabelKeys").Index(i), key, "must not be in mismatchLabelKeys, too"))
				}
			}
		}
	},
}, {
	ID:          "pod-affinity-namespace",
	Requirement: "The namespaces of a pod affinity or anti-affinity are names of namespaces.",
	Check: func(vm *ExpandedVM, r *Report) {
		for term := range vm.eachPodTerm {
			for i, namespace := range term.Namespaces {
				if !dnsLabelForm.MatchString(namespace) {
					r.Add(field.Invalid(term.at(vm, "namespaces").Index(i), namespace, dnsLabelDetail))
				}
			}
		}
	},
}}

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// nodeAffinityOf returns the node affinity, or an empty one.
func nodeAffinityOf(vm *ExpandedVM) *corev1.NodeAffinity {
	return orEmpty(orEmpty(vm.Spec.Affinity).NodeAffinity)
}

// A podTerm is a term of a pod affinity or anti-affinity, with its position.
type podTerm struct {
	*corev1.PodAffinityTerm
	weight *int32 // nil for a required term
	kind   string // podAffinity or podAntiAffinity
	i      int
}

func (t *podTerm) at(vm *ExpandedVM, more ...string) *field.Path {
	path := vm.Path("spec", "affinity", t.kind)
	if t.weight == nil {
		return childPath(path.Child(required).Index(t.i), more)
	}
	return childPath(path.Child(preferred).Index(t.i).Child("podAffinityTerm"), more)
}

// eachPodTerm yields every term of pod affinities and anti-affinities.
func (vm *ExpandedVM) eachPodTerm(yield func(podTerm) bool) {
	affinity := vm.Spec.Affinity
	if affinity == nil {
		return
	}
	if pods := affinity.PodAffinity; pods != nil && !podTerms("podAffinity", *pods, yield) {
		return
	}
	if pods := affinity.PodAntiAffinity; pods != nil {
		podTerms("podAntiAffinity", corev1.PodAffinity(*pods), yield)
	}
}

// podTerms yields the terms of one kind, and reports whether more are wanted.
func podTerms(kind string, pods corev1.PodAffinity, yield func(podTerm) bool) bool {
	for i, term := range pointers(pods.RequiredDuringSchedulingIgnoredDuringExecution) {
		if !yield(podTerm{PodAffinityTerm: term, kind: kind, i: i}) {
			return false
		}
	}
	for i, term := range pointers(pods.PreferredDuringSchedulingIgnoredDuringExecution) {
		if !yield(podTerm{PodAffinityTerm: &term.PodAffinityTerm, weight: &term.Weight, kind: kind, i: i}) {
			return false
		}
	}
	return true
}

// maxWeight is the maximum weight of a preference.
const maxWeight = 100

// eachNodeTerm yields every term of the node affinity, with its path.
func (vm *ExpandedVM) eachNodeTerm(yield func(*corev1.NodeSelectorTerm, func() *field.Path) bool) {
	affinity := nodeAffinityOf(vm)
	if selector := affinity.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		for i, term := range pointers(selector.NodeSelectorTerms) {
			at := func() *field.Path {
				return vm.Path("spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms").Index(i)
			}
			if !yield(term, at) {
				return
			}
		}
	}
	for i, term := range pointers(affinity.PreferredDuringSchedulingIgnoredDuringExecution) {
		at := func() *field.Path {
			return vm.Path("spec", "affinity", "nodeAffinity", preferred).Index(i).Child("preference")
		}
		if !yield(&term.Preference, at) {
			return
		}
	}
}

// labelOperators apply to labels of any object, nodeOperators to labels of nodes.
var (
	labelOperators = valueSet{"In", "NotIn", "Exists", "DoesNotExist"}
	nodeOperators  = append(labelOperators[:4:4], "Gt", "Lt")
)

// checkOperator reports an unknown operator, or a wrong number of values for it.
func checkOperator(r *Report, operator string, values int, at func(string) *field.Path) {
	switch operator {
	case "In", "NotIn":
		if values == 0 {
			r.Add(field.Required(at("values"), "must have a value with operator: "+operator))
		}
	case "Exists", "DoesNotExist":
		if values > 0 {
			r.Add(field.Forbidden(at("values"), "must be left out with operator: "+operator))
		}
	case "Gt", "Lt":
		if values != 1 {
			r.Add(field.Required(at("values"), "must have exactly one value with operator: "+operator))
		}
	default:
		nodeOperators.check(r, operator, func() *field.Path { return at("operator") })
	}
}

// checkLabelKeys reports keys that extend a selector by labels of the pod itself, if no label can
// have them or the selector has them already.
func checkLabelKeys(r *Report, keys []string, selector *metav1.LabelSelector, at func() *field.Path) {
	switch {
	case len(keys) == 0:
		return
	case selector == nil:
		r.Add(field.Forbidden(at(), "needs a labelSelector"))
		return
	}
	expressions := sets.New[string]()
	for i := range selector.MatchExpressions {
		expressions.Insert(selector.MatchExpressions[i].Key)
	}
	for i, key := range keys {
		checkLabelKey(r, key, func() *field.Path { return at().Index(i) })
		if _, selected := selector.MatchLabels[key]; selected || expressions.Has(key) {
			r.Add(field.Invalid(at().Index(i), key, "must not be a key of the labelSelector, too"))
		}
	}
}

// checkLabelSelector reports keys and values that no label can have.
func checkLabelSelector(r *Report, selector *metav1.LabelSelector, at func(string) *field.Path) {
	if selector == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		checkLabelKey(r, key, func() *field.Path { return at("matchLabels") })
		checkLabelValue(r, selector.MatchLabels[key], func() *field.Path { return at("matchLabels").Key(key) })
	}
	for i, expression := range pointers(selector.MatchExpressions) {
		part := func(name string) *field.Path { return at("matchExpressions").Index(i).Child(name) }
		checkLabelKey(r, expression.Key, func() *field.Path { return part("key") })
		operator := string(expression.Operator)
		if operator == "Gt" || operator == "Lt" { // for nodes only
			labelOperators.check(r, operator, func() *field.Path { return part("operator") })
			continue
		}
		checkOperator(r, operator, len(expression.Values), part)
		for j, value := range expression.Values {
			checkLabelValue(r, value, func() *field.Path { return part("values").Index(j) })
		}
	}
}

package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var affinityRules = []Rule{{
	ID:    "affinity-weight",
	Leaf:  true,
	Says:  "The weight of a preferred affinity is 1 to 100.",
	Check: affinityWeight,
}, {
	ID:    "node-affinity-terms",
	Says:  "A required node affinity has a term.",
	Check: nodeAffinityTerms,
}, {
	ID:    "node-affinity-expression",
	Says:  "An expression of a node affinity has the key of a label, an operator and the values that it takes.",
	Check: nodeAffinityExpression,
}, {
	ID:    "node-affinity-field",
	Says:  "A node affinity matches no field but metadata.name, In or NotIn one name.",
	Check: nodeAffinityField,
}, {
	ID:    "pod-affinity-topology-key",
	Says:  "A pod affinity or anti-affinity names a label of nodes.",
	Check: podAffinityTopologyKey,
}, {
	ID:    "pod-affinity-selector",
	Says:  "A pod affinity or anti-affinity selects by labels that pods and namespaces can have.",
	Check: podAffinitySelector,
}, {
	ID:    "pod-affinity-namespace",
	Says:  "The namespaces of a pod affinity or anti-affinity are names of namespaces.",
	Check: podAffinityNamespace,
}}

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// nodeAffinityOf is the node affinity of m, or one that says nothing.
func nodeAffinityOf(m *Machine) *corev1.NodeAffinity {
	if affinity := m.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		return affinity.NodeAffinity
	}
	return &corev1.NodeAffinity{}
}

// A podTerm is a term of a pod affinity or anti-affinity, and where it lies.
type podTerm struct {
	*corev1.PodAffinityTerm
	weight *int32 // nil where the term is required
	kind   string // podAffinity or podAntiAffinity
	i      int
}

// at is the path of something of the term.
func (t *podTerm) at(m *Machine, more ...string) *field.Path {
	path := m.Path("spec", "affinity", t.kind)
	if t.weight == nil {
		return under(path.Child(required).Index(t.i), more)
	}
	return under(path.Child(preferred).Index(t.i).Child("podAffinityTerm"), more)
}

// eachPodTerm yields every term of pod affinities and anti-affinities.
func (m *Machine) eachPodTerm(yield func(podTerm) bool) {
	affinity := m.Spec.Affinity
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

// maxWeight is the greatest weight of a preference.
const maxWeight = 100

func affinityWeight(m *Machine, r *Report) {
	for i, term := range pointers(nodeAffinityOf(m).PreferredDuringSchedulingIgnoredDuringExecution) {
		if term.Weight < 1 || term.Weight > maxWeight {
			r.Add(field.Invalid(m.Path("spec", "affinity", "nodeAffinity", preferred).Index(i).Child("weight"), term.Weight, "must be 1 to 100"))
		}
	}
	for term := range m.eachPodTerm {
		if term.weight != nil && (*term.weight < 1 || *term.weight > maxWeight) {
			r.Add(field.Invalid(m.Path("spec", "affinity", term.kind, preferred).Index(term.i).Child("weight"), *term.weight, "must be 1 to 100"))
		}
	}
}

func nodeAffinityTerms(m *Machine, r *Report) {
	if selector := nodeAffinityOf(m).RequiredDuringSchedulingIgnoredDuringExecution; selector != nil && len(selector.NodeSelectorTerms) == 0 {
		r.Add(field.Required(m.Path("spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"), "must have a term"))
	}
}

// eachNodeTerm yields every term of the node affinity, and where it lies.
func (m *Machine) eachNodeTerm(yield func(*corev1.NodeSelectorTerm, func() *field.Path) bool) {
	affinity := nodeAffinityOf(m)
	if selector := affinity.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		for i, term := range pointers(selector.NodeSelectorTerms) {
			at := func() *field.Path {
				return m.Path("spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms").Index(i)
			}
			if !yield(term, at) {
				return
			}
		}
	}
	for i, term := range pointers(affinity.PreferredDuringSchedulingIgnoredDuringExecution) {
		at := func() *field.Path {
			return m.Path("spec", "affinity", "nodeAffinity", preferred).Index(i).Child("preference")
		}
		if !yield(&term.Preference, at) {
			return
		}
	}
}

func nodeAffinityExpression(m *Machine, r *Report) {
	for term, at := range m.eachNodeTerm {
		for i, expression := range pointers(term.MatchExpressions) {
			part := func(name string) *field.Path { return at().Child("matchExpressions").Index(i).Child(name) }
			labelKey(r, expression.Key, func() *field.Path { return part("key") })
			takesValues(r, string(expression.Operator), len(expression.Values), part)
		}
	}
}

// takesValues reports an operator of an expression that there is not, or that
// takes other values than it is given.
func takesValues(r *Report, operator string, values int, at func(string) *field.Path) {
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
		r.Add(r.unsupported(at("operator"), operator, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
	}
}

func nodeAffinityField(m *Machine, r *Report) {
	for term, at := range m.eachNodeTerm {
		for i, match := range pointers(term.MatchFields) {
			part := func(name string) *field.Path { return at().Child("matchFields").Index(i).Child(name) }
			if match.Key != metav1.ObjectNameField {
				r.Add(r.unsupported(part("key"), match.Key, metav1.ObjectNameField))
			}
			if match.Operator != corev1.NodeSelectorOpIn && match.Operator != corev1.NodeSelectorOpNotIn {
				r.Add(r.unsupported(part("operator"), string(match.Operator), "In", "NotIn"))
			}
			if len(match.Values) != 1 {
				r.Add(field.Required(part("values"), "must be the name of exactly one node"))
			} else if !isDNSSubdomain(match.Values[0]) {
				r.Add(field.Invalid(part("values").Index(0), match.Values[0], dnsSubdomainDetail))
			}
		}
	}
}

func podAffinityTopologyKey(m *Machine, r *Report) {
	for term := range m.eachPodTerm {
		if term.TopologyKey == "" {
			r.Add(field.Required(term.at(m, "topologyKey"), "must be the key of a label of nodes, such as topology.kubernetes.io/zone"))
			continue
		}
		labelKey(r, term.TopologyKey, func() *field.Path { return term.at(m, "topologyKey") })
	}
}

func podAffinitySelector(m *Machine, r *Report) {
	for term := range m.eachPodTerm {
		labelSelector(r, term.LabelSelector, func(more ...string) *field.Path { return under(term.at(m, "labelSelector"), more) })
		labelSelector(r, term.NamespaceSelector, func(more ...string) *field.Path { return under(term.at(m, "namespaceSelector"), more) })
	}
}

// labelSelector reports what no label can match.
func labelSelector(r *Report, selector *metav1.LabelSelector, at func(more ...string) *field.Path) {
	if selector == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		labelKey(r, key, func() *field.Path { return at("matchLabels") })
		labelValue(r, selector.MatchLabels[key], func() *field.Path { return at("matchLabels").Key(key) })
	}
	for i, expression := range pointers(selector.MatchExpressions) {
		part := func(name string) *field.Path { return at("matchExpressions").Index(i).Child(name) }
		labelKey(r, expression.Key, func() *field.Path { return part("key") })
		operator := string(expression.Operator)
		if operator == "Gt" || operator == "Lt" { // for nodes only
			r.Add(r.unsupported(part("operator"), operator, "In", "NotIn", "Exists", "DoesNotExist"))
			continue
		}
		takesValues(r, operator, len(expression.Values), part)
		for j, value := range expression.Values {
			labelValue(r, value, func() *field.Path { return part("values").Index(j) })
		}
	}
}

func podAffinityNamespace(m *Machine, r *Report) {
	for term := range m.eachPodTerm {
		for i, namespace := range term.Namespaces {
			if !isDNSLabel(namespace) {
				r.Add(field.Invalid(term.at(m, "namespaces").Index(i), namespace, dnsLabelDetail))
			}
		}
	}
}

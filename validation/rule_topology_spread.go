package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var topologySpreadRules = []Rule{{
	ID:    "topology-spread-skew",
	Says:  "A topology spread constraint allows a skew of at least 1.",
	Check: topologySpreadSkew,
}, {
	ID:    "topology-spread-key",
	Says:  "A topology spread constraint names a label of nodes.",
	Check: topologySpreadKey,
}, {
	ID:    "topology-spread-action",
	Leaf:  true,
	Says:  "A topology spread constraint that cannot be met means DoNotSchedule or ScheduleAnyway.",
	Check: topologySpreadAction,
}, {
	ID:    "topology-spread-unique",
	Says:  "No two topology spread constraints have the same key and action.",
	Check: topologySpreadUnique,
}, {
	ID:    "topology-spread-domains",
	Says:  "A topology spread constraint with minDomains wants at least 1, and means DoNotSchedule.",
	Reach: BeyondKubeVirt,
	Check: topologySpreadDomains,
}}

// spread is the path of a part of a topology spread constraint.
func (m *Machine) spread(i int, name string) *field.Path {
	return m.Path("spec", "topologySpreadConstraints").Index(i).Child(name)
}

func topologySpreadSkew(m *Machine, r *Report) {
	for i, constraint := range pointers(m.Spec.TopologySpreadConstraints) {
		if constraint.MaxSkew < 1 {
			r.Add(field.Invalid(m.spread(i, "maxSkew"), constraint.MaxSkew, "must be at least 1"))
		}
	}
}

func topologySpreadKey(m *Machine, r *Report) {
	for i, constraint := range pointers(m.Spec.TopologySpreadConstraints) {
		if constraint.TopologyKey == "" {
			r.Add(field.Required(m.spread(i, "topologyKey"), "must be the key of a label of nodes, such as topology.kubernetes.io/zone"))
		}
	}
}

func topologySpreadAction(m *Machine, r *Report) {
	for i, constraint := range pointers(m.Spec.TopologySpreadConstraints) {
		if action := constraint.WhenUnsatisfiable; action != corev1.DoNotSchedule && action != corev1.ScheduleAnyway {
			r.Add(r.unsupported(m.spread(i, "whenUnsatisfiable"), string(action), "DoNotSchedule", "ScheduleAnyway"))
		}
	}
}

func topologySpreadUnique(m *Machine, r *Report) {
	constraints := m.Spec.TopologySpreadConstraints
	both := func(i int) string { return constraints[i].TopologyKey + " " + string(constraints[i].WhenUnsatisfiable) }
	for i, first := range repeated(len(constraints), both) {
		err := field.Duplicate(m.spread(i, "topologyKey"), constraints[i].TopologyKey)
		err.Detail = fmt.Sprintf("topologySpreadConstraints[%d] has this key and the same whenUnsatisfiable already", first)
		r.Add(err)
	}
}

func topologySpreadDomains(m *Machine, r *Report) {
	for i, constraint := range pointers(m.Spec.TopologySpreadConstraints) {
		switch {
		case constraint.MinDomains == nil:
		case *constraint.MinDomains < 1:
			r.Add(field.Invalid(m.spread(i, "minDomains"), *constraint.MinDomains, "must be at least 1"))
		case constraint.WhenUnsatisfiable == corev1.ScheduleAnyway:
			r.Add(field.Forbidden(m.spread(i, "minDomains"), "needs whenUnsatisfiable: DoNotSchedule"))
		}
	}
}

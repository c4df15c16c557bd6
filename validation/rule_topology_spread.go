package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var topologySpreadRules = []Rule{{
	ID:          "topology-spread-skew",
	Requirement: "A topology spread constraint allows a skew of at least 1.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, constraint := range pointers(vm.Spec.TopologySpreadConstraints) {
			if constraint.MaxSkew < 1 {
				r.Add(field.Invalid(vm.spreadPath(i, "maxSkew"), constraint.MaxSkew, "must be at least 1"))
			}
		}
	},
}, {
	ID:          "topology-spread-key",
	Requirement: "A topology spread constraint names a label of nodes.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, constraint := range pointers(vm.Spec.TopologySpreadConstraints) {
			if constraint.TopologyKey == "" {
				r.Add(field.Required(vm.spreadPath(i, "topologyKey"), "must be the key of a label of nodes, such as topology.kubernetes.io/zone"))
			}
		}
	},
}, {
	ID:          "topology-spread-action",
	Leaf:        true,
	Requirement: "whenUnsatisfiable of a topology spread constraint is " + topologySpreadActions.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, constraint := range pointers(vm.Spec.TopologySpreadConstraints) {
			topologySpreadActions.check(r, string(constraint.WhenUnsatisfiable), func() *field.Path { return vm.spreadPath(i, "whenUnsatisfiable") })
		}
	},
}, {
	ID:          "topology-spread-unique",
	Requirement: "No two topology spread constraints have the same topologyKey and whenUnsatisfiable.",
	Check: func(vm *ExpandedVM, r *Report) {
		constraints := vm.Spec.TopologySpreadConstraints
		both := func(i int) string { return constraints[i].TopologyKey + " " + string(constraints[i].WhenUnsatisfiable) }
		for i, first := range repeated(len(constraints), both) {
			r.Add(duplicate(vm.spreadPath(i, "topologyKey"), constraints[i].TopologyKey,
				fmt.Sprintf("topologySpreadConstraints[%d] has this key and the same whenUnsatisfiable already", first)))
		}
	},
}, {
	ID:          "topology-spread-domains",
	Requirement: "minDomains of a topology spread constraint is at least 1, and requires whenUnsatisfiable: DoNotSchedule.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, constraint := range pointers(vm.Spec.TopologySpreadConstraints) {
			switch {
			case constraint.MinDomains == nil:
			case *constraint.MinDomains < 1:
				r.Add(field.Invalid(vm.spreadPath(i, "minDomains"), *constraint.MinDomains, "must be at least 1"))
			case constraint.WhenUnsatisfiable == corev1.ScheduleAnyway:
				r.Add(field.Forbidden(vm.spreadPath(i, "minDomains"), "needs whenUnsatisfiable: DoNotSchedule"))
			}
		}
	},
}, {
	ID:          "topology-spread-selector",
	Requirement: "A topology spread constraint selects by labels that pods can have.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, constraint := range pointers(vm.Spec.TopologySpreadConstraints) {
			selector := func(name string) *field.Path { return vm.spreadPath(i, "labelSelector").Child(name) }
			checkLabelSelector(r, constraint.LabelSelector, selector)
			checkLabelKeys(r, constraint.MatchLabelKeys, constraint.LabelSelector, func() *field.Path { return vm.spreadPath(i, "matchLabelKeys") })
		}
	},
}}

var topologySpreadActions = valueSet{"DoNotSchedule", "ScheduleAnyway"}

func (vm *ExpandedVM) spreadPath(i int, name string) *field.Path {
	return vm.Path("spec", "topologySpreadConstraints").Index(i).Child(name)
}

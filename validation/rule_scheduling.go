package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var schedulingRules = []Rule{{
	ID:          "eviction-strategy",
	Leaf:        true,
	Requirement: "The eviction strategy is " + evictionStrategies.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		if strategy := vm.Spec.EvictionStrategy; strategy != nil {
			evictionStrategies.check(r, string(*strategy), func() *field.Path { return vm.Path("spec", "evictionStrategy") })
		}
	},
}, {
	ID:          "eviction-strategy-without-migration",
	Requirement: "The eviction strategy is not LiveMigrate in mode standalone, where a drain waits until the VM is stopped (a warning).",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if strategy := vm.Spec.EvictionStrategy; !vm.Config.Addon && strategy != nil && *strategy == kubevirtv1.EvictionStrategyLiveMigrate {
			r.Warn("%s: %s: live migration is not supported: draining its node waits until the VM is stopped; "+
				"with None it is stopped, and started elsewhere if its run strategy says so",
				vm.Path("spec", "evictionStrategy"), *strategy)
		}
	},
}, {
	ID:          "start-strategy",
	Leaf:        true,
	Requirement: "The start strategy is Paused.",
	Check: func(vm *ExpandedVM, r *Report) {
		if strategy := vm.Spec.StartStrategy; strategy != nil {
			valueSet{"Paused"}.check(r, string(*strategy), func() *field.Path { return vm.Path("spec", "startStrategy") })
		}
	},
}, {
	ID:          "paused-start-without-liveness",
	Requirement: "A VMI that starts paused has no liveness probe.",
	Check: func(vm *ExpandedVM, r *Report) {
		if strategy := vm.Spec.StartStrategy; strategy != nil && *strategy == kubevirtv1.StartStrategyPaused && vm.Spec.LivenessProbe != nil {
			r.Add(field.Forbidden(vm.Path("spec", "livenessProbe"),
				"must be left out with startStrategy: Paused, because a paused guest does not answer"))
		}
	},
}, {
	ID:          "termination-grace-period",
	Leaf:        true,
	Requirement: "The termination grace period is not negative.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if seconds := vm.Spec.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
			r.Add(field.Invalid(vm.Path("spec", "terminationGracePeriodSeconds"), *seconds,
				"must not be negative; 0 powers the guest off immediately"))
		}
	},
}, {
	ID:          "priority-class-format",
	Leaf:        true,
	Requirement: "The name of the priority class is a DNS subdomain.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if name := vm.Spec.PriorityClassName; name != "" && !isDNSSubdomain(name) {
			r.Add(field.Invalid(vm.Path("spec", "priorityClassName"), name, dnsSubdomainDetail))
		}
	},
}, {
	ID:          "node-selector-label",
	Leaf:        true,
	Requirement: "The node selector consists of valid labels.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for _, key := range slices.Sorted(maps.Keys(vm.Spec.NodeSelector)) {
			checkLabelKey(r, key, func() *field.Path { return vm.Path("spec", "nodeSelector") })
			checkLabelValue(r, vm.Spec.NodeSelector[key], func() *field.Path { return vm.Path("spec", "nodeSelector").Key(key) })
		}
	},
}, {
	ID:          "toleration-valid",
	Requirement: "A toleration is valid for pods.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, toleration := range pointers(vm.Spec.Tolerations) {
			at := func(name string) *field.Path { return vm.Path("spec", "tolerations").Index(i).Child(name) }
			tolerationTaint(r, toleration, at)
			tolerationEffect(r, toleration, at)
		}
	},
}}

var evictionStrategies = valueSet{"None", "LiveMigrate", "LiveMigrateIfPossible", "External"}

func checkLabelKey(r *Report, key string, at func() *field.Path) {
	if len(validation.IsQualifiedName(key)) > 0 {
		r.Add(field.Invalid(at(), key, "must be the key of a label, such as zone or example.com/zone"))
	}
}

func checkLabelValue(r *Report, value string, at func() *field.Path) {
	if len(validation.IsValidLabelValue(value)) > 0 {
		r.Add(field.Invalid(at(), value,
			"must be the value of a label: at most 63 of A-Z, a-z, 0-9, -, _ and ., beginning and ending with a letter or digit"))
	}
}

// tolerationTaint checks operator, key and value of a toleration.
func tolerationTaint(r *Report, toleration *corev1.Toleration, at func(string) *field.Path) {
	switch operator := toleration.Operator; operator {
	case "", corev1.TolerationOpEqual:
		if toleration.Key == "" {
			r.Add(field.Invalid(at("operator"), string(operator), "must be Exists if key is empty, to tolerate all taints"))
			return
		}
		checkLabelValue(r, toleration.Value, func() *field.Path { return at("value") })
	case corev1.TolerationOpExists:
		if toleration.Value != "" {
			r.Add(field.Forbidden(at("value"), "must be left out with operator: Exists"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // newer clusters compare numbers
	default:
		valueSet{"Equal", "Exists"}.check(r, string(operator), func() *field.Path { return at("operator") })
	}
	if toleration.Key != "" {
		checkLabelKey(r, toleration.Key, func() *field.Path { return at("key") })
	}
}

// tolerationEffect checks effect and tolerationSeconds of a toleration.
func tolerationEffect(r *Report, toleration *corev1.Toleration, at func(string) *field.Path) {
	switch toleration.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule:
		if toleration.TolerationSeconds != nil {
			r.Add(field.Forbidden(at("tolerationSeconds"), "must be left out, except with effect: NoExecute"))
		}
	case corev1.TaintEffectNoExecute:
	default:
		valueSet{"NoSchedule", "PreferNoSchedule", "NoExecute"}.check(r, string(toleration.Effect), func() *field.Path { return at("effect") })
	}
}

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
	ID:    "eviction-strategy",
	Leaf:  true,
	Says:  "The eviction strategy is None, LiveMigrate, LiveMigrateIfPossible or External.",
	Check: evictionStrategy,
}, {
	ID:    "start-strategy",
	Leaf:  true,
	Says:  "The start strategy is Paused.",
	Check: startStrategy,
}, {
	ID:    "paused-start-without-liveness",
	Says:  "A machine that starts paused has no liveness probe.",
	Check: pausedStartWithoutLiveness,
}, {
	ID:    "termination-grace-period",
	Leaf:  true,
	Says:  "The time to shut down is not negative.",
	Reach: BeyondKubeVirt,
	Check: terminationGracePeriod,
}, {
	ID:    "priority-class-format",
	Leaf:  true,
	Says:  "The name of the priority class is a DNS subdomain.",
	Reach: BeyondKubeVirt,
	Check: priorityClassFormat,
}, {
	ID:    "node-selector-label",
	Leaf:  true,
	Says:  "The node selector consists of labels that nodes can have.",
	Reach: BeyondKubeVirt,
	Check: nodeSelectorLabel,
}, {
	ID:    "toleration-valid",
	Says:  "A toleration is one that pods can have.",
	Reach: BeyondKubeVirt,
	Check: tolerationValid,
}}

var evictionStrategies = []string{"None", "LiveMigrate", "LiveMigrateIfPossible", "External"}

func evictionStrategy(m *Machine, r *Report) {
	if strategy := m.Spec.EvictionStrategy; strategy != nil && !slices.Contains(evictionStrategies, string(*strategy)) {
		r.Add(r.unsupported(m.Path("spec", "evictionStrategy"), string(*strategy), evictionStrategies...))
	}
}

func startStrategy(m *Machine, r *Report) {
	if strategy := m.Spec.StartStrategy; strategy != nil && *strategy != kubevirtv1.StartStrategyPaused {
		r.Add(r.unsupported(m.Path("spec", "startStrategy"), string(*strategy), string(kubevirtv1.StartStrategyPaused)))
	}
}

func pausedStartWithoutLiveness(m *Machine, r *Report) {
	if strategy := m.Spec.StartStrategy; strategy != nil && *strategy == kubevirtv1.StartStrategyPaused && m.Spec.LivenessProbe != nil {
		r.Add(field.Forbidden(m.Path("spec", "livenessProbe"), "must be left out with startStrategy: Paused, because what is paused does not answer"))
	}
}

func terminationGracePeriod(m *Machine, r *Report) {
	if seconds := m.Spec.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
		r.Add(field.Invalid(m.Path("spec", "terminationGracePeriodSeconds"), *seconds, "must not be negative; 0 turns the machine off at once"))
	}
}

func priorityClassFormat(m *Machine, r *Report) {
	if name := m.Spec.PriorityClassName; name != "" && !isDNSSubdomain(name) {
		r.Add(field.Invalid(m.Path("spec", "priorityClassName"), name, dnsSubdomainDetail))
	}
}

func nodeSelectorLabel(m *Machine, r *Report) {
	for _, key := range slices.Sorted(maps.Keys(m.Spec.NodeSelector)) {
		labelKey(r, key, func() *field.Path { return m.Path("spec", "nodeSelector") })
		labelValue(r, m.Spec.NodeSelector[key], func() *field.Path { return m.Path("spec", "nodeSelector").Key(key) })
	}
}

// labelKey reports a key that no label can have.
func labelKey(r *Report, key string, at func() *field.Path) {
	if len(validation.IsQualifiedName(key)) > 0 {
		r.Add(field.Invalid(at(), key, "must be the key of a label, such as zone or example.com/zone"))
	}
}

// labelValue reports a value that no label can have.
func labelValue(r *Report, value string, at func() *field.Path) {
	if len(validation.IsValidLabelValue(value)) > 0 {
		r.Add(field.Invalid(at(), value, "must be the value of a label: at most 63 of A-Z, a-z, 0-9, -, _ and ., beginning and ending with a letter or digit"))
	}
}

func tolerationValid(m *Machine, r *Report) {
	for i := range m.Spec.Tolerations {
		toleration := &m.Spec.Tolerations[i]
		at := func(name string) *field.Path { return m.Path("spec", "tolerations").Index(i).Child(name) }
		tolerationTaint(r, toleration, at)
		tolerationEffect(r, toleration, at)
	}
}

// tolerationTaint checks which taints a toleration is for.
func tolerationTaint(r *Report, toleration *corev1.Toleration, at func(string) *field.Path) {
	switch operator := toleration.Operator; operator {
	case "", corev1.TolerationOpEqual:
		if toleration.Key == "" {
			r.Add(field.Invalid(at("operator"), string(operator), "must be Exists where there is no key, for all taints"))
			return
		}
		labelValue(r, toleration.Value, func() *field.Path { return at("value") })
	case corev1.TolerationOpExists:
		if toleration.Value != "" {
			r.Add(field.Forbidden(at("value"), "must be left out with operator: Exists"))
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // newer clusters compare numbers
	default:
		r.Add(r.unsupported(at("operator"), string(operator), "Equal", "Exists"))
	}
	if toleration.Key != "" {
		labelKey(r, toleration.Key, func() *field.Path { return at("key") })
	}
}

// tolerationEffect checks which effects a toleration is for.
func tolerationEffect(r *Report, toleration *corev1.Toleration, at func(string) *field.Path) {
	switch toleration.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule:
		if toleration.TolerationSeconds != nil {
			r.Add(field.Forbidden(at("tolerationSeconds"), "must be left out, except with effect: NoExecute"))
		}
	case corev1.TaintEffectNoExecute:
	default:
		r.Add(r.unsupported(at("effect"), string(toleration.Effect), "NoSchedule", "PreferNoSchedule", "NoExecute"))
	}
}

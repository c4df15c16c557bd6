package validation

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var cpuRules = []Rule{{
	ID:    "cpu-not-negative",
	Leaf:  true,
	Says:  "CPU requests and limits are not negative.",
	Check: cpuNotNegative,
}, {
	ID:    "cpu-request-within-limit",
	Says:  "The CPU request is at most the CPU limit.",
	Check: cpuRequestWithinLimit,
}, {
	ID:    "cpu-feature-policy",
	Leaf:  true,
	Says:  "The policy of a CPU feature is force, require, optional, disable or forbid.",
	Check: cpuFeaturePolicy,
}, {
	ID:    "cpu-feature-name",
	Leaf:  true,
	Says:  "The name of a CPU feature is letters, digits, '-', '_' and '.'.",
	Reach: BeyondKubeVirt,
	Check: cpuFeatureName,
}, {
	ID:    "cpu-model-architecture",
	Says:  "On arm64 the CPU model is host-passthrough.",
	Reach: EarlierThanKubeVirt,
	Check: cpuModelArchitecture,
}}

// cpuOf is the CPU of m, or one that says nothing.
func cpuOf(m *Machine) *kubevirtv1.CPU {
	if cpu := m.Spec.Domain.CPU; cpu != nil {
		return cpu
	}
	return &kubevirtv1.CPU{}
}

func cpuNotNegative(m *Machine, r *Report) { notNegative(m, r, corev1.ResourceCPU) }

func cpuRequestWithinLimit(m *Machine, r *Report) { requestWithinLimit(m, r, corev1.ResourceCPU) }

// notNegative refuses a request or limit of a resource that is negative.
func notNegative(m *Machine, r *Report, of corev1.ResourceName) {
	resources := &m.Spec.Domain.Resources
	if request := resources.Requests[of]; request.Sign() < 0 {
		r.Add(field.Invalid(m.Domain("resources", "requests", string(of)), request.String(), "must not be negative"))
	}
	if limit := resources.Limits[of]; limit.Sign() < 0 {
		r.Add(field.Invalid(m.Domain("resources", "limits", string(of)), limit.String(), "must not be negative"))
	}
}

// requestWithinLimit refuses a request of a resource beyond its limit.
func requestWithinLimit(m *Machine, r *Report, of corev1.ResourceName) {
	request, limit := m.Spec.Domain.Resources.Requests[of], m.Spec.Domain.Resources.Limits[of]
	if limit.Sign() > 0 && request.Cmp(limit) > 0 {
		r.Add(field.Invalid(m.Domain("resources", "requests", string(of)), request.String(),
			fmt.Sprintf("must be at most the limit, which is %s", limit.String())))
	}
}

var cpuFeaturePolicies = []string{"force", "require", "optional", "disable", "forbid"}

func cpuFeaturePolicy(m *Machine, r *Report) {
	for i, feature := range cpuOf(m).Features {
		if feature.Policy != "" && !slices.Contains(cpuFeaturePolicies, feature.Policy) {
			r.Add(r.unsupported(m.Domain("cpu", "features").Index(i).Child("policy"), feature.Policy, cpuFeaturePolicies...))
		}
	}
}

// cpuFeatureNameForm is that of featureName in libvirt's schema cputypes.rng.
var cpuFeatureNameForm = regexp.MustCompile(`^[a-zA-Z0-9\-_.]+$`)

func cpuFeatureName(m *Machine, r *Report) {
	for i, feature := range cpuOf(m).Features {
		if !cpuFeatureNameForm.MatchString(feature.Name) {
			r.Add(field.Invalid(m.Domain("cpu", "features").Index(i).Child("name"), feature.Name, "must be letters, digits, '-', '_' and '.', such as sse4.1"))
		}
	}
}

func cpuModelArchitecture(m *Machine, r *Report) {
	model := cpuOf(m).Model
	if m.Architecture() == "arm64" && model != "" && model != kubevirtv1.CPUModeHostPassthrough {
		r.Add(r.unsupported(m.Domain("cpu", "model"), model, kubevirtv1.CPUModeHostPassthrough))
	}
}

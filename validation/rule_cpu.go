package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var cpuRules = []Rule{{
	ID:    "cpu-not-negative",
	Says:  "CPU requests and limits are not negative.",
	Check: cpuNotNegative,
}, {
	ID:    "cpu-request-within-limit",
	Says:  "The CPU request is at most the CPU limit.",
	Check: cpuRequestWithinLimit,
}}

func cpuNotNegative(m *Machine, r *Report) {
	resources := &m.Spec.Domain.Resources
	if request := resources.Requests[corev1.ResourceCPU]; request.Sign() < 0 {
		r.Add(field.Invalid(m.Domain("resources", "requests", "cpu"), request.String(), "must not be negative"))
	}
	if limit := resources.Limits[corev1.ResourceCPU]; limit.Sign() < 0 {
		r.Add(field.Invalid(m.Domain("resources", "limits", "cpu"), limit.String(), "must not be negative"))
	}
}

func cpuRequestWithinLimit(m *Machine, r *Report) {
	request, limit := m.Spec.Domain.Resources.Requests[corev1.ResourceCPU], m.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
	if limit.Sign() > 0 && request.Cmp(limit) > 0 {
		r.Add(field.Invalid(m.Domain("resources", "requests", "cpu"), request.String(),
			fmt.Sprintf("must be at most the limit, which is %s", limit.String())))
	}
}

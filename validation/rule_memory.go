package validation

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var memoryRules = []Rule{{
	ID:    "memory-given",
	Says:  "A machine says how much memory it has.",
	Reach: EarlierThanKubeVirt,
	Check: memoryGiven,
}, {
	ID:    "memory-not-negative",
	Leaf:  true,
	Says:  "Memory requests and limits are not negative.",
	Check: memoryNotNegative,
}, {
	ID:    "memory-request-minimum",
	Leaf:  true,
	Says:  "A memory request is at least 1M.",
	Check: memoryRequestMinimum,
}, {
	ID:    "memory-request-within-limit",
	Says:  "The memory request is at most the memory limit.",
	Check: memoryRequestWithinLimit,
}, {
	ID:    "guest-memory-minimum",
	Leaf:  true,
	Says:  "The guest has at least 1Mi of memory.",
	Reach: BeyondKubeVirt,
	Check: guestMemoryMinimum,
}, {
	ID:      "guest-memory-within-limit",
	Says:    "Without live updates, the guest's memory is at most the memory limit.",
	Cluster: true,
	Check:   guestMemoryWithinLimit,
}, {
	ID:      "reserved-overhead-enabled",
	Says:    "Reserving memory for overhead needs feature gate ReservedOverheadMemlock.",
	Cluster: true,
	Check:   reservedOverheadEnabled,
}}

// memoryOf is the memory of m, or one that says nothing.
func memoryOf(m *Machine) *kubevirtv1.Memory {
	if memory := m.Spec.Domain.Memory; memory != nil {
		return memory
	}
	return &kubevirtv1.Memory{}
}

// asksForMemory reports whether m says in one way or another how much memory it
// wants. A limit alone is no wish.
func asksForMemory(m *Machine) bool {
	request, memory := m.Spec.Domain.Resources.Requests[corev1.ResourceMemory], memoryOf(m)
	return !request.IsZero() || memory.Guest != nil || memory.Hugepages != nil
}

// memoryGiven leaves machines with dedicated CPUs to dedicatedCPUsNeedMemory.
func memoryGiven(m *Machine, r *Report) {
	limit := m.Spec.Domain.Resources.Limits[corev1.ResourceMemory] // the guest's memory follows it
	if limit.IsZero() && !asksForMemory(m) && !m.SizedElsewhere() && !dedicated(m) {
		r.Add(field.Required(m.Domain("memory", "guest"), "must say how much memory the guest has, such as 1Gi"))
	}
}

func memoryNotNegative(m *Machine, r *Report) { notNegative(m, r, corev1.ResourceMemory) }

// leastMemory is the least that may be requested.
var leastMemory = resource.MustParse("1M")

func memoryRequestMinimum(m *Machine, r *Report) {
	request := m.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
	if request.Sign() > 0 && request.Cmp(leastMemory) < 0 {
		r.Add(field.Invalid(m.Domain("resources", "requests", "memory"), request.String(), "must be at least 1M; 1Gi is a gibibyte"))
	}
}

func memoryRequestWithinLimit(m *Machine, r *Report) { requestWithinLimit(m, r, corev1.ResourceMemory) }

// leastGuestMemory is the least memory that a guest may have.
var leastGuestMemory = resource.MustParse("1Mi")

// guestMemoryMinimum leaves requests to memoryNotNegative and
// memoryRequestMinimum, and pages of no size to hugepagesPageSize.
func guestMemoryMinimum(m *Machine, r *Report) {
	guest := memoryOf(m).Guest
	if guest == nil || guest.Cmp(leastGuestMemory) >= 0 || m.SizedElsewhere() {
		return
	}
	at := originOfGuest(m, guest)
	reported := at[0] == "resources" && (guest.Sign() < 0 || at[1] == "requests" && guest.Sign() > 0 && guest.Cmp(leastMemory) < 0)
	if !reported && at[1] != "hugepages" {
		r.Add(field.Invalid(m.Domain(at...), guest.String(), "must be at least 1Mi"+intendedSize(guest)))
	}
}

// sizeWithoutUnit is a size that is too small for a guest, because its unit is
// missing or wrong: 2048, 512m or 512k.
var sizeWithoutUnit = regexp.MustCompile(`^([0-9]{1,6})(m|k|Ki)?$`)

// intendedSize suggests a unit for a size that is too small. Quantities print
// 2000 as 2k, so that a low number is one of gibibytes.
func intendedSize(q *resource.Quantity) string {
	parts := sizeWithoutUnit.FindStringSubmatch(q.String())
	switch {
	case parts == nil || q.IsZero():
		return ", such as 1Gi"
	case len(parts[1]) == 1:
		return fmt.Sprintf("; did you mean %sGi?", parts[1])
	}
	return fmt.Sprintf("; did you mean %sMi?", parts[1])
}

// originOfGuest is where the user wrote the guest's memory: by default it
// follows the request, the limit or the huge page.
func originOfGuest(m *Machine, guest *resource.Quantity) []string {
	for _, of := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", m.Spec.Domain.Resources.Requests}, {"limits", m.Spec.Domain.Resources.Limits}} {
		if given, ok := of.list[corev1.ResourceMemory]; ok && given.Cmp(*guest) == 0 {
			return []string{"resources", of.name, "memory"}
		}
	}
	if page, err := pageSize(m); err == nil && page.Cmp(*guest) == 0 {
		return []string{"memory", "hugepages"}
	}
	return []string{"memory", "guest"}
}

// guestMemoryWithinLimit leaves requests that are too large to memoryRequestWithinLimit.
func guestMemoryWithinLimit(m *Machine, r *Report) {
	guest, limit := memoryOf(m).Guest, m.Spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if !m.Config.NoLiveUpdate || guest == nil || limit.Sign() <= 0 || guest.Cmp(limit) <= 0 || m.SizedElsewhere() {
		return
	}
	if request := m.Spec.Domain.Resources.Requests[corev1.ResourceMemory]; request.Cmp(*guest) != 0 {
		r.Add(field.Invalid(m.Domain("memory", "guest"), guest.String(),
			fmt.Sprintf("must be at most the limit, which is %s", limit.String())))
	}
}

func reservedOverheadEnabled(m *Machine, r *Report) {
	if memoryOf(m).ReservedOverhead != nil && !m.Config.Enabled(GateReservedOverhead) {
		r.Add(disabled(m.Domain("memory", "reservedOverhead"), GateReservedOverhead))
	}
}

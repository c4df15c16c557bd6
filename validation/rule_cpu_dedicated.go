package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var dedicatedCPURules = []Rule{{
	ID:    "dedicated-cpus-whole",
	Says:  "With dedicated CPUs, CPU requests and limits are whole numbers.",
	Check: dedicatedCPUsWhole,
}, {
	ID:    "dedicated-cpus-request-equals-limit",
	Says:  "With dedicated CPUs, the CPU request equals the CPU limit.",
	Check: dedicatedCPUsRequestEqualsLimit,
}, {
	ID:    "dedicated-cpus-match-topology",
	Says:  "With dedicated CPUs, the CPU request or limit is sockets × cores × threads.",
	Check: dedicatedCPUsMatchTopology,
}, {
	ID:    "dedicated-cpus-threads",
	Says:  "With dedicated CPUs, a core has at most two threads, and one on arm64.",
	Check: dedicatedCPUsThreads,
}, {
	ID:    "dedicated-cpus-need-memory",
	Says:  "With dedicated CPUs, a machine says how much memory it has.",
	Check: dedicatedCPUsNeedMemory,
}, {
	ID:    "dedicated-cpus-memory-equals-limit",
	Says:  "With dedicated CPUs, the memory request equals the memory limit.",
	Check: dedicatedCPUsMemoryEqualsLimit,
}}

// dedicated reports whether m has CPUs of its own, and says how many.
func dedicated(m *Machine) bool { return cpuOf(m).DedicatedCPUPlacement && !m.SizedElsewhere() }

func dedicatedCPUsWhole(m *Machine, r *Report) {
	if !dedicated(m) {
		return
	}
	request, limit := m.Spec.Domain.Resources.Requests[corev1.ResourceCPU], m.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
	fraction := false
	if limit.Sign() > 0 && fractional(&limit) {
		fraction = true
		r.Add(field.Invalid(m.Domain("resources", "limits", "cpu"), limit.String(), "must be a whole number with dedicatedCpuPlacement"))
	}
	// A request that nobody made follows the limit.
	if request.Sign() > 0 && fractional(&request) && !(fraction && request.Cmp(limit) == 0) {
		r.Add(field.Invalid(m.Domain("resources", "requests", "cpu"), request.String(), "must be a whole number with dedicatedCpuPlacement"))
	}
}

// fractional reports a fraction of at least a thousandth, as KubeVirt does.
func fractional(q *resource.Quantity) bool { return q.Value()*1000 != q.MilliValue() }

// dedicatedCPUsRequestEqualsLimit leaves larger requests to cpuRequestWithinLimit.
func dedicatedCPUsRequestEqualsLimit(m *Machine, r *Report) {
	request, limit := m.Spec.Domain.Resources.Requests[corev1.ResourceCPU], m.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
	if dedicated(m) && request.Sign() > 0 && request.Value() < limit.Value() {
		r.Add(field.Invalid(m.Domain("resources", "requests", "cpu"), request.String(),
			fmt.Sprintf("must equal the limit, which is %s, with dedicatedCpuPlacement", limit.String())))
	}
}

func dedicatedCPUsMatchTopology(m *Machine, r *Report) {
	cpu := cpuOf(m)
	if !dedicated(m) || cpu.Sockets == 0 && cpu.Cores == 0 && cpu.Threads == 0 {
		return // the topology follows the resources
	}
	request, limit := m.Spec.Domain.Resources.Requests[corev1.ResourceCPU], m.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
	name, given := "limits", limit
	if limit.Sign() <= 0 {
		name, given = "requests", request
	}
	if count := vCPUs(cpu); given.Sign() > 0 && request.Value() != count && limit.Value() != count {
		r.Add(field.Invalid(m.Domain("resources", name, "cpu"), given.String(),
			fmt.Sprintf("must be %d, which is sockets × cores × threads, with dedicatedCpuPlacement", count)))
	}
}

func dedicatedCPUsThreads(m *Machine, r *Report) {
	most := uint32(2)
	if m.Architecture() == "arm64" {
		most = 1
	}
	if threads := cpuOf(m).Threads; dedicated(m) && threads > most {
		r.Add(field.Invalid(m.Domain("cpu", "threads"), threads,
			fmt.Sprintf("must be at most %d on %s with dedicatedCpuPlacement", most, m.Architecture())))
	}
}

func dedicatedCPUsNeedMemory(m *Machine, r *Report) {
	limit := m.Spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if dedicated(m) && limit.IsZero() && !asksForMemory(m) {
		r.Add(field.Required(m.Domain("memory", "guest"), "must say how much memory the guest has, such as 1Gi"))
	}
}

// dedicatedCPUsMemoryEqualsLimit leaves larger requests to memoryRequestWithinLimit.
func dedicatedCPUsMemoryEqualsLimit(m *Machine, r *Report) {
	request, limit := m.Spec.Domain.Resources.Requests[corev1.ResourceMemory], m.Spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if dedicated(m) && request.Sign() > 0 && request.Cmp(limit) < 0 {
		r.Add(field.Invalid(m.Domain("resources", "requests", "memory"), request.String(),
			fmt.Sprintf("must equal the limit, which is %s, with dedicatedCpuPlacement", limit.String())))
	}
}

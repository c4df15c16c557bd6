package validation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var dedicatedCPURules = []Rule{{
	ID:          "dedicated-cpus-whole",
	Requirement: "With dedicated CPUs, CPU requests and limits are whole numbers.",
	Check: func(vm *ExpandedVM, r *Report) {
		if !dedicated(vm) {
			return
		}
		request, limit := vm.Spec.Domain.Resources.Requests[corev1.ResourceCPU], vm.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
		fraction := false
		if limit.Sign() > 0 && fractional(&limit) {
			fraction = true
			r.Add(field.Invalid(vm.Domain("resources", "limits", "cpu"), limit.String(), "must be a whole number with dedicatedCpuPlacement"))
		}
		// An unset request defaults to the limit.
		if request.Sign() > 0 && fractional(&request) && !(fraction && request.Cmp(limit) == 0) {
			r.Add(field.Invalid(vm.Domain("resources", "requests", "cpu"), request.String(), "must be a whole number with dedicatedCpuPlacement"))
		}
	},
}, {
	ID:          "dedicated-cpus-request-equals-limit",
	Requirement: "With dedicated CPUs, the CPU request equals the CPU limit.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores larger requests, which cpu-request-within-limit reports.
		request, limit := vm.Spec.Domain.Resources.Requests[corev1.ResourceCPU], vm.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
		if dedicated(vm) && request.Sign() > 0 && request.Value() < limit.Value() {
			r.Add(field.Invalid(vm.Domain("resources", "requests", "cpu"), request.String(),
				fmt.Sprintf("must equal the limit, which is %s, with dedicatedCpuPlacement", limit.String())))
		}
	},
}, {
	ID:          "dedicated-cpus-match-topology",
	Requirement: "With dedicated CPUs, the CPU request or limit is sockets × cores × threads.",
	Check: func(vm *ExpandedVM, r *Report) {
		cpu := cpuOf(vm)
		if !dedicated(vm) || cpu.Sockets == 0 && cpu.Cores == 0 && cpu.Threads == 0 {
			return // the topology is derived from the resources
		}
		request, limit := vm.Spec.Domain.Resources.Requests[corev1.ResourceCPU], vm.Spec.Domain.Resources.Limits[corev1.ResourceCPU]
		name, given := "limits", limit
		if limit.Sign() <= 0 {
			name, given = "requests", request
		}
		if count := vCPUs(cpu); given.Sign() > 0 && request.Value() != count && limit.Value() != count {
			r.Add(field.Invalid(vm.Domain("resources", name, "cpu"), given.String(),
				fmt.Sprintf("must be %d, which is sockets × cores × threads, with dedicatedCpuPlacement", count)))
		}
	},
}, {
	ID:          "dedicated-cpus-threads",
	Requirement: "With dedicated CPUs, a core has at most two threads, and one on arm64.",
	Check: func(vm *ExpandedVM, r *Report) {
		most := uint32(2)
		if vm.Architecture() == "arm64" {
			most = 1
		}
		if threads := cpuOf(vm).Threads; dedicated(vm) && threads > most {
			r.Add(field.Invalid(vm.Domain("cpu", "threads"), threads,
				fmt.Sprintf("must be at most %d on %s with dedicatedCpuPlacement", most, vm.Architecture())))
		}
	},
}, {
	ID:          "dedicated-cpus-need-memory",
	Requirement: "With dedicated CPUs, the memory of the guest is given.",
	Check: func(vm *ExpandedVM, r *Report) {
		limit := vm.Spec.Domain.Resources.Limits[corev1.ResourceMemory]
		if dedicated(vm) && limit.IsZero() && !requestsMemory(vm) {
			r.Add(field.Required(vm.Domain("memory", "guest"), "must say how much memory the guest has, such as 1Gi"))
		}
	},
}, {
	ID:          "dedicated-cpus-memory-equals-limit",
	Requirement: "With dedicated CPUs, the memory request equals the memory limit.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores larger requests, which memory-request-within-limit reports.
		request, limit := vm.Spec.Domain.Resources.Requests[corev1.ResourceMemory], vm.Spec.Domain.Resources.Limits[corev1.ResourceMemory]
		if dedicated(vm) && request.Sign() > 0 && request.Cmp(limit) < 0 {
			r.Add(field.Invalid(vm.Domain("resources", "requests", "memory"), request.String(),
				fmt.Sprintf("must equal the limit, which is %s, with dedicatedCpuPlacement", limit.String())))
		}
	},
}}

// dedicated reports whether the VMI has dedicated CPUs and sets their number itself.
func dedicated(vm *ExpandedVM) bool { return cpuOf(vm).DedicatedCPUPlacement && !vm.hasInstancetype() }

// fractional ignores fractions below one thousandth, as KubeVirt does.
func fractional(q *resource.Quantity) bool { return q.Value()*1000 != q.MilliValue() }

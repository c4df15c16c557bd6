package validation

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var cpuRules = []Rule{{
	ID:          "cpu-not-negative",
	Leaf:        true,
	Requirement: "CPU requests and limits are not negative.",
	Check:       func(vm *ExpandedVM, r *Report) { notNegative(vm, r, corev1.ResourceCPU) },
}, {
	ID:          "cpu-request-within-limit",
	Requirement: "The CPU request is at most the CPU limit.",
	Check:       func(vm *ExpandedVM, r *Report) { requestWithinLimit(vm, r, corev1.ResourceCPU) },
}, {
	ID:          "cpu-feature-policy",
	Leaf:        true,
	Requirement: "The policy of a CPU feature is " + cpuFeaturePolicies.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, feature := range cpuOf(vm).Features {
			cpuFeaturePolicies.checkIfSet(r, feature.Policy, func() *field.Path { return vm.Domain("cpu", "features").Index(i).Child("policy") })
		}
	},
}, {
	ID:          "cpu-feature-name",
	Leaf:        true,
	Requirement: "The name of a CPU feature consists of letters, digits, '-', '_' and '.'.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		for i, feature := range cpuOf(vm).Features {
			if !cpuFeatureNameForm.MatchString(feature.Name) {
				r.Add(field.Invalid(vm.Domain("cpu", "features").Index(i).Child("name"), feature.Name,
					"must be letters, digits, '-', '_' and '.', such as sse4.1"))
			}
		}
	},
}, {
	ID:          "cpu-model-architecture",
	Requirement: "On arm64 the CPU model is host-passthrough.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Architecture() == "arm64" {
			valueSet{kubevirtv1.CPUModeHostPassthrough}.checkIfSet(r, cpuOf(vm).Model, func() *field.Path { return vm.Domain("cpu", "model") })
		}
	},
}, {
	ID:          "cpu-topology-possible",
	Requirement: "Sockets × cores × threads is at most 1048576.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if cpu := cpuOf(vm); vCPUs(cpu) > maxVCPUs {
			r.Add(field.Invalid(vm.Domain("cpu"), fmt.Sprintf("%d × %d × %d", cpu.Sockets, cpu.Cores, cpu.Threads),
				fmt.Sprintf("sockets × cores × threads must be at most %d", maxVCPUs)))
		}
	},
}, {
	ID:          "cpu-sockets-within-maximum",
	Requirement: "There are at most maxSockets sockets.",
	Check: func(vm *ExpandedVM, r *Report) {
		if cpu := cpuOf(vm); cpu.MaxSockets != 0 && cpu.Sockets > cpu.MaxSockets && !vm.hasInstancetype() {
			r.Add(field.Invalid(vm.Domain("cpu", "sockets"), cpu.Sockets,
				fmt.Sprintf("must be at most maxSockets, which is %d", cpu.MaxSockets)))
		}
	},
}, {
	ID:          "numa-enabled",
	Requirement: "Passing the NUMA mapping through to the guest needs feature gate NUMA.",
	Gate:        GateNUMA,
	Check: func(vm *ExpandedVM, r *Report) {
		if passesNUMA(cpuOf(vm)) {
			r.addDisabled(vm.Domain("cpu", "numa", "guestMappingPassthrough"))
		}
	},
}, {
	ID:          "numa-needs-dedicated-cpus",
	Requirement: "Passing the NUMA mapping through to the guest needs dedicated CPUs.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores realtime VMIs, which realtime-needs-dedicated-cpus reports.
		if cpu := cpuOf(vm); passesNUMA(cpu) && !cpu.DedicatedCPUPlacement && cpu.Realtime == nil && !vm.hasInstancetype() {
			r.Add(field.Forbidden(vm.Domain("cpu", "numa", "guestMappingPassthrough"), "needs domain.cpu.dedicatedCpuPlacement: true"))
		}
	},
}, {
	ID:          "numa-needs-hugepages",
	Requirement: "Passing the NUMA mapping through to the guest needs huge pages.",
	Check: func(vm *ExpandedVM, r *Report) {
		memory := vm.Spec.Domain.Memory
		if passesNUMA(cpuOf(vm)) && (memory == nil || memory.Hugepages == nil) && !vm.hasInstancetype() {
			r.Add(field.Required(vm.Domain("memory", "hugepages"), "cpu.numa.guestMappingPassthrough needs huge pages, such as pageSize: 2Mi"))
		}
	},
}, {
	ID:          "realtime-needs-dedicated-cpus",
	Requirement: "Realtime needs dedicated CPUs.",
	Check: func(vm *ExpandedVM, r *Report) {
		if cpu := cpuOf(vm); cpu.Realtime != nil && !cpu.DedicatedCPUPlacement && !vm.hasInstancetype() {
			r.Add(field.Forbidden(vm.Domain("cpu", "realtime"), "needs domain.cpu.dedicatedCpuPlacement: true"))
		}
	},
}, {
	ID:          "realtime-needs-numa",
	Requirement: "Realtime needs the NUMA mapping passed through to the guest.",
	Check: func(vm *ExpandedVM, r *Report) {
		if cpu := cpuOf(vm); cpu.Realtime != nil && !passesNUMA(cpu) && !vm.hasInstancetype() {
			r.Add(field.Required(vm.Domain("cpu", "numa", "guestMappingPassthrough"), "cpu.realtime requires it; set it to {}"))
		}
	},
}, {
	ID:          "emulator-thread-needs-dedicated-cpus",
	Requirement: "A CPU for the emulator thread needs dedicated CPUs.",
	Check: func(vm *ExpandedVM, r *Report) {
		if cpu := cpuOf(vm); cpu.IsolateEmulatorThread && !cpu.DedicatedCPUPlacement && !vm.hasInstancetype() {
			r.Add(field.Forbidden(vm.Domain("cpu", "isolateEmulatorThread"), "needs domain.cpu.dedicatedCpuPlacement: true"))
		}
	},
}}

// cpuOf returns spec.domain.cpu, or an empty CPU.
func cpuOf(vm *ExpandedVM) *kubevirtv1.CPU { return orEmpty(vm.Spec.Domain.CPU) }

// notNegative reports a negative request or limit of a resource.
func notNegative(vm *ExpandedVM, r *Report, of corev1.ResourceName) {
	resources := &vm.Spec.Domain.Resources
	if request := resources.Requests[of]; request.Sign() < 0 {
		r.Add(field.Invalid(vm.Domain("resources", "requests", string(of)), request.String(), "must not be negative"))
	}
	if limit := resources.Limits[of]; limit.Sign() < 0 {
		r.Add(field.Invalid(vm.Domain("resources", "limits", string(of)), limit.String(), "must not be negative"))
	}
}

func requestWithinLimit(vm *ExpandedVM, r *Report, of corev1.ResourceName) {
	request, limit := vm.Spec.Domain.Resources.Requests[of], vm.Spec.Domain.Resources.Limits[of]
	if limit.Sign() > 0 && request.Cmp(limit) > 0 {
		r.Add(field.Invalid(vm.Domain("resources", "requests", string(of)), request.String(),
			fmt.Sprintf("must be at most the limit, which is %s", limit.String())))
	}
}

var cpuFeaturePolicies = valueSet{"force", "require", "optional", "disable", "forbid"}

// cpuFeatureNameForm is the pattern of featureName in libvirt's schema cputypes.rng.
var cpuFeatureNameForm = regexp.MustCompile(`^[a-zA-Z0-9\-_.]+$`)

// maxVCPUs is more than any node has.
const maxVCPUs = 1 << 20

// vCPUs returns sockets × cores × threads, with 0 counted as 1. Values above maxVCPUs are reduced
// to maxVCPUs + 1, so the product never overflows.
func vCPUs(cpu *kubevirtv1.CPU) int64 {
	count := int64(1)
	for _, n := range [...]uint32{cpu.Sockets, cpu.Cores, cpu.Threads} {
		count = min(count*int64(max(n, 1)), maxVCPUs+1)
	}
	return count
}

// passesNUMA reports whether the NUMA mapping of the host is passed through to the guest.
func passesNUMA(cpu *kubevirtv1.CPU) bool {
	return cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

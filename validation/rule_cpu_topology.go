package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var cpuTopologyRules = []Rule{{
	ID:    "cpu-topology-possible",
	Says:  "Sockets, cores and threads multiply to a number of CPUs that a machine can have.",
	Reach: BeyondKubeVirt,
	Check: cpuTopologyPossible,
}, {
	ID:    "cpu-sockets-within-maximum",
	Says:  "There are at most maxSockets sockets.",
	Check: cpuSocketsWithinMaximum,
}, {
	ID:      "numa-enabled",
	Says:    "Passing the NUMA mapping through to the guest needs feature gate NUMA.",
	Cluster: true,
	Check:   numaEnabled,
}, {
	ID:    "numa-needs-dedicated-cpus",
	Says:  "Passing the NUMA mapping through to the guest needs dedicated CPUs.",
	Check: numaNeedsDedicatedCPUs,
}, {
	ID:    "numa-needs-hugepages",
	Says:  "Passing the NUMA mapping through to the guest needs huge pages.",
	Check: numaNeedsHugepages,
}, {
	ID:    "realtime-needs-dedicated-cpus",
	Says:  "Realtime needs dedicated CPUs.",
	Check: realtimeNeedsDedicatedCPUs,
}, {
	ID:    "realtime-needs-numa",
	Says:  "Realtime needs the NUMA mapping passed through to the guest.",
	Check: realtimeNeedsNUMA,
}, {
	ID:    "emulator-thread-needs-dedicated-cpus",
	Says:  "A CPU for the emulator thread needs dedicated CPUs.",
	Check: emulatorThreadNeedsDedicatedCPUs,
}}

// maxVCPUs is more than any machine has.
const maxVCPUs = 1 << 20

// vCPUs is sockets × cores × threads, where none counts as one; it never
// overflows, and is maxVCPUs + 1 for all that is more than maxVCPUs.
func vCPUs(cpu *kubevirtv1.CPU) int64 {
	count := int64(1)
	for _, n := range [...]uint32{cpu.Sockets, cpu.Cores, cpu.Threads} {
		count = min(count*int64(max(n, 1)), maxVCPUs+1)
	}
	return count
}

func cpuTopologyPossible(m *Machine, r *Report) {
	if cpu := cpuOf(m); vCPUs(cpu) > maxVCPUs {
		r.Add(field.Invalid(m.Domain("cpu"), fmt.Sprintf("%d × %d × %d", cpu.Sockets, cpu.Cores, cpu.Threads),
			fmt.Sprintf("sockets × cores × threads must be at most %d", maxVCPUs)))
	}
}

func cpuSocketsWithinMaximum(m *Machine, r *Report) {
	if cpu := cpuOf(m); cpu.MaxSockets != 0 && cpu.Sockets > cpu.MaxSockets && !m.SizedElsewhere() {
		r.Add(field.Invalid(m.Domain("cpu", "sockets"), cpu.Sockets,
			fmt.Sprintf("must be at most maxSockets, which is %d", cpu.MaxSockets)))
	}
}

// passesNUMA reports whether the guest gets the NUMA mapping of its host.
func passesNUMA(cpu *kubevirtv1.CPU) bool {
	return cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

func numaEnabled(m *Machine, r *Report) {
	if passesNUMA(cpuOf(m)) && !m.Config.Enabled(GateNUMA) {
		r.Add(disabled(m.Domain("cpu", "numa", "guestMappingPassthrough"), GateNUMA))
	}
}

// numaNeedsDedicatedCPUs leaves realtime machines to realtimeNeedsDedicatedCPUs.
func numaNeedsDedicatedCPUs(m *Machine, r *Report) {
	if cpu := cpuOf(m); passesNUMA(cpu) && !cpu.DedicatedCPUPlacement && cpu.Realtime == nil && !m.SizedElsewhere() {
		r.Add(field.Forbidden(m.Domain("cpu", "numa", "guestMappingPassthrough"), "needs domain.cpu.dedicatedCpuPlacement: true"))
	}
}

func numaNeedsHugepages(m *Machine, r *Report) {
	memory := m.Spec.Domain.Memory
	if passesNUMA(cpuOf(m)) && (memory == nil || memory.Hugepages == nil) && !m.SizedElsewhere() {
		r.Add(field.Required(m.Domain("memory", "hugepages"), "cpu.numa.guestMappingPassthrough needs huge pages, such as pageSize: 2Mi"))
	}
}

func realtimeNeedsDedicatedCPUs(m *Machine, r *Report) {
	if cpu := cpuOf(m); cpu.Realtime != nil && !cpu.DedicatedCPUPlacement && !m.SizedElsewhere() {
		r.Add(field.Forbidden(m.Domain("cpu", "realtime"), "needs domain.cpu.dedicatedCpuPlacement: true"))
	}
}

func realtimeNeedsNUMA(m *Machine, r *Report) {
	if cpu := cpuOf(m); cpu.Realtime != nil && !passesNUMA(cpu) && !m.SizedElsewhere() {
		r.Add(field.Required(m.Domain("cpu", "numa", "guestMappingPassthrough"), "cpu.realtime needs it; {} will do"))
	}
}

func emulatorThreadNeedsDedicatedCPUs(m *Machine, r *Report) {
	if cpu := cpuOf(m); cpu.IsolateEmulatorThread && !cpu.DedicatedCPUPlacement && !m.SizedElsewhere() {
		r.Add(field.Forbidden(m.Domain("cpu", "isolateEmulatorThread"), "needs domain.cpu.dedicatedCpuPlacement: true"))
	}
}

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// graceGPURules are about NVIDIA Grace GPUs that are passed through, which are
// coherent with the host's memory.
var graceGPURules = []Rule{{
	ID:      "grace-gpu-enabled",
	Says:    "A Grace GPU needs feature gate GraceIOVirtualization.",
	Cluster: true,
	Check:   graceGPUEnabled,
}, {
	ID:      "grace-gpu-topology-enabled",
	Says:    "A Grace GPU needs feature gates PCINUMAAwareTopology and IOMMUFD.",
	Cluster: true,
	Check:   graceGPUTopologyEnabled,
}, {
	ID:      "grace-gpu-machine",
	Says:    "A Grace GPU needs architecture arm64 and machine type virt.",
	Cluster: true,
	Check:   graceGPUMachine,
}, {
	ID:      "grace-gpu-needs-dedicated-cpus",
	Says:    "A Grace GPU needs dedicated CPUs.",
	Cluster: true,
	Check:   graceGPUNeedsDedicatedCPUs,
}, {
	ID:      "grace-gpu-annotations",
	Says:    "A Grace GPU goes without annotations that place PCI devices on the root complex or disable the 64-bit PCI hole.",
	Cluster: true,
	Check:   graceGPUAnnotations,
}}

// graceGPU is the path of the first Grace GPU of m; nil where there is none.
func graceGPU(m *Machine) *field.Path {
	if len(m.Config.GraceDevices) == 0 {
		return nil
	}
	for device := range m.eachPassthrough {
		if slices.Contains(m.Config.GraceDevices, device.device) {
			return device.at(m, "deviceName")
		}
	}
	return nil
}

// graceGPUAllowed reports whether m has a Grace GPU, and may have one; where it
// may not, graceGPUEnabled says all there is to say.
func graceGPUAllowed(m *Machine) bool {
	return m.Config.Enabled(GateGraceIOVirtualization) && graceGPU(m) != nil
}

func graceGPUEnabled(m *Machine, r *Report) {
	if at := graceGPU(m); at != nil && !m.Config.Enabled(GateGraceIOVirtualization) {
		r.Add(disabled(at, GateGraceIOVirtualization))
	}
}

func graceGPUTopologyEnabled(m *Machine, r *Report) {
	if !graceGPUAllowed(m) {
		return
	}
	for _, gate := range []Gate{GatePCINUMAAwareTopology, GateIOMMUFD} {
		if !m.Config.Enabled(gate) {
			r.Add(disabled(graceGPU(m), gate))
		}
	}
}

func graceGPUMachine(m *Machine, r *Report) {
	machine := m.Spec.Domain.Machine
	switch {
	case !graceGPUAllowed(m):
	case m.Architecture() != "arm64":
		r.Add(field.Invalid(m.Path("spec", "architecture"), m.Architecture(), "must be arm64 for a Grace GPU"))
	case machine != nil && machine.Type != "" && machine.Type != "virt":
		r.Add(field.Invalid(m.Domain("machine", "type"), machine.Type, "must be virt for a Grace GPU"))
	}
}

func graceGPUNeedsDedicatedCPUs(m *Machine, r *Report) {
	if graceGPUAllowed(m) && !cpuOf(m).DedicatedCPUPlacement && !m.SizedElsewhere() {
		r.Add(field.Required(m.Domain("cpu", "dedicatedCpuPlacement"), "must be true for a Grace GPU"))
	}
}

func graceGPUAnnotations(m *Machine, r *Report) {
	if graceGPU(m) == nil {
		return
	}
	for _, name := range []string{kubevirtv1.PlacePCIDevicesOnRootComplex, kubevirtv1.DisablePCIHole64} {
		if m.Meta.Annotations[name] == "true" {
			r.Add(field.Forbidden(m.Path("metadata", "annotations").Key(name), "must be left out with a Grace GPU"))
		}
	}
}

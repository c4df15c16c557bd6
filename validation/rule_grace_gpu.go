package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// graceGPURules restrict VMIs with NVIDIA Grace GPUs, which share memory coherently with the host.
var graceGPURules = []Rule{{
	ID:          "grace-gpu-enabled",
	Requirement: "A Grace GPU needs feature gate GraceIOVirtualization.",
	Gate:        GateGraceIOVirtualization,
	Check: func(vm *ExpandedVM, r *Report) {
		if at := graceGPU(vm); at != nil {
			r.addDisabled(at)
		}
	},
}, {
	ID:                "grace-gpu-topology-enabled",
	Requirement:       "A Grace GPU needs feature gates PCINUMAAwareTopology and IOMMUFD.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		if !graceGPUAllowed(vm) {
			return
		}
		for _, gate := range []Gate{GatePCINUMAAwareTopology, GateIOMMUFD} {
			if !vm.Config.Enabled(gate) {
				r.Add(disabled(graceGPU(vm), gate))
			}
		}
	},
}, {
	ID:                "grace-gpu-machine",
	Requirement:       "A Grace GPU needs architecture arm64 and machine type virt.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		machine := vm.Spec.Domain.Machine
		switch {
		case !graceGPUAllowed(vm):
		case vm.Architecture() != "arm64":
			r.Add(field.Invalid(vm.Path("spec", "architecture"), vm.Architecture(), "must be arm64 for a Grace GPU"))
		case machine != nil && machine.Type != "" && machine.Type != "virt":
			r.Add(field.Invalid(vm.Domain("machine", "type"), machine.Type, "must be virt for a Grace GPU"))
		}
	},
}, {
	ID:                "grace-gpu-needs-dedicated-cpus",
	Requirement:       "A Grace GPU needs dedicated CPUs.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		if graceGPUAllowed(vm) && !cpuOf(vm).DedicatedCPUPlacement && !vm.hasInstancetype() {
			r.Add(field.Required(vm.Domain("cpu", "dedicatedCpuPlacement"), "must be true for a Grace GPU"))
		}
	},
}, {
	ID:                "grace-gpu-annotations",
	Requirement:       "A VMI with a Grace GPU has no annotations that place PCI devices on the root complex or disable the 64-bit PCI hole.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		if graceGPU(vm) == nil {
			return
		}
		for _, name := range []string{kubevirtv1.PlacePCIDevicesOnRootComplex, kubevirtv1.DisablePCIHole64} {
			if vm.Meta.Annotations[name] == "true" {
				r.Add(field.Forbidden(vm.Path("metadata", "annotations").Key(name), "must be left out with a Grace GPU"))
			}
		}
	},
}}

// graceGPU returns the path of the first Grace GPU, or nil.
func graceGPU(vm *ExpandedVM) *field.Path {
	if len(vm.Config.GraceDevices) == 0 {
		return nil
	}
	for device := range vm.eachPassthrough {
		if slices.Contains(vm.Config.GraceDevices, device.device) {
			return device.at(vm, "deviceName")
		}
	}
	return nil
}

// graceGPUAllowed reports whether the VMI has a Grace GPU and the feature gate allows it. Otherwise
// grace-gpu-enabled alone reports it.
func graceGPUAllowed(vm *ExpandedVM) bool {
	return vm.Config.Enabled(GateGraceIOVirtualization) && graceGPU(vm) != nil
}

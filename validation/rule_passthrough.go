package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var passthroughRules = []Rule{{
	ID:          "host-devices-enabled",
	Requirement: "Host devices need feature gate HostDevices.",
	Gate:        GateHostDevices,
	Check: func(vm *ExpandedVM, r *Report) {
		if len(vm.Spec.Domain.Devices.HostDevices) > 0 {
			r.addDisabled(vm.Device("hostDevices"))
		}
	},
}, {
	ID:          "one-boot-display",
	Requirement: "At most one virtual GPU has a boot display (ramFB, which is enabled by default).",
	Check: func(vm *ExpandedVM, r *Report) {
		first, reach := "", SameAsKubeVirt
		for i, gpu := range pointers(vm.Spec.Domain.Devices.GPUs) {
			switch {
			case !hasBootDisplay(gpu):
			case first == "":
				first, reach = quoted(gpu.Name), displayStrictness(gpu)
			default:
				at := vm.Device("gpus").Index(i).Child("virtualGPUOptions", "display", "ramFB")
				r.addStricter(max(reach, displayStrictness(gpu)), field.Forbidden(at,
					"must be enabled: false, because GPU "+first+" is the boot display; it is enabled by default"))
			}
		}
	},
}, {
	ID:          "device-source",
	Requirement: "A GPU or host device is given either by its deviceName or by claimName and requestName.",
	Check: func(vm *ExpandedVM, r *Report) {
		for device := range vm.eachPassthrough {
			switch {
			case device.device == "" && device.claim == nil:
				r.Add(field.Required(device.at(vm, "deviceName"), "must be set, or claimName and requestName must be set instead"))
			case device.device != "" && device.claim != nil:
				r.Add(field.Forbidden(device.at(vm, "deviceName"), "must be left out if claimName and requestName are set"))
			}
		}
	},
}, {
	ID:          "gpu-sources-alike",
	Requirement: "Either all GPUs have deviceName or all have claims.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores GPUs with no source or both sources, which device-source reports.
		first := -1
		for i, gpu := range pointers(vm.Spec.Domain.Devices.GPUs) {
			if (gpu.DeviceName == "") == (gpu.ClaimRequest == nil) {
				continue
			}
			if first < 0 {
				first = i
			}
			if named := gpu.DeviceName != ""; named != (vm.Spec.Domain.Devices.GPUs[first].DeviceName != "") {
				as := map[bool]string{true: "claimName and requestName", false: "deviceName"}[named]
				r.Add(field.Forbidden(vm.Device("gpus").Index(i), "must have "+as+", like the first GPU"))
				return
			}
		}
	},
}}

// A passthrough is a GPU or a host device.
type passthrough struct {
	list, name, device string
	i                  int
	claim              *kubevirtv1.ClaimRequest
}

// claimed reports whether only a claim gives the device.
func (p *passthrough) claimed() bool { return p.device == "" && p.claim != nil }

func (p *passthrough) at(vm *ExpandedVM, more ...string) *field.Path {
	return childPath(vm.Device(p.list).Index(p.i), more)
}

// eachPassthrough yields the GPUs and then the host devices.
func (vm *ExpandedVM) eachPassthrough(yield func(*passthrough) bool) {
	for i, gpu := range pointers(vm.Spec.Domain.Devices.GPUs) {
		if !yield(&passthrough{list: "gpus", name: gpu.Name, device: gpu.DeviceName, i: i, claim: gpu.ClaimRequest}) {
			return
		}
	}
	for i, device := range pointers(vm.Spec.Domain.Devices.HostDevices) {
		if !yield(&passthrough{list: "hostDevices", name: device.Name, device: device.DeviceName, i: i, claim: device.ClaimRequest}) {
			return
		}
	}
}

// hasBootDisplay reports whether a GPU shows the screen while the VMI boots.
func hasBootDisplay(gpu *kubevirtv1.GPU) bool {
	if gpu.VirtualGPUOptions == nil || gpu.VirtualGPUOptions.Display == nil {
		return false
	}
	display := gpu.VirtualGPUOptions.Display
	return ptr.Deref(display.Enabled, true) && (display.RamFB == nil || enabled(display.RamFB))
}

// displayStrictness returns the strictness of one-boot-display. For KubeVirt, ramFB: {} is enabled
// in a VMI and disabled in a VM.
func displayStrictness(gpu *kubevirtv1.GPU) Strictness {
	if ramFB := gpu.VirtualGPUOptions.Display.RamFB; ramFB != nil && ramFB.Enabled == nil {
		return EarlierThanKubeVirt
	}
	return SameAsKubeVirt
}

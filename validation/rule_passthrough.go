package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var passthroughRules = []Rule{{
	ID:      "host-devices-enabled",
	Leaf:    true,
	Says:    "Host devices need feature gate HostDevices.",
	Cluster: true,
	Check:   hostDevicesEnabled,
}, {
	ID:    "one-boot-display",
	Says:  "At most one virtual GPU shows what happens while the machine boots (ramFB, which is on by default).",
	Check: oneBootDisplay,
}, {
	ID:    "device-source",
	Says:  "A GPU or host device is given either by its deviceName or by claimName and requestName.",
	Check: deviceSource,
}, {
	ID:    "gpu-sources-alike",
	Says:  "GPUs are given all by deviceName or all by claims.",
	Check: gpuSourcesAlike,
}}

// A passthrough is a GPU or a host device.
type passthrough struct {
	list, name, device string
	i                  int
	claim              *kubevirtv1.ClaimRequest
}

// claimed reports whether a claim gives the device, and nothing else.
func (p *passthrough) claimed() bool { return p.device == "" && p.claim != nil }

// at is the path of something of the device.
func (p *passthrough) at(m *Machine, more ...string) *field.Path {
	return under(m.Device(p.list).Index(p.i), more)
}

// eachPassthrough yields the GPUs and then the host devices.
func (m *Machine) eachPassthrough(yield func(*passthrough) bool) {
	for i := range m.Spec.Domain.Devices.GPUs {
		gpu := &m.Spec.Domain.Devices.GPUs[i]
		if !yield(&passthrough{list: "gpus", name: gpu.Name, device: gpu.DeviceName, i: i, claim: gpu.ClaimRequest}) {
			return
		}
	}
	for i := range m.Spec.Domain.Devices.HostDevices {
		device := &m.Spec.Domain.Devices.HostDevices[i]
		if !yield(&passthrough{list: "hostDevices", name: device.Name, device: device.DeviceName, i: i, claim: device.ClaimRequest}) {
			return
		}
	}
}

func hostDevicesEnabled(m *Machine, r *Report) {
	if len(m.Spec.Domain.Devices.HostDevices) > 0 && !m.Config.Enabled(GateHostDevices) {
		r.Add(disabled(m.Device("hostDevices"), GateHostDevices))
	}
}

// showsBoot reports whether a GPU shows what happens while the machine boots.
func showsBoot(gpu *kubevirtv1.GPU) bool {
	if gpu.VirtualGPUOptions == nil || gpu.VirtualGPUOptions.Display == nil {
		return false
	}
	display := gpu.VirtualGPUOptions.Display
	return isOn(display.Enabled, true) && (display.RamFB == nil || enabled(display.RamFB))
}

// reachOfDisplay is that of a rule about a display that shows the boot. KubeVirt
// turns ramFB: {} on in a VMI, and takes it for off in a VM.
func reachOfDisplay(gpu *kubevirtv1.GPU) Reach {
	if ramFB := gpu.VirtualGPUOptions.Display.RamFB; ramFB != nil && ramFB.Enabled == nil {
		return EarlierThanKubeVirt
	}
	return AsKubeVirt
}

func oneBootDisplay(m *Machine, r *Report) {
	first, reach := "", AsKubeVirt
	for i := range m.Spec.Domain.Devices.GPUs {
		gpu := &m.Spec.Domain.Devices.GPUs[i]
		switch {
		case !showsBoot(gpu):
		case first == "":
			first, reach = quoted(gpu.Name), reachOfDisplay(gpu)
		default:
			r.addAs(max(reach, reachOfDisplay(gpu)), field.Forbidden(m.Device("gpus").Index(i).Child("virtualGPUOptions", "display", "ramFB"),
				"must be enabled: false, because GPU "+first+" shows the boot; it is on by default"))
		}
	}
}

func deviceSource(m *Machine, r *Report) {
	for device := range m.eachPassthrough {
		switch {
		case device.device == "" && device.claim == nil:
			r.Add(field.Required(device.at(m, "deviceName"), "must say which device, or give claimName and requestName instead"))
		case device.device != "" && device.claim != nil:
			r.Add(field.Forbidden(device.at(m, "deviceName"), "must be left out where claimName and requestName are given"))
		}
	}
}

// gpuSourcesAlike leaves GPUs that are given in no way or in both to deviceSource.
func gpuSourcesAlike(m *Machine, r *Report) {
	first := -1
	for i := range m.Spec.Domain.Devices.GPUs {
		gpu := &m.Spec.Domain.Devices.GPUs[i]
		if (gpu.DeviceName == "") == (gpu.ClaimRequest == nil) {
			continue
		}
		if first < 0 {
			first = i
		}
		if named := gpu.DeviceName != ""; named != (m.Spec.Domain.Devices.GPUs[first].DeviceName != "") {
			as := map[bool]string{true: "claimName and requestName", false: "deviceName"}[named]
			r.Add(field.Forbidden(m.Device("gpus").Index(i), "must be given by "+as+", as the first GPU is"))
			return
		}
	}
}

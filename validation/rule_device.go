package validation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var deviceRules = []Rule{{
	ID:    "input-bus",
	Leaf:  true,
	Says:  "An input device is on the bus usb or virtio.",
	Check: inputBus,
}, {
	ID:    "input-type",
	Leaf:  true,
	Says:  "An input device is a tablet.",
	Check: inputType,
}, {
	ID:    "watchdog-architecture",
	Says:  "A watchdog is an i6300esb on amd64 and a diag288 on s390x; arm64 has none.",
	Reach: EarlierThanKubeVirt,
	Check: watchdogArchitecture,
}, {
	ID:    "video-type",
	Leaf:  true,
	Says:  "A video device is of a type that the architecture has.",
	Reach: EarlierThanKubeVirt,
	Check: videoType,
}, {
	ID:    "video-needs-graphics",
	Says:  "A video device needs a graphics device.",
	Check: videoNeedsGraphics,
}, {
	ID:    "sound-name",
	Says:  "A sound device has a name.",
	Check: soundName,
}, {
	ID:    "sound-model",
	Leaf:  true,
	Says:  "A sound device is an ich9 or an ac97.",
	Check: soundModel,
}, {
	ID:    "sound-architecture",
	Says:  "On arm64 there is no sound device.",
	Reach: EarlierThanKubeVirt,
	Check: soundArchitecture,
}, {
	ID:    "panic-device-model",
	Leaf:  true,
	Says:  "A panic device is a hyperv, isa or pvpanic.",
	Check: panicDeviceModel,
}, {
	ID:    "panic-device-architecture",
	Says:  "On s390x there is no panic device.",
	Check: panicDeviceArchitecture,
}, {
	ID:      "vsock-enabled",
	Leaf:    true,
	Says:    "A VSOCK device needs feature gate VSOCK.",
	Cluster: true,
	Check:   vsockEnabled,
}, {
	ID:    "io-threads-policy",
	Leaf:  true,
	Says:  "The policy of I/O threads is shared, auto or supplementalPool.",
	Check: ioThreadsPolicy,
}, {
	ID:    "io-threads-count",
	Says:  "A supplemental pool has at least one I/O thread.",
	Check: ioThreadsCount,
}}

func inputBus(m *Machine, r *Report) {
	for i, input := range m.Spec.Domain.Devices.Inputs {
		if input.Bus != "" && input.Bus != kubevirtv1.InputBusUSB && input.Bus != kubevirtv1.InputBusVirtio {
			r.Add(r.unsupported(m.Device("inputs").Index(i).Child("bus"), string(input.Bus), "usb", "virtio"))
		}
	}
}

func inputType(m *Machine, r *Report) {
	for i, input := range m.Spec.Domain.Devices.Inputs {
		if input.Type != "" && input.Type != kubevirtv1.InputTypeTablet {
			r.Add(r.unsupported(m.Device("inputs").Index(i).Child("type"), string(input.Type), "tablet"))
		}
	}
}

func watchdogArchitecture(m *Machine, r *Report) {
	watchdog := m.Spec.Domain.Devices.Watchdog
	if watchdog == nil {
		return
	}
	switch architecture := m.Architecture(); {
	case architecture == "arm64":
		r.Add(field.Forbidden(m.Device("watchdog"), "arm64 has no watchdog"))
	case architecture == "amd64" && watchdog.Diag288 != nil:
		r.Add(field.Forbidden(m.Device("watchdog", "diag288"), "the watchdog of amd64 is i6300esb"))
	case architecture == "s390x" && watchdog.I6300ESB != nil:
		r.Add(field.Forbidden(m.Device("watchdog", "i6300esb"), "the watchdog of s390x is diag288"))
	}
}

// videoTypes are the types of video devices that an architecture has.
var videoTypes = map[string][]string{
	"amd64": {"vga", "cirrus", "virtio", "ramfb", "bochs"},
	"arm64": {"virtio", "ramfb"},
	"s390x": {"virtio"},
}

func videoType(m *Machine, r *Report) {
	video, types := m.Spec.Domain.Devices.Video, videoTypes[m.Architecture()]
	if video != nil && video.Type != "" && types != nil && !slices.Contains(types, video.Type) {
		r.Add(r.unsupported(m.Device("video", "type"), video.Type, types...))
	}
}

func videoNeedsGraphics(m *Machine, r *Report) {
	devices := &m.Spec.Domain.Devices
	if devices.Video != nil && !isOn(devices.AutoattachGraphicsDevice, true) {
		r.Add(field.Forbidden(m.Device("video"), "must be left out with autoattachGraphicsDevice: false"))
	}
}

func soundName(m *Machine, r *Report) {
	if sound := m.Spec.Domain.Devices.Sound; sound != nil && sound.Name == "" {
		r.Add(field.Required(m.Device("sound", "name"), "must be the name of the device; any will do"))
	}
}

func soundModel(m *Machine, r *Report) {
	if sound := m.Spec.Domain.Devices.Sound; sound != nil && sound.Model != "" && sound.Model != "ich9" && sound.Model != "ac97" {
		r.Add(r.unsupported(m.Device("sound", "model"), sound.Model, "ich9", "ac97"))
	}
}

func soundArchitecture(m *Machine, r *Report) {
	if m.Spec.Domain.Devices.Sound != nil && m.Architecture() == "arm64" {
		r.Add(field.Forbidden(m.Device("sound"), "arm64 has no sound device"))
	}
}

func panicDeviceModel(m *Machine, r *Report) {
	for i, device := range m.Spec.Domain.Devices.PanicDevices {
		if device.Model == nil {
			continue
		}
		switch *device.Model {
		case kubevirtv1.Hyperv, kubevirtv1.Isa, kubevirtv1.Pvpanic:
		default:
			r.Add(r.unsupported(m.Device("panicDevices").Index(i).Child("model"), string(*device.Model), "hyperv", "isa", "pvpanic"))
		}
	}
}

func panicDeviceArchitecture(m *Machine, r *Report) {
	if len(m.Spec.Domain.Devices.PanicDevices) > 0 && m.Architecture() == "s390x" {
		r.Add(field.Forbidden(m.Device("panicDevices"), "s390x has no panic device"))
	}
}

func vsockEnabled(m *Machine, r *Report) {
	if isOn(m.Spec.Domain.Devices.AutoattachVSOCK, false) && !m.Config.Enabled(GateVSOCK) {
		r.Add(disabled(m.Device("autoattachVSOCK"), GateVSOCK))
	}
}

var ioThreadsPolicies = []string{"shared", "auto", "supplementalPool"}

func ioThreadsPolicy(m *Machine, r *Report) {
	if policy := m.Spec.Domain.IOThreadsPolicy; policy != nil && !slices.Contains(ioThreadsPolicies, string(*policy)) {
		r.Add(r.unsupported(m.Domain("ioThreadsPolicy"), string(*policy), ioThreadsPolicies...))
	}
}

func ioThreadsCount(m *Machine, r *Report) {
	policy, threads := m.Spec.Domain.IOThreadsPolicy, m.Spec.Domain.IOThreads
	if policy == nil || *policy != kubevirtv1.IOThreadsPolicySupplementalPool || m.SizedElsewhere() {
		return
	}
	if threads == nil || threads.SupplementalPoolThreadCount == nil || *threads.SupplementalPoolThreadCount == 0 {
		r.Add(field.Required(m.Domain("ioThreads", "supplementalPoolThreadCount"),
			fmt.Sprintf("must be at least 1 with ioThreadsPolicy: %s", *policy)))
	}
}

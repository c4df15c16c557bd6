package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var deviceRules = []Rule{{
	ID:          "input-bus",
	Leaf:        true,
	Requirement: "The bus of an input device is " + inputBuses.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, input := range vm.Spec.Domain.Devices.Inputs {
			inputBuses.checkIfSet(r, string(input.Bus), func() *field.Path { return vm.Device("inputs").Index(i).Child("bus") })
		}
	},
}, {
	ID:          "input-type",
	Leaf:        true,
	Requirement: "An input device is a tablet.",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, input := range vm.Spec.Domain.Devices.Inputs {
			inputTypes.checkIfSet(r, string(input.Type), func() *field.Path { return vm.Device("inputs").Index(i).Child("type") })
		}
	},
}, {
	ID:          "watchdog-architecture",
	Requirement: "A watchdog is an i6300esb on amd64 and a diag288 on s390x; arm64 has none.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		watchdog := vm.Spec.Domain.Devices.Watchdog
		if watchdog == nil {
			return
		}
		switch architecture := vm.Architecture(); {
		case architecture == "arm64":
			r.Add(field.Forbidden(vm.Device("watchdog"), "arm64 has no watchdog"))
		case architecture == "amd64" && watchdog.Diag288 != nil:
			r.Add(field.Forbidden(vm.Device("watchdog", "diag288"), "the watchdog of amd64 is i6300esb"))
		case architecture == "s390x" && watchdog.I6300ESB != nil:
			r.Add(field.Forbidden(vm.Device("watchdog", "i6300esb"), "the watchdog of s390x is diag288"))
		}
	},
}, {
	ID:          "video-type",
	Leaf:        true,
	Requirement: "The architecture supports the type of the video device.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		video, types := vm.Spec.Domain.Devices.Video, videoTypes[vm.Architecture()]
		if video != nil && types != nil {
			types.checkIfSet(r, video.Type, func() *field.Path { return vm.Device("video", "type") })
		}
	},
}, {
	ID:          "video-needs-graphics",
	Requirement: "A video device needs a graphics device.",
	Check: func(vm *ExpandedVM, r *Report) {
		devices := &vm.Spec.Domain.Devices
		if devices.Video != nil && !ptr.Deref(devices.AutoattachGraphicsDevice, true) {
			r.Add(field.Forbidden(vm.Device("video"), "must be left out with autoattachGraphicsDevice: false"))
		}
	},
}, {
	ID:          "sound-name",
	Requirement: "A sound device has a name.",
	Check: func(vm *ExpandedVM, r *Report) {
		if sound := vm.Spec.Domain.Devices.Sound; sound != nil && sound.Name == "" {
			r.Add(field.Required(vm.Device("sound", "name"), "must be the name of the device; any will do"))
		}
	},
}, {
	ID:          "sound-model",
	Leaf:        true,
	Requirement: "The model of a sound device is " + soundModels.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		if sound := vm.Spec.Domain.Devices.Sound; sound != nil {
			soundModels.checkIfSet(r, sound.Model, func() *field.Path { return vm.Device("sound", "model") })
		}
	},
}, {
	ID:          "sound-architecture",
	Requirement: "A VMI on arm64 has no sound device.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec.Domain.Devices.Sound != nil && vm.Architecture() == "arm64" {
			r.Add(field.Forbidden(vm.Device("sound"), "arm64 has no sound device"))
		}
	},
}, {
	ID:          "panic-device-model",
	Leaf:        true,
	Requirement: "The model of a panic device is " + panicDeviceModels.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		for i, device := range vm.Spec.Domain.Devices.PanicDevices {
			if device.Model != nil {
				panicDeviceModels.check(r, string(*device.Model), func() *field.Path { return vm.Device("panicDevices").Index(i).Child("model") })
			}
		}
	},
}, {
	ID:          "panic-device-architecture",
	Requirement: "A VMI on s390x has no panic device.",
	Check: func(vm *ExpandedVM, r *Report) {
		if len(vm.Spec.Domain.Devices.PanicDevices) > 0 && vm.Architecture() == "s390x" {
			r.Add(field.Forbidden(vm.Device("panicDevices"), "s390x has no panic device"))
		}
	},
}, {
	ID:          "vsock-enabled",
	Requirement: "A VSOCK device needs feature gate VSOCK.",
	Gate:        GateVSOCK,
	Check: func(vm *ExpandedVM, r *Report) {
		if ptr.Deref(vm.Spec.Domain.Devices.AutoattachVSOCK, false) {
			r.addDisabled(vm.Device("autoattachVSOCK"))
		}
	},
}, {
	ID:          "io-threads-policy",
	Leaf:        true,
	Requirement: "The policy of I/O threads is " + ioThreadsPolicies.String() + ".",
	Check: func(vm *ExpandedVM, r *Report) {
		if policy := vm.Spec.Domain.IOThreadsPolicy; policy != nil {
			ioThreadsPolicies.check(r, string(*policy), func() *field.Path { return vm.Domain("ioThreadsPolicy") })
		}
	},
}, {
	ID:          "io-threads-count",
	Requirement: "A supplemental pool has at least one I/O thread.",
	Check: func(vm *ExpandedVM, r *Report) {
		policy, threads := vm.Spec.Domain.IOThreadsPolicy, vm.Spec.Domain.IOThreads
		if policy == nil || *policy != kubevirtv1.IOThreadsPolicySupplementalPool || vm.hasInstancetype() {
			return
		}
		if threads == nil || threads.SupplementalPoolThreadCount == nil || *threads.SupplementalPoolThreadCount == 0 {
			r.Add(field.Required(vm.Domain("ioThreads", "supplementalPoolThreadCount"),
				fmt.Sprintf("must be at least 1 with ioThreadsPolicy: %s", *policy)))
		}
	},
}, {
	ID:          "gpu-name-unique",
	Requirement: "No two GPUs have the same name.",
	Strictness:  StricterThanKubeVirt,
	Check: uniqueNames(func(vm *ExpandedVM) []kubevirtv1.GPU { return vm.Spec.Domain.Devices.GPUs },
		func(gpu *kubevirtv1.GPU) string { return gpu.Name }, "domain", "devices", "gpus"),
}, {
	ID:          "host-device-name-unique",
	Requirement: "No two host devices have the same name.",
	Strictness:  StricterThanKubeVirt,
	Check: uniqueNames(func(vm *ExpandedVM) []kubevirtv1.HostDevice { return vm.Spec.Domain.Devices.HostDevices },
		func(device *kubevirtv1.HostDevice) string { return device.Name }, "domain", "devices", "hostDevices"),
}, {
	ID:          "filesystem-name-unique",
	Requirement: "No two file systems have the same name.",
	Strictness:  StricterThanKubeVirt,
	Check: uniqueNames(func(vm *ExpandedVM) []kubevirtv1.Filesystem { return vm.Spec.Domain.Devices.Filesystems },
		func(filesystem *kubevirtv1.Filesystem) string { return filesystem.Name }, "domain", "devices", "filesystems"),
}, {
	ID:          "input-name-unique",
	Requirement: "No two input devices have the same name.",
	Strictness:  StricterThanKubeVirt,
	Check: uniqueNames(func(vm *ExpandedVM) []kubevirtv1.Input { return vm.Spec.Domain.Devices.Inputs },
		func(input *kubevirtv1.Input) string { return input.Name }, "domain", "devices", "inputs"),
}}

var (
	inputBuses        = valueSet{"usb", "virtio"}
	inputTypes        = valueSet{"tablet"}
	soundModels       = valueSet{"ich9", "ac97"}
	panicDeviceModels = valueSet{"hyperv", "isa", "pvpanic"}
	ioThreadsPolicies = valueSet{"shared", "auto", "supplementalPool"}
)

// videoTypes are the supported types of video devices by architecture.
var videoTypes = map[string]valueSet{
	"amd64": {"vga", "cirrus", "virtio", "ramfb", "bochs"},
	"arm64": {"virtio", "ramfb"},
	"s390x": {"virtio"},
}

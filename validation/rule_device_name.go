package validation

var deviceNameRules = []Rule{{
	ID:    "gpu-name-unique",
	Says:  "No two GPUs have the same name.",
	Reach: BeyondKubeVirt,
	Check: gpuNameUnique,
}, {
	ID:    "host-device-name-unique",
	Says:  "No two host devices have the same name.",
	Reach: BeyondKubeVirt,
	Check: hostDeviceNameUnique,
}, {
	ID:    "filesystem-name-unique",
	Says:  "No two file systems have the same name.",
	Reach: BeyondKubeVirt,
	Check: filesystemNameUnique,
}, {
	ID:    "input-name-unique",
	Says:  "No two input devices have the same name.",
	Reach: BeyondKubeVirt,
	Check: inputNameUnique,
}}

// namesUnique reports the elements of a list of devices whose name an earlier one has.
func namesUnique(m *Machine, r *Report, list string, length int, name func(i int) string) {
	for i, first := range repeated(length, name) {
		r.Add(duplicate(m.Device(list).Index(i).Child("name"), name(i), list, first))
	}
}

func gpuNameUnique(m *Machine, r *Report) {
	gpus := m.Spec.Domain.Devices.GPUs
	namesUnique(m, r, "gpus", len(gpus), func(i int) string { return gpus[i].Name })
}

func hostDeviceNameUnique(m *Machine, r *Report) {
	devices := m.Spec.Domain.Devices.HostDevices
	namesUnique(m, r, "hostDevices", len(devices), func(i int) string { return devices[i].Name })
}

func filesystemNameUnique(m *Machine, r *Report) {
	filesystems := m.Spec.Domain.Devices.Filesystems
	namesUnique(m, r, "filesystems", len(filesystems), func(i int) string { return filesystems[i].Name })
}

func inputNameUnique(m *Machine, r *Report) {
	inputs := m.Spec.Domain.Devices.Inputs
	namesUnique(m, r, "inputs", len(inputs), func(i int) string { return inputs[i].Name })
}

package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/domain"
)

func TestDevices(t *testing.T) {
	devices := &kubevirtv1.Devices{
		GPUs: []kubevirtv1.GPU{{Name: "a", DeviceName: "nvidia.com/T4"}, {Name: "b", DeviceName: "nvidia.com/T4"}, {Name: "c", DeviceName: "nvidia.com/T4"}},
		HostDevices: []kubevirtv1.HostDevice{
			{Name: "v", DeviceName: "intel.com/gvt-g_2"}, {Name: "none", DeviceName: "intel.com/none"},
		},
	}
	env := map[string]string{
		"PCI_RESOURCE_NVIDIA_COM_T4": "0000:81:00.0,0000:82:00.0", "MDEV_PCI_RESOURCE_INTEL_COM_GVT_G_2": "c0ffee00-0000-0000-0000-000000000000",
	}
	want := map[string]domain.DeviceFacts{
		"a": {PCI: "0000:81:00.0"}, "b": {PCI: "0000:82:00.0"}, "v": {MDev: "c0ffee00-0000-0000-0000-000000000000"},
	}
	if diff := cmp.Diff(want, Devices(devices, func(name string) string { return env[name] })); diff != "" {
		t.Error(diff)
	}
}

package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// An architecture is what differs between architectures of guests.
type architecture struct {
	// name is Kubernetes' name.
	name string
	// libvirt is libvirt's and QEMU's name.
	libvirt string
	// machine is the alias of KubeVirt's default machine type.
	machine string
	// virtio and transitional are the models of virtio devices.
	virtio, transitional string
	// scsi is the model of the SCSI controller; empty is that of virtio devices.
	scsi string
	// video is KubeVirt's default adapter.
	video string
	// smbios, acpi and hyperv say whether guests have them.
	smbios, acpi, hyperv bool
	// optionROM says that network adapters have one that can be switched off.
	optionROM bool
	// usb says that there is always a USB controller, keyboard and tablet with
	// graphics.
	usb bool
	// watchdog is the model that guests have; empty is none.
	watchdog string
	// firmware is where Debian has UEFI for it.
	firmware []Firmware
}

// architectures are those that KubeVirt's converter knows.
var architectures = []*architecture{
	{
		name: string(v1alpha1.ArchitectureAMD64), libvirt: "x86_64", machine: "q35",
		virtio: "virtio-non-transitional", transitional: "virtio-transitional", video: "vga",
		smbios: true, acpi: true, hyperv: true, optionROM: true, watchdog: "i6300esb",
		firmware: []Firmware{
			{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF_CODE_4M.fd", Vars: "/usr/share/OVMF/OVMF_VARS_4M.fd"},
			{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd", Vars: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd", Secure: true},
		},
	},
	{
		name: string(v1alpha1.ArchitectureARM64), libvirt: "aarch64", machine: "virt",
		virtio: "virtio-non-transitional", transitional: "virtio-transitional", video: "virtio",
		smbios: true, acpi: true, optionROM: true, usb: true,
		firmware: []Firmware{{Architecture: "arm64", Code: "/usr/share/AAVMF/AAVMF_CODE.fd", Vars: "/usr/share/AAVMF/AAVMF_VARS.fd"}},
	},
	{
		name: string(v1alpha1.ArchitectureS390X), libvirt: "s390x", machine: "s390-ccw-virtio",
		virtio: "virtio", transitional: "virtio", scsi: "virtio-scsi", video: "virtio",
		watchdog: "diag288",
	},
}

// architectureOf is the architecture of a guest; empty is amd64.
func architectureOf(name string) (*architecture, *field.Error) {
	if name == "" {
		name = string(v1alpha1.ArchitectureAMD64)
	}
	known := make([]string, 0, len(architectures))
	for _, a := range architectures {
		if a.name == name {
			return a, nil
		}
		known = append(known, a.name)
	}
	slices.Sort(known)
	return nil, field.NotSupported(field.NewPath("spec", "architecture"), name, known)
}

package domain

import (
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// builtinFrontend is what KubeVirt chooses.
func builtinFrontend() v1alpha1.FrontendSettings {
	return v1alpha1.FrontendSettings{
		GuestFamily:    v1alpha1.GuestFamilyOther,
		SMBIOS:         &v1alpha1.SMBIOS{Manufacturer: "KubeVirt", Family: "KubeVirt", Product: "None"},
		VMPort:         new(false),
		Virtio:         v1alpha1.VirtioNonTransitional,
		RNG:            new(false),
		Balloon:        &v1alpha1.Balloon{FreePageReporting: new(true)},
		Video:          &v1alpha1.Video{VRAM: 16384},
		USBController:  v1alpha1.ControllerAsNeeded,
		SCSIController: v1alpha1.ControllerAlways,
		GuestAgent:     new(true),
		NetworkBoot:    new(false),
	}
}

// builtinBackend is what KubeVirt chooses, in the places where its pods have
// things.
func builtinBackend() v1alpha1.BackendSettings {
	return v1alpha1.BackendSettings{
		SoftwareEmulation: v1alpha1.SoftwareEmulationForbid,
		Disks: &v1alpha1.DiskBacking{
			Discard: "unmap", ErrorPolicy: kubevirtv1.DiskErrorPolicyStop, IOThreads: new(int32(0)),
		},
		CPU: &v1alpha1.CPUBacking{},
		Memory: &v1alpha1.MemoryBacking{
			Source: v1alpha1.MemoryAnonymous, Locked: new(false), Preallocated: new(false), Mergeable: new(true),
		},
		Networks:            []v1alpha1.NetworkRule{{Network: "*", Type: v1alpha1.NetworkTap}},
		Entropy:             "/dev/urandom",
		BalloonStatsSeconds: new(int32(10)),
		SerialLog:           new(true),
		Paths: &v1alpha1.Paths{
			Sockets:       "/var/run/kubevirt-private/{uid}",
			NVRAM:         "/var/lib/libvirt/qemu/nvram/{name}_VARS.fd",
			HostDisk:      "/var/run/kubevirt-private/vmi-disks/{volume}/{base}",
			Claim:         "/var/run/kubevirt-private/vmi-disks/{volume}/disk.img",
			BlockClaim:    "/dev/{volume}",
			ContainerDisk: "/var/run/kubevirt/container-disks/disk_{index}.img",
			Overlay:       "/var/run/libvirt/kubevirt-ephemeral-disk/{volume}/disk.qcow2",
			EmptyDisk:     "/var/run/libvirt/empty-disks/{volume}.qcow2",
			CloudInit:     "/var/run/libvirt/cloud-init-dir/{namespace}/{name}/{format}.iso",
			Data:          "/var/run/kubevirt-private/{folder}/{file}",
		},
	}
}

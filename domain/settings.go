package domain

import (
	"reflect"

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
			HostDisk:      "/var/run/kubevirt-private/vmi-disks/{volume}/disk.img",
			Claim:         "/var/run/kubevirt-private/vmi-disks/{volume}/disk.img",
			BlockClaim:    "/dev/{volume}",
			ContainerDisk: "/var/run/kubevirt/container-disks/disk_{index}.img",
			Overlay:       "/var/run/libvirt/kubevirt-ephemeral-disk/{volume}/disk.qcow2",
			EmptyDisk:     "/var/run/libvirt/empty-disks/{volume}.qcow2",
			CloudInit:     "/var/run/libvirt/cloud-init-dir/{namespace}/{name}/{format}.iso",
			Data:          "/var/run/kubevirt-private/{kind}-disks/{volume}.iso",
		},
	}
}

// familyTimers are the timers that a family of guests is known to want.
func familyTimers(family v1alpha1.GuestFamily) *kubevirtv1.Timer {
	if family != v1alpha1.GuestFamilyLinux && family != v1alpha1.GuestFamilyWindows {
		return nil
	}
	timers := &kubevirtv1.Timer{
		RTC:  &kubevirtv1.RTCTimer{TickPolicy: kubevirtv1.RTCTickPolicyCatchup},
		PIT:  &kubevirtv1.PITTimer{TickPolicy: kubevirtv1.PITTickPolicyDelay},
		HPET: &kubevirtv1.HPETTimer{Enabled: new(false)},
	}
	if family == v1alpha1.GuestFamilyWindows {
		timers.Hyperv = &kubevirtv1.HypervTimer{}
	}
	return timers
}

// familyHyperV are the enlightenments that a family of guests is known to
// want: those that KubeVirt's own Windows example and its documentation name.
func familyHyperV(family v1alpha1.GuestFamily) *kubevirtv1.FeatureHyperv {
	if family != v1alpha1.GuestFamilyWindows {
		return nil
	}
	return &kubevirtv1.FeatureHyperv{
		Relaxed: &kubevirtv1.FeatureState{}, VAPIC: &kubevirtv1.FeatureState{},
		Spinlocks: &kubevirtv1.FeatureSpinlocks{Retries: new(uint32(8191))},
		VPIndex:   &kubevirtv1.FeatureState{}, Runtime: &kubevirtv1.FeatureState{}, SyNIC: &kubevirtv1.FeatureState{},
		SyNICTimer: &kubevirtv1.SyNICTimer{}, Frequencies: &kubevirtv1.FeatureState{}, Reset: &kubevirtv1.FeatureState{},
	}
}

// completed is a copy of an instance in which the frontend settings have
// filled what the instance itself can say and has not said.
func completed(vmi *kubevirtv1.VirtualMachineInstance, settings *v1alpha1.FrontendSettings) *kubevirtv1.VirtualMachineInstance {
	out := vmi.DeepCopy()
	completeTimers(&out.Spec.Domain, settings)
	if arch, err := architectureOf(out.Spec.Architecture); err == nil && arch.hyperv {
		completeHyperV(&out.Spec.Domain, settings)
	}
	return out
}

func completeTimers(domain *kubevirtv1.DomainSpec, settings *v1alpha1.FrontendSettings) {
	for _, timers := range []*kubevirtv1.Timer{settings.Timers, familyTimers(settings.GuestFamily)} {
		if timers == nil {
			continue
		}
		if domain.Clock == nil {
			domain.Clock = &kubevirtv1.Clock{ClockOffset: kubevirtv1.ClockOffset{UTC: &kubevirtv1.ClockOffsetUTC{}}}
		}
		fill(reflect.ValueOf(&domain.Clock.Timer).Elem(), reflect.ValueOf(timers))
	}
}

// completeHyperV leaves instances alone that take what the host offers.
func completeHyperV(domain *kubevirtv1.DomainSpec, settings *v1alpha1.FrontendSettings) {
	if domain.Features != nil && domain.Features.HypervPassthrough != nil {
		return
	}
	for _, hyperv := range []*kubevirtv1.FeatureHyperv{settings.HyperV, familyHyperV(settings.GuestFamily)} {
		if hyperv == nil {
			continue
		}
		if domain.Features == nil {
			domain.Features = &kubevirtv1.Features{}
		}
		fill(reflect.ValueOf(&domain.Features.Hyperv).Elem(), reflect.ValueOf(hyperv))
	}
}

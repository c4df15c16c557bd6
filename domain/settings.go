package domain

import (
	"reflect"
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// builtinFrontend returns KubeVirt's choices.
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

// builtinBackend returns KubeVirt's choices, with the paths of its pods.
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

// familyTimers returns the recommended timers of a family of guests.
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

// familyHyperV returns the recommended enlightenments of a family of guests: those of KubeVirt's
// Windows example and documentation.
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

// expand makes settings explicit, so that they can be merged field by field: a guest family becomes
// timers and enlightenments, and {} becomes an enabled one.
func expand(s *v1alpha1.FrontendSettings) {
	fill(reflect.ValueOf(&s.Timers).Elem(), reflect.ValueOf(familyTimers(s.GuestFamily)))
	fill(reflect.ValueOf(&s.HyperV).Elem(), reflect.ValueOf(familyHyperV(s.GuestFamily)))
	enable(reflect.ValueOf(s.Timers))
	enable(reflect.ValueOf(s.HyperV))
}

// enable sets every Enabled below a value that is not set.
func enable(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		enable(v.Elem())
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if field.Name == "Enabled" && value.IsNil() {
				value.Set(reflect.ValueOf(new(true)))
			} else {
				enable(value)
			}
		}
	}
}

// completed returns a copy of a VMI with the timers and enlightenments of the frontend settings
// that the VMI does not set itself. Only guests of amd64 have them.
func completed(vmi *kubevirtv1.VirtualMachineInstance, settings *v1alpha1.FrontendSettings) *kubevirtv1.VirtualMachineInstance {
	out := vmi.DeepCopy()
	arch, err := architectureOf(out.Spec.Architecture)
	if err != nil || !arch.hyperv {
		return out
	}
	settings = settings.DeepCopy()
	expand(settings)
	domain := &out.Spec.Domain
	if settings.Timers != nil {
		if domain.Clock == nil {
			domain.Clock = &kubevirtv1.Clock{ClockOffset: kubevirtv1.ClockOffset{UTC: &kubevirtv1.ClockOffsetUTC{}}}
		}
		enable(reflect.ValueOf(domain.Clock.Timer))
		fill(reflect.ValueOf(&domain.Clock.Timer).Elem(), reflect.ValueOf(settings.Timers))
	}
	if settings.HyperV != nil {
		completeHyperV(domain, settings.HyperV)
	}
	return out
}

// completeHyperV adds enlightenments of the settings to a VMI, unless it passes through those of
// the host. It also adds the enlightenments that they require, and omits those that require one
// that the VMI disables.
func completeHyperV(domain *kubevirtv1.DomainSpec, settings *kubevirtv1.FeatureHyperv) {
	domain.Features = orNew(domain.Features)
	f := domain.Features
	if p := f.HypervPassthrough; p != nil && on(&kubevirtv1.FeatureState{Enabled: p.Enabled}) {
		return
	}
	own := orNew(f.Hyperv)
	enable(reflect.ValueOf(own))
	all := own.DeepCopy()
	fill(reflect.ValueOf(all).Elem(), reflect.ValueOf(settings).Elem())
	meetNeeds(all, own)
	f.Hyperv = all
	if on(all.EVMCS) && !on(own.EVMCS) {
		requireVMX(domain)
	}
}

// meetNeeds adds what enlightenments require that are not the VMI's own, or removes them if it is
// disabled.
func meetNeeds(all, own *kubevirtv1.FeatureHyperv) {
	for _, n := range hypervNeeds {
		need := n.need(all)
		switch {
		case !n.wants(all) || n.wants(own):
		case *need == nil:
			*need = &kubevirtv1.FeatureState{Enabled: new(true)}
		case !on(*need):
			n.drop(all)
		}
	}
}

// requireVMX enables nested virtualization, which the enlightened VMCS is for.
func requireVMX(domain *kubevirtv1.DomainSpec) {
	domain.CPU = orNew(domain.CPU)
	vmx := func(f kubevirtv1.CPUFeature) bool { return f.Name == "vmx" }
	if !slices.ContainsFunc(domain.CPU.Features, vmx) {
		domain.CPU.Features = append(domain.CPU.Features, kubevirtv1.CPUFeature{Name: "vmx", Policy: "require"})
	}
}

// hypervNeeds are the enlightenments that need another one, as in KubeVirt's defaults. The order
// resolves chains.
var hypervNeeds = []struct {
	wants func(*hyperv) bool
	drop  func(*hyperv)
	need  func(*hyperv) **kubevirtv1.FeatureState
}{
	{func(h *hyperv) bool { return on(h.SyNIC) }, func(h *hyperv) { h.SyNIC = nil }, vpIndex},
	{func(h *hyperv) bool { return h.SyNICTimer != nil && on(&h.SyNICTimer.FeatureState) }, func(h *hyperv) { h.SyNICTimer = nil }, synic},
	// A timer may have added it.
	{func(h *hyperv) bool { return on(h.SyNIC) }, func(h *hyperv) { h.SyNIC, h.SyNICTimer = nil, nil }, vpIndex},
	{func(h *hyperv) bool { return on(h.IPI) }, func(h *hyperv) { h.IPI = nil }, vpIndex},
	{func(h *hyperv) bool { return h.TLBFlush != nil && on(&h.TLBFlush.FeatureState) }, func(h *hyperv) { h.TLBFlush = nil }, vpIndex},
	{func(h *hyperv) bool { return on(h.EVMCS) }, func(h *hyperv) { h.EVMCS = nil }, vapic},
}

type hyperv = kubevirtv1.FeatureHyperv

func vpIndex(h *hyperv) **kubevirtv1.FeatureState { return &h.VPIndex }
func synic(h *hyperv) **kubevirtv1.FeatureState   { return &h.SyNIC }
func vapic(h *hyperv) **kubevirtv1.FeatureState   { return &h.VAPIC }

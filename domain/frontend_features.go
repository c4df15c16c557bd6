package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// features switches what the platform offers beside devices. ACPI is on where
// nothing is said.
func (g *guest) features() {
	f := g.spec.Domain.Features
	if f == nil {
		f = &kubevirtv1.Features{}
	}
	out := &libvirtxml.DomainFeatureList{}
	if on(&f.ACPI) && g.arch.acpi {
		out.ACPI = &libvirtxml.DomainFeature{}
	}
	out.APIC = apic(f.APIC)
	if on(f.SMM) {
		out.SMM = &libvirtxml.DomainFeatureSMM{}
	}
	if f.Pvspinlock != nil {
		out.PVSpinlock = state(on(f.Pvspinlock))
	}
	if g.arch.hyperv {
		out.VMPort = state(ptr.Deref(g.settings.VMPort, false))
	} else {
		g.refuseForeign(f)
	}
	g.kvmFeatures(f, out)
	if g.needsNoPMU() {
		out.PMU = state(false)
	}
	g.domain.Features = out
}

// apic is the interrupt controller; nil where it is not asked for.
func apic(f *kubevirtv1.FeatureAPIC) *libvirtxml.DomainFeatureAPIC {
	if f == nil || !ptr.Deref(f.Enabled, true) {
		return nil
	}
	out := &libvirtxml.DomainFeatureAPIC{}
	if f.EndOfInterrupt {
		out.EOI = "on"
	}
	return out
}

// kvmFeatures hide the hypervisor, or tell the guest that its processors are
// its own.
func (g *guest) kvmFeatures(f *kubevirtv1.Features, out *libvirtxml.DomainFeatureList) {
	dedicated := g.spec.Domain.CPU != nil && g.spec.Domain.CPU.DedicatedCPUPlacement
	if f.KVM == nil && !dedicated {
		return
	}
	out.KVM = &libvirtxml.DomainFeatureKVM{}
	if f.KVM != nil {
		out.KVM.Hidden = state(f.KVM.Hidden)
	}
	if dedicated {
		out.KVM.HintDedicated = state(true)
	}
}

// needsNoPMU says whether the guest must not count events: interrupts of a
// performance monitor ruin real time, and TDX guests cannot have one.
func (g *guest) needsNoPMU() bool {
	realtime := g.spec.Domain.CPU != nil && g.spec.Domain.CPU.Realtime != nil
	return realtime || g.spec.Domain.LaunchSecurity != nil && g.spec.Domain.LaunchSecurity.TDX != nil
}

// refuseForeign refuses features that only amd64 has.
func (g *guest) refuseForeign(f *kubevirtv1.Features) {
	at := field.NewPath("spec", "domain", "features")
	for _, one := range []struct {
		name  string
		asked bool
	}{
		{"apic", f.APIC != nil}, {"smm", on(f.SMM)}, {"pvspinlock", f.Pvspinlock != nil},
		{"hyperv", f.Hyperv != nil}, {"hypervPassthrough", f.HypervPassthrough != nil},
	} {
		if one.asked {
			g.refuse(field.Forbidden(at.Child(one.name), "guests of "+g.arch.name+" do not have it; remove it"))
		}
	}
}

func state(b bool) *libvirtxml.DomainFeatureState {
	return &libvirtxml.DomainFeatureState{State: onOff(b)}
}

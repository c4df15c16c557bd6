package domain

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// features sets the features of the platform. ACPI is the default.
func (g *guest) features() {
	f := orNew(g.spec.Domain.Features)
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
		g.rejectAMD64Features(f)
	}
	g.kvmFeatures(f, out)
	if noPMU(&g.spec.Domain) {
		out.PMU = state(false)
	}
	g.domain.Features = out
}

// noPMU reports whether a guest must not count events: interrupts of a PMU ruin real time, and TDX
// guests cannot have one.
func noPMU(d *kubevirtv1.DomainSpec) bool {
	return d.CPU != nil && d.CPU.Realtime != nil || d.LaunchSecurity != nil && d.LaunchSecurity.TDX != nil
}

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

// kvmFeatures hides the hypervisor, or announces to the guest that its CPUs are dedicated, which
// QEMU can do on amd64 only.
func (g *guest) kvmFeatures(f *kubevirtv1.Features, out *libvirtxml.DomainFeatureList) {
	dedicated := g.arch.name == "amd64" && g.spec.Domain.CPU != nil && g.spec.Domain.CPU.DedicatedCPUPlacement
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

func (g *guest) rejectAMD64Features(f *kubevirtv1.Features) {
	at := field.NewPath("spec", "domain", "features")
	for _, one := range []struct {
		name  string
		asked bool
	}{
		{"apic", f.APIC != nil}, {"smm", on(f.SMM)}, {"pvspinlock", f.Pvspinlock != nil},
		{"hyperv", f.Hyperv != nil}, {"hypervPassthrough", f.HypervPassthrough != nil},
	} {
		if one.asked {
			g.reject(field.Forbidden(at.Child(one.name), "guests of "+g.arch.name+" do not have it; remove it"))
		}
	}
}

func state(b bool) *libvirtxml.DomainFeatureState {
	return &libvirtxml.DomainFeatureState{State: onOff(b)}
}

// KubeVirt's default, and the limits of libvirt.
const (
	spinlockRetries = 4096
	leastRetries    = 4095
	maxVendor       = 12
)

// hyperv sets the Hyper-V enlightenments that the VMI names, or passes through those of the host.
func (g *guest) hyperv() {
	f := g.spec.Domain.Features
	if f == nil || !g.arch.hyperv {
		return
	}
	if p := f.HypervPassthrough; p != nil && ptr.Deref(p.Enabled, true) {
		at := field.NewPath("spec", "domain", "features", "hypervPassthrough")
		if f.Hyperv != nil {
			g.reject(field.Forbidden(at, "hyperv is set as well; remove one of the two"))
			return
		}
		g.domain.Features.HyperV = &libvirtxml.DomainFeatureHyperV{Mode: "passthrough"}
		g.leaveToHost(kindHyperVPassthrough, at, "")
		return
	}
	if f.Hyperv != nil {
		g.checkEnlightenments(f.Hyperv)
		g.domain.Features.HyperV = enlightenments(f.Hyperv)
	}
}

// checkEnlightenments rejects what libvirt rejects: it ignores retries that are disabled, but
// always checks the vendor ID.
func (g *guest) checkEnlightenments(in *kubevirtv1.FeatureHyperv) {
	at := field.NewPath("spec", "domain", "features", "hyperv")
	if s := in.Spinlocks; s != nil && on(&s.FeatureState) && ptr.Deref(s.Retries, spinlockRetries) < leastRetries {
		g.reject(field.Invalid(at.Child("spinlocks", "spinlocks"), *s.Retries, fmt.Sprintf("must be at least %d", leastRetries)))
	}
	v, at := in.VendorID, at.Child("vendorid", "vendorid")
	switch {
	case v == nil:
	case v.VendorID == "" && on(&v.FeatureState):
		g.reject(field.Required(at, fmt.Sprintf("must be the vendor ID that the guest sees, at most %d characters", maxVendor)))
	case len(v.VendorID) > maxVendor || strings.Contains(v.VendorID, ","):
		g.reject(field.Invalid(at, v.VendorID, fmt.Sprintf("must be at most %d characters, without commas", maxVendor)))
	}
}

// enlightenments translates KubeVirt's names to libvirt's.
func enlightenments(in *kubevirtv1.FeatureHyperv) *libvirtxml.DomainFeatureHyperV {
	out := &libvirtxml.DomainFeatureHyperV{
		Relaxed: stateOf(in.Relaxed), VAPIC: stateOf(in.VAPIC), VPIndex: stateOf(in.VPIndex), Runtime: stateOf(in.Runtime),
		Synic: stateOf(in.SyNIC), Reset: stateOf(in.Reset), Frequencies: stateOf(in.Frequencies),
		ReEnlightenment: stateOf(in.Reenlightenment), IPI: stateOf(in.IPI), EVMCS: stateOf(in.EVMCS),
	}
	if s := in.Spinlocks; s != nil {
		out.Spinlocks = &libvirtxml.DomainFeatureHyperVSpinlocks{DomainFeatureState: *stateOf(&s.FeatureState)}
		if on(&s.FeatureState) {
			out.Spinlocks.Retries = uint(ptr.Deref(s.Retries, spinlockRetries))
		}
	}
	if s := in.SyNICTimer; s != nil {
		out.STimer = &libvirtxml.DomainFeatureHyperVSTimer{DomainFeatureState: *stateOf(&s.FeatureState), Direct: stateOf(s.Direct)}
	}
	if v := in.VendorID; v != nil {
		out.VendorId = &libvirtxml.DomainFeatureHyperVVendorId{DomainFeatureState: *stateOf(&v.FeatureState), Value: v.VendorID}
	}
	if t := in.TLBFlush; t != nil {
		out.TLBFlush = &libvirtxml.DomainFeatureHyperVTLBFlush{
			DomainFeatureState: *stateOf(&t.FeatureState), Direct: stateOf(t.Direct), Extended: stateOf(t.Extended),
		}
	}
	return out
}

// stateOf is the state of a feature; nil if the VMI does not set it.
func stateOf(f *kubevirtv1.FeatureState) *libvirtxml.DomainFeatureState {
	if f == nil {
		return nil
	}
	return state(on(f))
}

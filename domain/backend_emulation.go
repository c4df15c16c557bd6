package domain

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// Why something is lost under software emulation.
const (
	refusedByQEMU = "QEMU refuses to start a guest with it that it emulates in software"
	needsVPIndex  = "it needs vpindex, with which QEMU does not start a guest that it emulates in software"
	notOffered    = "QEMU offers none of it to a guest that it emulates in software"
	noFrequency   = "an emulated counter has no frequency of its own"
)

// A loss is something of a guest's features that only hardware virtualization
// can give it.
type loss struct {
	field, element, why string
	// drop takes it away and says whether it was there.
	drop func(*libvirtxml.DomainFeatureList) bool
}

// losses are what guests do not start with, as was tried with QEMU 7.2 and
// libvirt 9.0, what needs it, and what starts and comes to nothing: QEMU tells
// no emulated guest of Hyper-V or KVM (hw/i386, target/i386/kvm), so that the
// guest finds bare hardware whatever the XML says.
var losses = []loss{
	hypervLoss("relaxed", "relaxed", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.Relaxed) }),
	hypervLoss("vapic", "vapic", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.VAPIC) }),
	hypervLoss("spinlocks", "spinlocks", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.Spinlocks, f.Spinlocks != nil && isOn(&f.Spinlocks.DomainFeatureState))
	}),
	hypervLoss("vpindex", "vpindex", refusedByQEMU, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.VPIndex) }),
	hypervLoss("runtime", "runtime", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.Runtime) }),
	hypervLoss("synic", "synic", needsVPIndex, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.Synic) }),
	hypervLoss("synictimer", "stimer", needsVPIndex, func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.STimer, f.STimer != nil && isOn(&f.STimer.DomainFeatureState))
	}),
	hypervLoss("reset", "reset", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.Reset) }),
	hypervLoss("vendorid", "vendor_id", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.VendorId, f.VendorId != nil && isOn(&f.VendorId.DomainFeatureState))
	}),
	hypervLoss("frequencies", "frequencies", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.Frequencies) }),
	hypervLoss("reenlightenment", "reenlightenment", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.ReEnlightenment) }),
	hypervLoss("tlbflush", "tlbflush", needsVPIndex, func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.TLBFlush, f.TLBFlush != nil && isOn(&f.TLBFlush.DomainFeatureState))
	}),
	hypervLoss("ipi", "ipi", needsVPIndex, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.IPI) }),
	hypervLoss("evmcs", "evmcs", notOffered, func(f *libvirtxml.DomainFeatureHyperV) bool { return dropState(&f.EVMCS) }),
	{"spec.domain.features.hypervPassthrough", "features/hyperv", notOffered, func(f *libvirtxml.DomainFeatureList) bool {
		return drop(&f.HyperV, f.HyperV != nil && f.HyperV.Mode == "passthrough")
	}},
	{"spec.domain.features.pvspinlock", "features/pvspinlock", refusedByQEMU, func(f *libvirtxml.DomainFeatureList) bool {
		return dropState(&f.PVSpinlock)
	}},
	{"spec.domain.features.apic.endOfInterrupt", "features/apic/@eoi", notOffered, func(f *libvirtxml.DomainFeatureList) bool {
		if f.APIC == nil || f.APIC.EOI != "on" {
			return false
		}
		f.APIC.EOI = ""
		return true
	}},
	{"spec.domain.cpu.dedicatedCpuPlacement", "features/kvm/hint-dedicated", notOffered, func(f *libvirtxml.DomainFeatureList) bool {
		return f.KVM != nil && dropState(&f.KVM.HintDedicated)
	}},
}

// hypervLoss is that of one of Hyper-V's enlightenments: KubeVirt's name of it,
// libvirt's, and why.
func hypervLoss(name, element, why string, drop func(*libvirtxml.DomainFeatureHyperV) bool) loss {
	return loss{"spec.domain.features.hyperv." + name, "features/hyperv/" + element, why, ofHyperV(drop)}
}

func ofHyperV(drop func(*libvirtxml.DomainFeatureHyperV) bool) func(*libvirtxml.DomainFeatureList) bool {
	return func(f *libvirtxml.DomainFeatureList) bool { return f.HyperV != nil && drop(f.HyperV) }
}

// isOn says whether a feature is on. One that is off costs nothing.
func isOn(f *libvirtxml.DomainFeatureState) bool { return f != nil && f.State == "on" }

// dropState takes a feature away that is on, and says whether it was.
func dropState(f **libvirtxml.DomainFeatureState) bool { return drop(f, isOn(*f)) }

// drop takes an element away if it is there, and says whether it was.
func drop[T any](element **T, there bool) bool {
	if there {
		*element = nil
	}
	return there
}

// emulation takes away what a guest cannot have when its processors are
// emulated, and says so. Memory that is encrypted by the processor cannot be
// replaced, and is refused. KubeVirt has no such rule: such guests do not
// start, or never learn what they are without.
func (h *host) emulation() {
	if !h.emulated {
		return
	}
	if h.spec.Domain.LaunchSecurity != nil {
		h.refuse(field.Forbidden(field.NewPath("spec", "domain", "launchSecurity"), "it needs a processor that encrypts memory, and the guest would be emulated in software"))
	}
	if f := h.domain.Features; f != nil {
		for _, l := range losses {
			if l.drop(f) {
				h.decide(Decision{Field: l.field, Element: l.element, Reason: l.why, Degraded: true})
			}
		}
		f.HyperV, f.KVM = unlessEmpty(f.HyperV), unlessEmpty(f.KVM)
	}
	h.emulatedTimers()
	h.emulatedCPU()
	h.emulatedFeatures()
}

// emulatedTimers takes away the clocks that KVM and Hyper-V have for their
// guests.
func (h *host) emulatedTimers() {
	if h.domain.Clock == nil {
		return
	}
	for _, timer := range []struct{ name, field string }{{"kvmclock", "kvm"}, {"hypervclock", "hyperv"}} {
		at := slices.IndexFunc(h.domain.Clock.Timer, func(t libvirtxml.DomainTimer) bool { return t.Name == timer.name && t.Present != "no" })
		if at < 0 {
			continue
		}
		h.domain.Clock.Timer = slices.Delete(h.domain.Clock.Timer, at, at+1)
		h.decide(Decision{
			Field: "spec.domain.clock.timer." + timer.field, Element: "clock/timer[@name='" + timer.name + "']", Reason: notOffered, Degraded: true,
		})
	}
}

// unlessEmpty is nil where there is nothing in what is pointed to.
func unlessEmpty[T any](of *T) *T {
	if of == nil || reflect.ValueOf(of).Elem().IsZero() {
		return nil
	}
	return of
}

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

// losses are what was tried with QEMU 7.2 and libvirt 9.0 and did not start,
// and what needs it. With every other feature guests start.
var losses = []loss{
	{"spec.domain.features.hyperv.vpindex", "features/hyperv/vpindex", refusedByQEMU, ofHyperV(func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.VPIndex, isOn(f.VPIndex))
	})},
	{"spec.domain.features.hyperv.synic", "features/hyperv/synic", needsVPIndex, ofHyperV(func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.Synic, isOn(f.Synic))
	})},
	{"spec.domain.features.hyperv.synictimer", "features/hyperv/stimer", needsVPIndex, ofHyperV(func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.STimer, f.STimer != nil && isOn(&f.STimer.DomainFeatureState))
	})},
	{"spec.domain.features.hyperv.tlbflush", "features/hyperv/tlbflush", needsVPIndex, ofHyperV(func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.TLBFlush, f.TLBFlush != nil && isOn(&f.TLBFlush.DomainFeatureState))
	})},
	{"spec.domain.features.hyperv.ipi", "features/hyperv/ipi", needsVPIndex, ofHyperV(func(f *libvirtxml.DomainFeatureHyperV) bool {
		return drop(&f.IPI, isOn(f.IPI))
	})},
	{"spec.domain.features.hypervPassthrough", "features/hyperv", notOffered, func(f *libvirtxml.DomainFeatureList) bool {
		return drop(&f.HyperV, f.HyperV != nil && f.HyperV.Mode == "passthrough")
	}},
	{"spec.domain.features.pvspinlock", "features/pvspinlock", refusedByQEMU, func(f *libvirtxml.DomainFeatureList) bool {
		return drop(&f.PVSpinlock, isOn(f.PVSpinlock))
	}},
}

func ofHyperV(drop func(*libvirtxml.DomainFeatureHyperV) bool) func(*libvirtxml.DomainFeatureList) bool {
	return func(f *libvirtxml.DomainFeatureList) bool { return f.HyperV != nil && drop(f.HyperV) }
}

// isOn says whether a feature is on. One that is off costs nothing.
func isOn(f *libvirtxml.DomainFeatureState) bool { return f != nil && f.State == "on" }

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
// start.
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
		f.HyperV = unlessEmpty(f.HyperV)
	}
	h.emulatedCPU()
	h.emulatedCounter()
}

// emulatedCPU replaces a processor made after the host's where QEMU has none
// such: it emulates the host's model only on amd64, for guests of amd64.
func (h *host) emulatedCPU() {
	cpu := h.domain.CPU
	if cpu == nil {
		return
	}
	native := h.arch.name == "amd64" && h.facts.Architecture == h.arch.name
	if cpu.Mode != "host-passthrough" && (cpu.Mode != "host-model" || native) {
		return
	}
	h.decide(Decision{
		Field: "spec.domain.cpu.model", Element: "cpu/@mode", Value: "maximum", Degraded: true,
		Reason: cpu.Mode + " cannot be emulated; the guest gets all that QEMU can emulate",
	})
	cpu.Mode, cpu.Migratable, cpu.Check = "maximum", "", ""
}

// emulatedCounter takes away an invariant counter, which libvirt looks for in
// the host.
func (h *host) emulatedCounter() {
	if h.domain.CPU == nil || h.spec.Domain.CPU == nil {
		return
	}
	for i, f := range h.spec.Domain.CPU.Features {
		at := slices.IndexFunc(h.domain.CPU.Features, func(d libvirtxml.DomainCPUFeature) bool {
			return d.Name == "invtsc" && (d.Policy == "require" || d.Policy == "force")
		})
		if f.Name != "invtsc" || at < 0 {
			continue
		}
		h.domain.CPU.Features = slices.Delete(h.domain.CPU.Features, at, at+1)
		h.decide(Decision{
			Field:   field.NewPath("spec", "domain", "cpu", "features").Index(i).String(),
			Element: "cpu/feature[@name='invtsc']", Reason: noFrequency, Degraded: true,
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

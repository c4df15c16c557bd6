package domain

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// accelerator selects hardware virtualization if the host has run guests of this architecture with
// it, or else software emulation if the backend profile allows it. KubeVirt's rule is the same,
// except that it takes the presence of /dev/kvm as proof.
func (h *host) accelerator() {
	h.errs = append(h.errs, h.facts.Check()...)
	h.devices.Emulator = cmp.Or(h.settings.Emulator, h.facts.Emulators[h.arch.name])
	h.domain.Type = "kvm"
	if h.facts.KVM && h.facts.Architecture == h.arch.name {
		return
	}
	why := fmt.Sprintf("the host has no hardware virtualization for %s guests", h.arch.name)
	if h.facts.Architecture != h.arch.name {
		why = fmt.Sprintf("the host is %s", cmp.Or(h.facts.Architecture, "of an unknown architecture"))
	}
	if h.settings.SoftwareEmulation != v1alpha1.SoftwareEmulationAllow {
		h.reject(field.Forbidden(field.NewPath("spec", "architecture"),
			why+", and no backend profile allows software emulation for the VMI (softwareEmulation: Allow)"))
	}
	h.emulated, h.domain.Type = true, "qemu"
	h.decide(Decision{Field: "spec.architecture", Element: "@type", Value: "qemu", Reason: why + "; the guest is emulated, which is slow", Degraded: true})
}

// setDefaults replaces missing settings and facts by empty ones.
func (h *host) setDefaults() {
	if h.facts == nil {
		h.facts = &HostFacts{}
	}
	settings := v1alpha1.BackendSettings{}
	if h.settings != nil {
		settings = *h.settings
	}
	settings.Disks = cmp.Or(settings.Disks, &v1alpha1.DiskBacking{})
	settings.CPU = cmp.Or(settings.CPU, &v1alpha1.CPUBacking{})
	settings.Memory = cmp.Or(settings.Memory, &v1alpha1.MemoryBacking{})
	settings.Paths = cmp.Or(settings.Paths, &v1alpha1.Paths{})
	h.settings = &settings
}

// Reasons to drop a feature under software emulation.
const (
	rejectedByQEMU = "QEMU does not start a guest with it under software emulation"
	needsVPIndex   = "it needs vpindex, with which QEMU does not start a guest under software emulation"
	notOffered     = "QEMU does not offer it under software emulation"
	noFrequency    = "an emulated counter has no frequency of its own"
)

// hypervLosses are Hyper-V's enlightenments by the names of KubeVirt, libvirt's XML and libvirtxml.
// The reasons were found with QEMU 7.2 and libvirt 9.0.
var hypervLosses = []struct{ name, element, goName, reason string }{
	{"relaxed", "relaxed", "Relaxed", notOffered},
	{"vapic", "vapic", "VAPIC", notOffered},
	{"spinlocks", "spinlocks", "Spinlocks", notOffered},
	{"vpindex", "vpindex", "VPIndex", rejectedByQEMU},
	{"runtime", "runtime", "Runtime", notOffered},
	{"synic", "synic", "Synic", needsVPIndex},
	{"synictimer", "stimer", "STimer", needsVPIndex},
	{"reset", "reset", "Reset", notOffered},
	{"vendorid", "vendor_id", "VendorId", notOffered},
	{"frequencies", "frequencies", "Frequencies", notOffered},
	{"reenlightenment", "reenlightenment", "ReEnlightenment", notOffered},
	{"tlbflush", "tlbflush", "TLBFlush", needsVPIndex},
	{"ipi", "ipi", "IPI", needsVPIndex},
	{"evmcs", "evmcs", "EVMCS", notOffered},
}

// emulation drops, and records, what a guest cannot have under software emulation: features with
// which it does not start, and those without an effect, since QEMU announces neither Hyper-V nor
// KVM to emulated guests (hw/i386, target/i386/kvm). Memory encryption cannot be dropped, and is
// rejected. KubeVirt has no such rule: such guests do not start, or lack features silently.
func (h *host) emulation() {
	if !h.emulated {
		return
	}
	if h.spec.Domain.LaunchSecurity != nil {
		h.reject(field.Forbidden(field.NewPath("spec", "domain", "launchSecurity"), "it needs a processor that encrypts memory, and the guest would be emulated in software"))
	}
	if f := h.domain.Features; f != nil {
		h.dropHyperV(f)
		h.dropIf(isOn(f.PVSpinlock), "features.pvspinlock", "features/pvspinlock", rejectedByQEMU, func() { f.PVSpinlock = nil })
		h.dropIf(f.APIC != nil && f.APIC.EOI == "on", "features.apic.endOfInterrupt", "features/apic/@eoi", notOffered, func() { f.APIC.EOI = "" })
		h.dropIf(f.KVM != nil && isOn(f.KVM.HintDedicated), "cpu.dedicatedCpuPlacement", "features/kvm/hint-dedicated", notOffered, func() { f.KVM.HintDedicated = nil })
		f.HyperV, f.KVM = unlessEmpty(f.HyperV), unlessEmpty(f.KVM)
	}
	if c := h.domain.Clock; c != nil {
		for _, timer := range []struct{ name, field string }{{"kvmclock", "kvm"}, {"hypervclock", "hyperv"}} {
			at := slices.IndexFunc(c.Timer, func(t libvirtxml.DomainTimer) bool { return t.Name == timer.name && t.Present != "no" })
			h.dropIf(at >= 0, "clock.timer."+timer.field, "clock/timer[@name='"+timer.name+"']", notOffered, func() { c.Timer = slices.Delete(c.Timer, at, at+1) })
		}
	}
	h.emulatedCPU()
	h.dropFeatures()
}

// dropIf drops a feature of a field below spec.domain, and records it.
func (h *host) dropIf(there bool, name, element, reason string, drop func()) {
	if there {
		drop()
		h.decide(Decision{Field: "spec.domain." + name, Element: element, Reason: reason, Degraded: true})
	}
}

func (h *host) dropHyperV(f *libvirtxml.DomainFeatureList) {
	if f.HyperV == nil {
		return
	}
	features := reflect.ValueOf(f.HyperV).Elem()
	for _, l := range hypervLosses {
		feature := features.FieldByName(l.goName)
		enabled := !feature.IsNil() && feature.Elem().FieldByName("State").String() == "on"
		h.dropIf(enabled, "features.hyperv."+l.name, "features/hyperv/"+l.element, l.reason, feature.SetZero)
	}
	h.dropIf(f.HyperV.Mode == "passthrough", "features.hypervPassthrough", "features/hyperv", notOffered, func() { f.HyperV = nil })
}

func isOn(f *libvirtxml.DomainFeatureState) bool { return f != nil && f.State == "on" }

// unlessEmpty returns nil for a pointer to a zero value.
func unlessEmpty[T any](of *T) *T {
	if of == nil || reflect.ValueOf(of).Elem().IsZero() {
		return nil
	}
	return of
}

// emulatedModel replaces the host's CPU in emulated guests of amd64. With emulatedExtras it has the
// level x86-64-v2, which today's distributions require, and it is the same on every host. The modes
// maximum and host-model depend on QEMU's version and on the host; qemu64 alone is too old; the
// Intel model of the same level, Nehalem, makes Linux guard against Meltdown, which emulation does
// not have.
const emulatedModel = "qemu64"

var emulatedExtras = []string{"lahf_lm", "popcnt", "sse4.1", "sse4.2", "ssse3"}

// emulatedModels are the models that QEMU 7.2 emulates completely: QEMU reports no unavailable
// features, and libvirt 9.0 disables none. QEMU omits some features of other models.
var emulatedModels = []string{"Conroe", "Nehalem", "Opteron_G1", "Penryn", "Westmere", "kvm32", "kvm64", "qemu32", "qemu64"}

// emulatedFeatures are the features that QEMU 7.2 emulates (query-cpu-model-expansion of max), with
// libvirt's names.
var emulatedFeatures = []string{
	"3dnow", "3dnowext", "abm", "acpi", "adx", "aes", "apic", "arat", "avx", "avx2", "bmi1", "bmi2", "clflush", "clflushopt",
	"clwb", "cmov", "cr8legacy", "cx16", "cx8", "de", "erms", "f16c", "fma", "fpu", "fsgsbase", "fxsr", "hypervisor", "la57",
	"lahf_lm", "lm", "mca", "mce", "mmx", "mmxext", "monitor", "movbe", "mpx", "msr", "mtrr", "npt", "nx", "pae", "pat",
	"pclmuldq", "pcommit", "pdpe1gb", "pge", "pks", "pku", "pni", "popcnt", "pse", "pse36", "rdrand", "rdtscp", "sep", "smap",
	"smep", "ss", "sse", "sse2", "sse4.1", "sse4.2", "sse4a", "ssse3", "svm", "svme-addr-chk", "syscall", "tsc", "umip",
	"vaes", "vgif", "xgetbv1", "xsave", "xsaveopt",
}

// emulatedCPU replaces a CPU like the host's, which differs between hosts and which QEMU can rarely
// emulate. Guests of other architectures than amd64 get all that QEMU can emulate.
func (h *host) emulatedCPU() {
	cpu := h.domain.CPU
	if cpu == nil {
		return
	}
	likeHost := cpu.Mode == "host-passthrough" || cpu.Mode == "host-model"
	switch {
	case likeHost && h.arch.name == "amd64":
		h.decide(Decision{
			Field: "spec.domain.cpu.model", Element: "cpu/model", Value: emulatedModel, Degraded: true,
			Reason: cpu.Mode + " differs between hosts; an emulated guest gets the same CPU everywhere, of the level x86-64-v2",
		})
		cpu.Mode, cpu.Migratable, cpu.Check, cpu.Model = "custom", "", "", &libvirtxml.DomainCPUModel{Value: emulatedModel}
		cpu.Features = append(h.extraFeatures(), cpu.Features...)
	case likeHost:
		h.decide(Decision{
			Field: "spec.domain.cpu.model", Element: "cpu/@mode", Value: "maximum", Degraded: true,
			Reason: cpu.Mode + " cannot be emulated; the guest gets all that QEMU can emulate",
		})
		cpu.Mode, cpu.Migratable, cpu.Check = "maximum", "", ""
	case h.arch.name == "amd64" && cpu.Model != nil && !slices.Contains(emulatedModels, cpu.Model.Value):
		h.decide(Decision{
			Field: "spec.domain.cpu.model", Element: "cpu/model", Value: cpu.Model.Value, Degraded: true,
			Reason: "QEMU cannot emulate all features of this model",
		})
	}
}

// extraFeatures returns emulatedExtras without the features that the VMI sets.
func (h *host) extraFeatures() []libvirtxml.DomainCPUFeature {
	var out []libvirtxml.DomainCPUFeature
	for _, name := range emulatedExtras {
		if !slices.ContainsFunc(h.domain.CPU.Features, func(f libvirtxml.DomainCPUFeature) bool { return f.Name == name }) {
			out = append(out, libvirtxml.DomainCPUFeature{Name: name, Policy: "require"})
		}
	}
	return out
}

// dropFeatures removes CPU features that the VMI requires and QEMU cannot emulate: libvirt does not
// start such guests. libvirt looks for an invariant counter in the host.
func (h *host) dropFeatures() {
	if h.domain.CPU == nil || h.spec.Domain.CPU == nil {
		return
	}
	for i, f := range h.spec.Domain.CPU.Features {
		at := slices.IndexFunc(h.domain.CPU.Features, func(d libvirtxml.DomainCPUFeature) bool {
			return d.Name == f.Name && (d.Policy == "require" || d.Policy == "force")
		})
		if at < 0 || !h.notEmulated(f.Name) {
			continue
		}
		why := "QEMU cannot emulate it"
		if f.Name == "invtsc" {
			why = noFrequency
		}
		h.domain.CPU.Features = slices.Delete(h.domain.CPU.Features, at, at+1)
		h.decide(Decision{
			Field:   field.NewPath("spec", "domain", "cpu", "features").Index(i).String(),
			Element: "cpu/feature[@name='" + f.Name + "']", Reason: why, Degraded: true,
		})
	}
}

// notEmulated reports whether QEMU cannot emulate a feature. For other architectures than amd64,
// libvirt checks it.
func (h *host) notEmulated(feature string) bool {
	return feature == "invtsc" || h.arch.name == "amd64" && !slices.Contains(emulatedFeatures, feature)
}

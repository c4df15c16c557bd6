package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// emulatedModel is the processor of an emulated guest of amd64 that asked for
// the host's, with emulatedExtras: what is called x86-64-v2, which today's
// distributions need. It is the same on every host. mode maximum and host-model
// follow QEMU's version and the host; qemu64 alone is too old for such guests;
// an Intel model that can do as much, Nehalem, makes Linux guard against
// Meltdown, which an emulated processor has not.
const emulatedModel = "qemu64"

var emulatedExtras = []string{"lahf_lm", "popcnt", "sse4.1", "sse4.2", "ssse3"}

// emulatedWhole are the models that QEMU 7.2 emulates as they are: it has no
// unavailable features of them, and libvirt 9.0 switches none off. Of others it
// leaves out what it cannot do.
var emulatedWhole = []string{"Conroe", "Nehalem", "Opteron_G1", "Penryn", "Westmere", "kvm32", "kvm64", "qemu32", "qemu64"}

// emulatedHas are the features that QEMU 7.2 emulates (query-cpu-model-expansion
// of max), by libvirt's names.
var emulatedHas = []string{
	"3dnow", "3dnowext", "abm", "acpi", "adx", "aes", "apic", "arat", "avx", "avx2", "bmi1", "bmi2", "clflush", "clflushopt",
	"clwb", "cmov", "cr8legacy", "cx16", "cx8", "de", "erms", "f16c", "fma", "fpu", "fsgsbase", "fxsr", "hypervisor", "la57",
	"lahf_lm", "lm", "mca", "mce", "mmx", "mmxext", "monitor", "movbe", "mpx", "msr", "mtrr", "npt", "nx", "pae", "pat",
	"pclmuldq", "pcommit", "pdpe1gb", "pge", "pks", "pku", "pni", "popcnt", "pse", "pse36", "rdrand", "rdtscp", "sep", "smap",
	"smep", "ss", "sse", "sse2", "sse4.1", "sse4.2", "sse4a", "ssse3", "svm", "svme-addr-chk", "syscall", "tsc", "umip",
	"vaes", "vgif", "xgetbv1", "xsave", "xsaveopt",
}

// emulatedCPU replaces a processor made after the host's, which is another one
// on each host, and on most none that QEMU can emulate. Of other architectures
// the guest gets all that QEMU can emulate.
func (h *host) emulatedCPU() {
	cpu := h.domain.CPU
	if cpu == nil {
		return
	}
	after := cpu.Mode == "host-passthrough" || cpu.Mode == "host-model"
	switch {
	case after && h.arch.name == "amd64":
		h.decide(Decision{
			Field: "spec.domain.cpu.model", Element: "cpu/model", Value: emulatedModel, Degraded: true,
			Reason: cpu.Mode + " would be another processor on each host; an emulated guest gets the same one everywhere, of the level x86-64-v2",
		})
		cpu.Mode, cpu.Migratable, cpu.Check, cpu.Model = "custom", "", "", &libvirtxml.DomainCPUModel{Value: emulatedModel}
		cpu.Features = append(h.extraFeatures(), cpu.Features...)
	case after:
		h.decide(Decision{
			Field: "spec.domain.cpu.model", Element: "cpu/@mode", Value: "maximum", Degraded: true,
			Reason: cpu.Mode + " cannot be emulated; the guest gets all that QEMU can emulate",
		})
		cpu.Mode, cpu.Migratable, cpu.Check = "maximum", "", ""
	case h.arch.name == "amd64" && cpu.Model != nil && !slices.Contains(emulatedWhole, cpu.Model.Value):
		h.decide(Decision{
			Field: "spec.domain.cpu.model", Element: "cpu/model", Value: cpu.Model.Value, Degraded: true,
			Reason: "QEMU leaves out what it cannot emulate of this model",
		})
	}
}

// extraFeatures are those of the emulated processor of which the instance says
// nothing.
func (h *host) extraFeatures() []libvirtxml.DomainCPUFeature {
	var out []libvirtxml.DomainCPUFeature
	for _, name := range emulatedExtras {
		if !slices.ContainsFunc(h.domain.CPU.Features, func(f libvirtxml.DomainCPUFeature) bool { return f.Name == name }) {
			out = append(out, libvirtxml.DomainCPUFeature{Name: name, Policy: "require"})
		}
	}
	return out
}

// emulatedFeatures takes away what the instance requires of its processor and
// QEMU cannot emulate: libvirt does not start such guests. An invariant counter
// it looks for in the host.
func (h *host) emulatedFeatures() {
	if h.domain.CPU == nil || h.spec.Domain.CPU == nil {
		return
	}
	for i, f := range h.spec.Domain.CPU.Features {
		at := slices.IndexFunc(h.domain.CPU.Features, func(d libvirtxml.DomainCPUFeature) bool {
			return d.Name == f.Name && (d.Policy == "require" || d.Policy == "force")
		})
		if at < 0 || !h.lacksEmulated(f.Name) {
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

// lacksEmulated says whether QEMU cannot emulate a feature. Of other
// architectures it is libvirt that says so.
func (h *host) lacksEmulated(feature string) bool {
	return feature == "invtsc" || h.arch.name == "amd64" && !slices.Contains(emulatedHas, feature)
}

package domain

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// accelerator says what runs the guest's processors: the host's own, where it
// has run guests of this architecture, else QEMU in software where the backend
// profile allows it. KubeVirt's rule is the same; it also takes the presence
// of /dev/kvm for proof, which it is not.
func (h *host) accelerator() {
	h.complete()
	h.errs = append(h.errs, h.facts.Check()...)
	h.devices.Emulator = cmp.Or(h.settings.Emulator, h.facts.Emulators[h.arch.name])
	h.domain.Type = "kvm"
	if h.facts.KVM && h.facts.Architecture == h.arch.name {
		return
	}
	why := fmt.Sprintf("the host has no hardware virtualization for %s guests", h.arch.name)
	if h.facts.Architecture != h.arch.name {
		why = fmt.Sprintf("the host is %s", cmp.Or(h.facts.Architecture, "of an architecture that nobody has named"))
	}
	if h.settings.SoftwareEmulation != v1alpha1.SoftwareEmulationAllow {
		h.refuse(field.Forbidden(field.NewPath("spec", "architecture"),
			why+", and no backend profile allows the guest software emulation (softwareEmulation: Allow)"))
	}
	h.emulated, h.domain.Type = true, "qemu"
	h.decide(Decision{Field: "spec.architecture", Element: "@type", Value: "qemu", Reason: why + "; it is emulated, slowly", Degraded: true})
}

// complete puts empty settings and facts where there are none, so that no step
// must ask.
func (h *host) complete() {
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

package domain

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// tpm adds a TPM. As in KubeVirt, one with persistent state is a tpm-crb, which QEMU has only on
// amd64, and any other one is a tpm-tis.
func (g *guest) tpm() {
	t, at := g.spec.Domain.Devices.TPM, devicesAt.Child("tpm")
	if t == nil || !ptr.Deref(t.Enabled, true) {
		return
	}
	model := "tpm-tis"
	if ptr.Deref(t.Persistent, false) {
		model = "tpm-crb"
	}
	switch {
	case g.arch.channelIO():
		g.reject(field.Forbidden(at, "must be left out: "+g.arch.name+" has no TPM"))
	case model == "tpm-crb" && g.arch.name != "amd64":
		g.reject(field.Invalid(at.Child("persistent"), true, "must be false: "+g.arch.name+" has no tpm-crb"))
	}
	g.devices.TPMs = []libvirtxml.DomainTPM{{Model: model}}
}

// tpm backs the TPM with an emulator of TPM 2.0, as in KubeVirt.
func (h *host) tpm() {
	for i := range h.devices.TPMs {
		emulator := &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}
		if t := h.spec.Domain.Devices.TPM; t != nil && ptr.Deref(t.Persistent, false) {
			emulator.PersistentState = "yes"
		}
		h.devices.TPMs[i].Backend = &libvirtxml.DomainTPMBackend{Emulator: emulator}
	}
}

// rng adds a source of entropy if the VMI or its profile asks for one.
func (g *guest) rng() {
	if g.spec.Domain.Devices.Rng != nil || ptr.Deref(g.settings.RNG, false) {
		g.devices.RNGs = []libvirtxml.DomainRNG{{Model: g.virtio()}}
	}
}

// rng feeds the source of entropy from the profile's device, or from KubeVirt's.
func (h *host) rng() {
	device := cmp.Or(h.settings.Entropy, "/dev/urandom")
	for i := range h.devices.RNGs {
		h.devices.RNGs[i].Backend = &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: device}}
	}
}

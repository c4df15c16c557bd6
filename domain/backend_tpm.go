package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// tpm has a TPM 2.0 emulated for the guest, as KubeVirt does; it keeps its
// state from start to start where the instance says so.
func (h *host) tpm() {
	for i := range h.devices.TPMs {
		emulator := &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}
		if t := h.spec.Domain.Devices.TPM; t != nil && ptr.Deref(t.Persistent, false) {
			emulator.PersistentState = "yes"
		}
		h.devices.TPMs[i].Backend = &libvirtxml.DomainTPMBackend{Emulator: emulator}
	}
}

package domain

import (
	"cmp"

	"libvirt.org/go/libvirtxml"
)

// rng feeds the guest's source of entropy from the profile's device, or from
// KubeVirt's.
func (h *host) rng() {
	for i := range h.devices.RNGs {
		h.devices.RNGs[i].Backend = &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: cmp.Or(h.settings.Entropy, "/dev/urandom")}}
	}
}

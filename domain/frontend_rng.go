package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// rng gives the guest a source of entropy where the instance or its profile
// asks for one.
func (g *guest) rng() {
	if g.spec.Domain.Devices.Rng != nil || ptr.Deref(g.settings.RNG, false) {
		g.devices.RNGs = []libvirtxml.DomainRNG{{Model: g.virtio()}}
	}
}

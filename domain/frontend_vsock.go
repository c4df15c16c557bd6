package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// vsock gives the guest a socket to its host. Its context ID is late-bound. As
// KubeVirt has it, the device is never transitional: QEMU has none that is.
func (g *guest) vsock() {
	if !ptr.Deref(g.spec.Domain.Devices.AutoattachVSOCK, false) {
		return
	}
	g.devices.VSock = &libvirtxml.DomainVSock{Model: g.arch.virtio}
	g.bind(Late{Kind: LateVSOCKCID, Field: devicesAt.Child("autoattachVSOCK").String()})
}

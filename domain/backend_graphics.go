package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// hasGraphics says that somebody can look at the guest's display.
func (h *host) hasGraphics() bool {
	return ptr.Deref(h.spec.Domain.Devices.AutoattachGraphicsDevice, true)
}

// graphics shows the guest's display by VNC on a socket, under KubeVirt's name.
func (h *host) graphics() {
	if !h.hasGraphics() {
		return
	}
	h.devices.Graphics = append(h.devices.Graphics, libvirtxml.DomainGraphic{VNC: &libvirtxml.DomainGraphicVNC{
		Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{Socket: h.socket("virt-vnc", devicesAt.Child("autoattachGraphicsDevice"))}}},
	}})
}

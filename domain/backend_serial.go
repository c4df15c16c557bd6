package domain

import (
	"fmt"

	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// serial puts serial ports on sockets under KubeVirt's names, and keeps what a
// guest writes in a file beside them where the instance, or else the profile,
// says so. Consoles are on serial ports; what their type is, libvirt overrules.
func (h *host) serial() {
	for i := range h.devices.Serials {
		port := &h.devices.Serials[i]
		at := h.socket(fmt.Sprintf("virt-serial%d", i), devicesAt.Child("autoattachSerialConsole"))
		port.Source = bound(at)
		if ptr.Deref(h.spec.Domain.Devices.LogSerialConsole, ptr.Deref(h.settings.SerialLog, true)) {
			port.Log = &libvirtxml.DomainChardevLog{File: at + "-log", Append: "on"}
		}
	}
	for i := range h.devices.Consoles {
		h.devices.Consoles[i].Source = &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
	}
}

// bound is a socket on which QEMU listens.
func bound(path string) *libvirtxml.DomainChardevSource {
	return &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path}}
}

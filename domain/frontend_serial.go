package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// hasSerial says that the guest has a serial port.
func (g *guest) hasSerial() bool {
	return ptr.Deref(g.spec.Domain.Devices.AutoattachSerialConsole, true)
}

// serial gives the guest its first serial port, and the console on it.
func (g *guest) serial() {
	if !g.hasSerial() {
		return
	}
	g.devices.Serials = []libvirtxml.DomainSerial{{Target: &libvirtxml.DomainSerialTarget{Port: ptr.To[uint](0)}}}
	g.devices.Consoles = []libvirtxml.DomainConsole{{Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: ptr.To[uint](0)}}}
}

package domain

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// The names by which a guest finds its channels.
const (
	agentChannel   = "org.qemu.guest_agent.0"
	metricsChannel = "org.github.vhostmd.1"
)

// channels adds the channel of the guest agent and, if the VMI asks for it, that of host metrics.
func (g *guest) channels() {
	add := func(name string) {
		target := &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: name}}
		g.devices.Channels = append(g.devices.Channels, libvirtxml.DomainChannel{Target: target})
	}
	if ptr.Deref(g.settings.GuestAgent, true) {
		add(agentChannel)
	}
	if g.spec.Domain.Devices.DownwardMetrics != nil {
		add(metricsChannel)
	}
}

// channels binds channels to sockets. As in KubeVirt, libvirt chooses the path, except for the
// metrics.
func (h *host) channels() {
	for i := range h.devices.Channels {
		c := &h.devices.Channels[i]
		c.Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}}
		if c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == metricsChannel {
			c.Source = listeningOn(h.socket("downwardmetrics.sock", devicesAt.Child("downwardMetrics")))
		}
	}
}

func (g *guest) hasSerial() bool {
	return ptr.Deref(g.spec.Domain.Devices.AutoattachSerialConsole, true)
}

// serial adds the first serial port and a console on it.
func (g *guest) serial() {
	if !g.hasSerial() {
		return
	}
	g.devices.Serials = []libvirtxml.DomainSerial{{Target: &libvirtxml.DomainSerialTarget{Port: ptr.To[uint](0)}}}
	g.devices.Consoles = []libvirtxml.DomainConsole{{Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: ptr.To[uint](0)}}}
}

// serial binds serial ports to sockets with KubeVirt's names, and logs their output next to them if
// the VMI, or else the profile, says so.
func (h *host) serial() {
	for i := range h.devices.Serials {
		port := &h.devices.Serials[i]
		socket := h.socket(fmt.Sprintf("virt-serial%d", i), devicesAt.Child("autoattachSerialConsole"))
		port.Source = listeningOn(socket)
		if ptr.Deref(h.spec.Domain.Devices.LogSerialConsole, ptr.Deref(h.settings.SerialLog, true)) {
			port.Log = &libvirtxml.DomainChardevLog{File: socket + "-log", Append: "on"}
		}
	}
	for i := range h.devices.Consoles { // libvirt replaces the type by that of the serial port
		h.devices.Consoles[i].Source = &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
	}
}

// listeningOn returns a socket on which QEMU listens.
func listeningOn(path string) *libvirtxml.DomainChardevSource {
	return &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path}}
}

// redirection adds redirected USB devices for clients, as many as KubeVirt.
func (g *guest) redirection() {
	if g.spec.Domain.Devices.ClientPassthrough == nil {
		return
	}
	if g.arch.channelIO() {
		g.reject(field.Forbidden(devicesAt.Child("clientPassthrough"), "must be left out: "+g.arch.name+" has no USB"))
	}
	for range kubevirtv1.UsbClientPassthroughMaxNumberOf {
		g.devices.RedirDevs = append(g.devices.RedirDevs, libvirtxml.DomainRedirDev{Bus: "usb"})
	}
}

// redirection binds each redirected USB device to a socket with KubeVirt's name.
func (h *host) redirection() {
	for i := range h.devices.RedirDevs {
		h.devices.RedirDevs[i].Source = listeningOn(h.socket(fmt.Sprintf("virt-usbredir-%d", i), devicesAt.Child("clientPassthrough")))
	}
}

// firstCID is the first context ID of guests: lower ones are the hypervisor's and the host's.
const firstCID = 3

// vsock adds a socket to the host. As in KubeVirt, the device is never transitional: QEMU has no
// such model.
func (g *guest) vsock() {
	if !ptr.Deref(g.spec.Domain.Devices.AutoattachVSOCK, false) {
		return
	}
	g.devices.VSock = &libvirtxml.DomainVSock{Model: g.arch.virtio}
	g.leaveToHost(kindVSOCKCID, devicesAt.Child("autoattachVSOCK"), "")
}

// resolveVSOCK sets the context ID of the host's facts, or else of the VMI's status, where
// KubeVirt's controller writes it.
func (h *host) resolveVSOCK(p Placeholder) {
	reserved := cmp.Or(h.facts.VSOCKCID, ptr.Deref(h.vmi.Status.VSOCKCID, 0))
	if reserved < firstCID || h.devices.VSock == nil {
		h.missing(p, "vsockCID")
		return
	}
	cid := fmt.Sprint(reserved)
	h.devices.VSock.CID = &libvirtxml.DomainVSockCID{Auto: "no", Address: cid}
	h.resolved(p, "devices/vsock/cid/@address", cid, "reserved for the VMI")
}

package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// The names under which a guest finds its channels.
const (
	agentChannel   = "org.qemu.guest_agent.0"
	metricsChannel = "org.github.vhostmd.1"
)

// channels gives the guest the channel of its agent, and that of the host's
// metrics where the instance asks for it.
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

package domain

import (
	"libvirt.org/go/libvirtxml"
)

// channels puts the guest's channels on sockets: that of the metrics where
// whoever serves them looks for it, any other one where libvirt chooses, as
// KubeVirt has it.
func (h *host) channels() {
	for i := range h.devices.Channels {
		c := &h.devices.Channels[i]
		c.Source = &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}}
		if c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == metricsChannel {
			c.Source = bound(h.socket("downwardmetrics.sock", devicesAt.Child("downwardMetrics")))
		}
	}
}

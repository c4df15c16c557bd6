package domain

import (
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// balloon has the guest report its memory every so often, as KubeVirt does.
func (h *host) balloon() {
	period := ptr.Deref(h.settings.BalloonStatsSeconds, 0)
	if b := h.devices.MemBalloon; b != nil && b.Model != "none" && period > 0 {
		b.Stats = &libvirtxml.DomainMemBalloonStats{Period: uint(period)}
	}
}

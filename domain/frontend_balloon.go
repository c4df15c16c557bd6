package domain

import (
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// balloon gives the guest a memory balloon, or says that it has none: libvirt
// adds one otherwise. As KubeVirt has it, pages that the guest does not use are
// reported, but not by guests with dedicated CPUs, real-time or huge pages.
func (g *guest) balloon() {
	if !ptr.Deref(g.spec.Domain.Devices.AutoattachMemBalloon, true) {
		g.devices.MemBalloon = &libvirtxml.DomainMemBalloon{Model: "none"}
		return
	}
	reporting := g.settings.Balloon == nil || ptr.Deref(g.settings.Balloon.FreePageReporting, true)
	if g.vmi.IsHighPerformanceVMI() || g.vmi.Annotations[kubevirtv1.FreePageReportingDisabledAnnotation] == "true" {
		reporting = false
	}
	g.devices.MemBalloon = &libvirtxml.DomainMemBalloon{Model: g.virtio(), FreePageReporting: onOff(reporting)}
}

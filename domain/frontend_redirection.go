package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// redirection gives the guest as many sockets for USB devices of its clients
// as KubeVirt gives.
func (g *guest) redirection() {
	if g.spec.Domain.Devices.ClientPassthrough == nil {
		return
	}
	if g.arch.channelIO() {
		g.refuse(field.Forbidden(devicesAt.Child("clientPassthrough"), "must be left out: "+g.arch.name+" has no USB"))
	}
	for range kubevirtv1.UsbClientPassthroughMaxNumberOf {
		g.devices.RedirDevs = append(g.devices.RedirDevs, libvirtxml.DomainRedirDev{Bus: "usb"})
	}
}

package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// inputs gives the guest its tablets. As KubeVirt has it, the keyboard and
// tablet that a PC has on its board are added to a display of arm64, and the
// keyboard to one of s390x.
func (g *guest) inputs() {
	for i := range g.spec.Domain.Devices.Inputs {
		g.input(&g.spec.Domain.Devices.Inputs[i], devicesAt.Child("inputs").Index(i))
	}
	if !g.hasGraphics() {
		return
	}
	tablet := slices.ContainsFunc(g.devices.Inputs, func(in libvirtxml.DomainInput) bool { return in.Type == "tablet" })
	if g.arch.usb && !tablet {
		g.devices.Inputs = append(g.devices.Inputs, libvirtxml.DomainInput{Type: "tablet", Bus: "usb"})
	}
	if g.arch.usb {
		g.devices.Inputs = append(g.devices.Inputs, libvirtxml.DomainInput{Type: "keyboard", Bus: "usb"})
	}
	if g.arch.channelIO() {
		g.devices.Inputs = append(g.devices.Inputs, libvirtxml.DomainInput{Type: "keyboard", Bus: "virtio"})
	}
}

func (g *guest) input(in *kubevirtv1.Input, at *field.Path) {
	buses := []string{"usb", "virtio"}
	if g.arch.channelIO() {
		buses = buses[1:]
	}
	out := libvirtxml.DomainInput{Type: string(in.Type), Bus: string(in.Bus), Alias: g.alias(at.Child("name"), in.Name)}
	if out.Bus == "" {
		g.refuse(field.Required(at.Child("bus"), "must be usb or virtio; s390x has virtio only"))
	} else if !slices.Contains(buses, out.Bus) {
		g.refuse(field.NotSupported(at.Child("bus"), out.Bus, buses))
	}
	if in.Type != kubevirtv1.InputTypeTablet {
		g.refuse(field.NotSupported(at.Child("type"), out.Type, []string{"tablet"}))
	}
	if out.Bus == "virtio" {
		out.Model = "virtio"
	}
	g.devices.Inputs = append(g.devices.Inputs, out)
}

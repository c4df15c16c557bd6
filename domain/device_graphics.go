package domain

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// hasGraphics reports whether a VMI has a display that clients can connect to.
func hasGraphics(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	return ptr.Deref(spec.Domain.Devices.AutoattachGraphicsDevice, true)
}

// withoutMemory are the adapters without memory of their own, or with memory that KubeVirt leaves
// to QEMU.
var withoutMemory = []string{"bochs", "ramfb", "virtio"}

// video adds one display adapter, unless there are no graphics. As in KubeVirt, an adapter that the
// VMI names always has video memory; a default virtio adapter has none.
func (g *guest) video() {
	own, at := g.spec.Domain.Devices.Video, devicesAt.Child("video")
	if !hasGraphics(g.spec) {
		if own != nil {
			g.reject(field.Forbidden(at, "must be left out with autoattachGraphicsDevice: false"))
		}
		return
	}
	model := libvirtxml.DomainVideoModel{Type: g.defaultVideo(), Heads: 1}
	memory := uint(0)
	if v := g.settings.Video; v != nil {
		model.Type, memory = cmp.Or(v.Type, model.Type), uint(max(v.VRAM, 0))
	}
	named := own != nil && own.Type != ""
	if named {
		model.Type = own.Type
	}
	g.oneOf(at.Child("type"), model.Type, g.arch.videos)
	if model.Type == "none" {
		model.Heads = 0
	} else if named || !slices.Contains(withoutMemory, model.Type) {
		model.VRam = memory
	}
	g.devices.Videos = append(g.devices.Videos, libvirtxml.DomainVideo{Model: model})
}

// defaultVideo is KubeVirt's default. A guest with EFI on amd64 needs no VGA.
func (g *guest) defaultVideo() string {
	if g.arch.name == "amd64" && g.vmi.IsBootloaderEFI() {
		return "bochs"
	}
	return g.arch.video
}

// graphics serves the display by VNC on a socket with KubeVirt's name.
func (h *host) graphics() {
	if !hasGraphics(h.spec) {
		return
	}
	socket := &libvirtxml.DomainGraphicListenerSocket{Socket: h.socket("virt-vnc", devicesAt.Child("autoattachGraphicsDevice"))}
	h.devices.Graphics = append(h.devices.Graphics, libvirtxml.DomainGraphic{VNC: &libvirtxml.DomainGraphicVNC{
		Listeners: []libvirtxml.DomainGraphicListener{{Socket: socket}},
	}})
}

// inputs adds tablets. As in KubeVirt, a display of arm64 comes with the keyboard and tablet that a
// PC has on its board, and one of s390x with a keyboard.
func (g *guest) inputs() {
	for i := range g.spec.Domain.Devices.Inputs {
		g.input(&g.spec.Domain.Devices.Inputs[i], devicesAt.Child("inputs").Index(i))
	}
	if !hasGraphics(g.spec) {
		return
	}
	add := func(kind, bus string) {
		g.devices.Inputs = append(g.devices.Inputs, libvirtxml.DomainInput{Type: kind, Bus: bus})
	}
	tablet := slices.ContainsFunc(g.devices.Inputs, func(in libvirtxml.DomainInput) bool { return in.Type == "tablet" })
	if g.arch.usb && !tablet {
		add("tablet", "usb")
	}
	if g.arch.usb {
		add("keyboard", "usb")
	}
	if g.arch.channelIO() {
		add("keyboard", "virtio")
	}
}

func (g *guest) input(in *kubevirtv1.Input, at *field.Path) {
	buses := []string{"usb", "virtio"}
	if g.arch.channelIO() {
		buses = buses[1:]
	}
	out := libvirtxml.DomainInput{Type: string(in.Type), Bus: cmp.Or(string(in.Bus), "usb"), Alias: g.alias(at.Child("name"), "", in.Name)}
	g.oneOf(at.Child("bus"), out.Bus, buses)
	if in.Type != kubevirtv1.InputTypeTablet {
		g.reject(field.NotSupported(at.Child("type"), out.Type, []string{"tablet"}))
	}
	if out.Bus == "virtio" {
		out.Model = "virtio"
	}
	g.devices.Inputs = append(g.devices.Inputs, out)
}

// soundModels are the models of KubeVirt's API; the first one is its default.
var soundModels = []string{"ich9", "ac97"}

func (g *guest) sound() {
	s, at := g.spec.Domain.Devices.Sound, devicesAt.Child("sound")
	if s == nil {
		return
	}
	g.oneOf(at.Child("model"), s.Model, soundModels)
	if g.arch.name != "amd64" {
		g.reject(field.Forbidden(at, "must be left out: "+g.arch.name+" has no sound card"))
	}
	g.devices.Sounds = []libvirtxml.DomainSound{{Model: cmp.Or(s.Model, soundModels[0]), Alias: g.alias(at.Child("name"), "", s.Name)}}
}

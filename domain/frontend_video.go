package domain

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// hasGraphics says that somebody can look at the guest's display.
func (g *guest) hasGraphics() bool {
	return ptr.Deref(g.spec.Domain.Devices.AutoattachGraphicsDevice, true)
}

// adapters are the display adapters that QEMU has for an architecture.
var adapters = map[string][]string{
	"amd64": {"bochs", "cirrus", "none", "qxl", "ramfb", "vga", "virtio"},
	"arm64": {"none", "ramfb", "virtio"},
	"s390x": {"none", "virtio"},
}

// withoutMemory are the adapters that have no memory of their own, or one that
// KubeVirt leaves to QEMU.
var withoutMemory = []string{"bochs", "ramfb", "virtio"}

// video gives the guest one display adapter, unless there are no graphics. As
// KubeVirt has it, one that the instance names has video memory whatever its
// type, and virtio that nobody names has none.
func (g *guest) video() {
	own, at := g.spec.Domain.Devices.Video, devicesAt.Child("video")
	if !g.hasGraphics() {
		if own != nil {
			g.refuse(field.Forbidden(at, "must be left out with autoattachGraphicsDevice: false"))
		}
		return
	}
	model := libvirtxml.DomainVideoModel{Type: g.arch.video, Heads: 1}
	memory := uint(0)
	if v := g.settings.Video; v != nil {
		model.Type, memory = cmp.Or(v.Type, model.Type), uint(max(v.VRAM, 0))
	}
	named := own != nil && own.Type != ""
	if named {
		model.Type = own.Type
	}
	if known := adapters[g.arch.name]; !slices.Contains(known, model.Type) {
		g.refuse(field.NotSupported(at.Child("type"), model.Type, known))
	}
	if model.Type == "none" {
		model.Heads = 0
	} else if named || !slices.Contains(withoutMemory, model.Type) {
		model.VRam = memory
	}
	g.devices.Videos = append(g.devices.Videos, libvirtxml.DomainVideo{Model: model})
}

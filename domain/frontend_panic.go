package domain

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

// panicModels are the devices by which guests of an architecture can tell that
// they have crashed. One without a model is what libvirt chooses: isa.
var panicModels = map[string][]string{
	"amd64": {"", "hyperv", "isa", "pvpanic"},
	"arm64": {"pvpanic"},
}

// panics gives the guest devices by which it tells that it has crashed, at most
// one of a model.
func (g *guest) panics() {
	seen := map[string]bool{}
	for i := range g.spec.Domain.Devices.PanicDevices {
		model := string(ptr.Deref(g.spec.Domain.Devices.PanicDevices[i].Model, ""))
		at, known := devicesAt.Child("panicDevices").Index(i), panicModels[g.arch.name]
		switch {
		case known == nil:
			g.refuse(field.Forbidden(at, "must be left out: guests of "+g.arch.name+" always tell"))
		case slices.Contains(known, model):
			actual := cmp.Or(model, "isa")
			if seen[actual] {
				g.refuse(field.Duplicate(at.Child("model"), actual))
			}
			seen[actual] = true
		case model == "":
			g.refuse(field.Required(at.Child("model"), "must be pvpanic: libvirt has no choice of its own for "+g.arch.name))
		default:
			g.refuse(field.NotSupported(at.Child("model"), model, slices.DeleteFunc(slices.Clone(known), func(m string) bool { return m == "" })))
		}
		g.devices.Panics = append(g.devices.Panics, libvirtxml.DomainPanic{Model: model})
	}
}

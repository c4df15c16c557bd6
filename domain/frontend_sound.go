package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// soundModels are what KubeVirt's API names; the first one is its default.
var soundModels = []string{"ich9", "ac97"}

// sound gives the guest a sound card.
func (g *guest) sound() {
	s, at := g.spec.Domain.Devices.Sound, devicesAt.Child("sound")
	if s == nil {
		return
	}
	model := s.Model
	if model == "" {
		model = soundModels[0]
	}
	if !slices.Contains(soundModels, model) {
		g.refuse(field.NotSupported(at.Child("model"), model, soundModels))
	}
	if g.arch.name != "amd64" {
		g.refuse(field.Forbidden(at, "must be left out: "+g.arch.name+" has no sound card"))
	}
	g.devices.Sounds = []libvirtxml.DomainSound{{Model: model, Alias: g.alias(at.Child("name"), s.Name)}}
}

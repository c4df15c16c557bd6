package domain

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"libvirt.org/go/libvirtxml"
)

var watchdogActions = []string{"poweroff", "reset", "shutdown"}

// watchdog adds a watchdog: an i6300esb on amd64, a diag288 on s390x, none on arm64.
func (g *guest) watchdog() {
	w, at := g.spec.Domain.Devices.Watchdog, devicesAt.Child("watchdog")
	if w == nil {
		return
	}
	model := g.arch.watchdog
	if model == "" {
		g.reject(field.Forbidden(at, g.arch.name+" has no watchdog"))
		return
	}
	actions := map[string]string{}
	if w.I6300ESB != nil {
		actions["i6300esb"] = string(w.I6300ESB.Action)
	}
	if w.Diag288 != nil {
		actions["diag288"] = string(w.Diag288.Action)
	}
	action, set := actions[model]
	switch {
	case !set:
		g.reject(field.Required(at.Child(model), "must be the watchdog: "+g.arch.name+" has no other"))
	case len(actions) > 1:
		g.reject(field.Forbidden(at, "must be "+model+" alone on "+g.arch.name))
	case action == "":
		g.reject(field.Required(at.Child(model, "action"), "must be poweroff, reset or shutdown"))
	case !slices.Contains(watchdogActions, action):
		g.reject(field.NotSupported(at.Child(model, "action"), action, watchdogActions))
	}
	g.devices.Watchdogs = []libvirtxml.DomainWatchdog{{Model: model, Action: action, Alias: g.watchdogAlias(at.Child("name"), w.Name)}}
}

// watchdogAlias lets libvirt name a watchdog that has no name, as KubeVirt admits.
func (g *guest) watchdogAlias(at *field.Path, name string) *libvirtxml.DomainAlias {
	if name == "" {
		return nil
	}
	return g.alias(at, "", name)
}

// panics adds devices by which the guest reports a crash, at most one of each model.
func (g *guest) panics() {
	seen := map[string]bool{}
	for i := range g.spec.Domain.Devices.PanicDevices {
		model := string(ptr.Deref(g.spec.Domain.Devices.PanicDevices[i].Model, ""))
		at, known := devicesAt.Child("panicDevices").Index(i), g.arch.panics
		switch {
		case known == nil:
			g.reject(field.Forbidden(at, "must be left out: guests of "+g.arch.name+" always report crashes"))
		case slices.Contains(known, model):
			actual := cmp.Or(model, "isa")
			if seen[actual] {
				g.reject(field.Duplicate(at.Child("model"), actual))
			}
			seen[actual] = true
		case model == "":
			g.reject(field.Required(at.Child("model"), "must be pvpanic: libvirt has no default for "+g.arch.name))
		default:
			g.errs = append(g.errs, oneOf(at.Child("model"), model, known...)...)
		}
		g.devices.Panics = append(g.devices.Panics, libvirtxml.DomainPanic{Model: model})
	}
}

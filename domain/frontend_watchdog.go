package domain

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

var watchdogActions = []string{"poweroff", "reset", "shutdown"}

// watchdog gives the guest a watchdog: an i6300esb on amd64, a diag288 on
// s390x, none on arm64.
func (g *guest) watchdog() {
	w, at := g.spec.Domain.Devices.Watchdog, devicesAt.Child("watchdog")
	if w == nil {
		return
	}
	if g.arch.watchdog == "" {
		g.refuse(field.Forbidden(at, g.arch.name+" has no watchdog"))
		return
	}
	actions := map[string]string{}
	if w.I6300ESB != nil {
		actions["i6300esb"] = string(w.I6300ESB.Action)
	}
	if w.Diag288 != nil {
		actions["diag288"] = string(w.Diag288.Action)
	}
	action, ok := actions[g.arch.watchdog]
	at, rest := at.Child(g.arch.watchdog), len(actions)
	switch {
	case !ok:
		g.refuse(field.Required(at, "must be the watchdog: "+g.arch.name+" has no other"))
	case rest > 1:
		g.refuse(field.Forbidden(devicesAt.Child("watchdog"), "must be "+g.arch.watchdog+" alone on "+g.arch.name))
	case action == "":
		g.refuse(field.Required(at.Child("action"), "must be poweroff, reset or shutdown"))
	case !slices.Contains(watchdogActions, action):
		g.refuse(field.NotSupported(at.Child("action"), action, watchdogActions))
	}
	alias := g.alias(devicesAt.Child("watchdog", "name"), w.Name)
	g.devices.Watchdogs = []libvirtxml.DomainWatchdog{{Model: g.arch.watchdog, Action: action, Alias: alias}}
}

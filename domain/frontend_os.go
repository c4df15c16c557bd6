package domain

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// machineForm is what QEMU accepts as the name of a machine type.
var machineForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// bootMenuMilliseconds is how long a guest that starts paused shows its boot
// menu, as in KubeVirt.
const bootMenuMilliseconds = 10000

// operatingSystem says which machine the guest finds itself in, and what its
// reboot does. A machine type without a version is an alias, late-bound.
func (g *guest) operatingSystem() {
	at := field.NewPath("spec", "domain", "machine", "type")
	machine := g.settings.Machine
	if machine == "" {
		machine = g.arch.machine
	}
	if m := g.spec.Domain.Machine; m != nil && m.Type != "" && (m.Type != g.arch.machine || g.settings.Machine == "") {
		machine = m.Type
	}
	if !machineForm.MatchString(machine) {
		g.refuse(field.Invalid(at, machine, fmt.Sprintf("must be the name of a machine type such as %s", g.arch.machine)))
	}
	g.domain.OS = &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm", Arch: g.arch.libvirt, Machine: machine}}
	g.bind(Late{Kind: LateMachine, Field: at.String()})
	if g.arch.smbios {
		g.domain.OS.SMBios = &libvirtxml.DomainSMBios{Mode: "sysinfo"}
	}
	if s := g.spec.StartStrategy; s != nil && *s == kubevirtv1.StartStrategyPaused {
		g.domain.OS.BootMenu = &libvirtxml.DomainBootMenu{Enable: "yes", Timeout: fmt.Sprint(bootMenuMilliseconds)}
	}
	g.reboot()
}

// reboot says what a reboot of the guest does; libvirt restarts where nothing
// is said.
func (g *guest) reboot() {
	policy := g.spec.Domain.RebootPolicy
	if policy == nil {
		return
	}
	switch *policy {
	case kubevirtv1.RebootPolicyReboot:
		g.domain.OnReboot = "restart"
	case kubevirtv1.RebootPolicyTerminate:
		g.domain.OnReboot = "destroy"
	default:
		g.refuse(field.NotSupported(field.NewPath("spec", "domain", "rebootPolicy"), *policy,
			[]kubevirtv1.RebootPolicy{kubevirtv1.RebootPolicyReboot, kubevirtv1.RebootPolicyTerminate}))
	}
}

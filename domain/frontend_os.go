package domain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// machineForm is what QEMU accepts as the name of a machine type.
var machineForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// A machineFamily is which machine types guests of an architecture can have,
// as KubeVirt's settings name them, and on amd64 the older board.
type machineFamily struct {
	// whole are names, prefixes are how names with a version begin.
	whole, prefixes []string
	// example is a good name with a version.
	example string
}

var machines = map[string]machineFamily{
	"amd64": {whole: []string{"pc"}, prefixes: []string{"q35", "pc-q35", i440FX}, example: "pc-q35-7.2"},
	"arm64": {prefixes: []string{"virt"}, example: "virt-7.2"},
	"s390x": {prefixes: []string{"s390-ccw-virtio"}, example: "s390-ccw-virtio-7.2"},
}

// i440FX is how the versions of the machine type pc begin.
const i440FX = "pc-i440fx"

func (f *machineFamily) has(machine string) bool {
	return slices.Contains(f.whole, machine) ||
		slices.ContainsFunc(f.prefixes, func(prefix string) bool { return strings.HasPrefix(machine, prefix) })
}

// onI440FX says that the guest is on the older board of amd64, whose buses are
// not PCI Express.
func (g *guest) onI440FX() bool {
	machine := g.domain.OS.Type.Machine
	return machine == "pc" || strings.HasPrefix(machine, i440FX)
}

// bootMenuMilliseconds is how long a guest that starts paused shows its boot
// menu, as in KubeVirt.
const bootMenuMilliseconds = 10000

// operatingSystem says which machine the guest finds itself in, and what its
// reboot does. A machine type without a version is an alias, late-bound.
func (g *guest) operatingSystem() {
	at := field.NewPath("spec", "domain", "machine", "type")
	machine := g.machine(at)
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

// machine is the type of the guest's machine: the instance's own word is
// stronger than the profile's, unless it is what stage 1 gives.
func (g *guest) machine(at *field.Path) string {
	machine, known := cmp.Or(g.settings.Machine, g.arch.machine), machines[g.arch.name]
	if m := g.spec.Domain.Machine; m != nil && m.Type != "" && (m.Type != g.arch.machine || g.settings.Machine == "") {
		machine = m.Type
	}
	switch {
	case !machineForm.MatchString(machine):
		g.refuse(field.Invalid(at, machine, fmt.Sprintf("must be the name of a machine type such as %s", g.arch.machine)))
	case !known.has(machine):
		g.refuse(field.Invalid(at, machine, fmt.Sprintf("must be %s or a version of it such as %s: guests of %s do not run on this one", g.arch.machine, known.example, g.arch.name)))
	}
	return machine
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

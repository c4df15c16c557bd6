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

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// An architecture has what differs between the architectures of guests.
type architecture struct {
	name, libvirt string // Kubernetes' name; libvirt's and QEMU's name

	machine   string    // the alias of KubeVirt's default machine type
	machines  []string  // the prefixes of machine types: those of KubeVirt's settings and, on amd64, an older board
	versioned string    // a machine type with a version
	vcpus     uint64    // QEMU's limit
	pci       pciLayout // unless the board is an older one

	virtio, transitional string   // the models of virtio devices
	scsi                 string   // the model of the SCSI controller; empty is that of virtio devices
	watchdog             string   // the model that guests have; empty is none
	panics               []string // the models of panic devices; libvirt chooses isa for an empty one
	video                string   // KubeVirt's default display adapter
	videos               []string // the display adapters that QEMU has

	smbios, acpi, hyperv bool
	optionROM            bool       // network adapters have one that can be disabled
	usb                  bool       // guests with graphics always have a USB controller, keyboard and tablet
	firmware             []Firmware // the UEFI builds of Debian
}

// architectures are those of KubeVirt's converter, by name.
var architectures = []*architecture{
	{
		name: string(v1alpha1.ArchitectureAMD64), libvirt: "x86_64", machine: "q35",
		virtio: "virtio-non-transitional", transitional: "virtio-transitional", panics: []string{"", "hyperv", "isa", "pvpanic"},
		video: "vga", videos: []string{"bochs", "cirrus", "none", "qxl", "ramfb", "vga", "virtio"},
		smbios: true, acpi: true, hyperv: true, optionROM: true, watchdog: "i6300esb",
		machines: []string{"q35", "pc-q35", i440FX}, versioned: "pc-q35-7.2", vcpus: 255, // libvirt demands an IOMMU for more
		pci: pciOfQ35,
		firmware: []Firmware{
			{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF_CODE_4M.fd", Vars: "/usr/share/OVMF/OVMF_VARS_4M.fd"},
			{Architecture: "amd64", Code: "/usr/share/OVMF/OVMF_CODE_4M.ms.fd", Vars: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd", Secure: true},
		},
	},
	{
		name: string(v1alpha1.ArchitectureARM64), libvirt: "aarch64", machine: "virt",
		virtio: "virtio-non-transitional", transitional: "virtio-transitional", panics: []string{"pvpanic"},
		video: "virtio", videos: []string{"none", "ramfb", "virtio"},
		smbios: true, acpi: true, optionROM: true, usb: true,
		machines: []string{"virt"}, versioned: "virt-7.2", vcpus: 512, pci: pciOfVirt,
		firmware: []Firmware{{Architecture: "arm64", Code: "/usr/share/AAVMF/AAVMF_CODE.fd", Vars: "/usr/share/AAVMF/AAVMF_VARS.fd"}},
	},
	{
		name: string(v1alpha1.ArchitectureS390X), libvirt: "s390x", machine: "s390-ccw-virtio",
		virtio: "virtio", transitional: "virtio", scsi: "virtio-scsi", video: "virtio", videos: []string{"none", "virtio"},
		machines: []string{"s390-ccw-virtio"}, versioned: "s390-ccw-virtio-7.2", vcpus: 248, pci: pciOfS390X, watchdog: "diag288",
	},
}

// The names of architectures, as strings and as the API has them.
var (
	architectureNames = []string{string(v1alpha1.ArchitectureAMD64), string(v1alpha1.ArchitectureARM64), string(v1alpha1.ArchitectureS390X)}
	allArchitectures  = []v1alpha1.Architecture{v1alpha1.ArchitectureAMD64, v1alpha1.ArchitectureARM64, v1alpha1.ArchitectureS390X}
)

// architectureOf returns the architecture with a name; the default is amd64.
func architectureOf(name string) (*architecture, *field.Error) {
	i := slices.Index(architectureNames, cmp.Or(name, architectureNames[0]))
	if i < 0 {
		return nil, field.NotSupported(field.NewPath("spec", "architecture"), name, architectureNames)
	}
	return architectures[i], nil
}

// channelIO reports whether devices use the channels of s390x: there is no USB, and no PCI root
// complex.
func (a *architecture) channelIO() bool { return a.name == string(v1alpha1.ArchitectureS390X) }

var machineForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

// i440FX is the prefix of the versions of the machine type pc.
const i440FX = "pc-i440fx"

// onI440FX reports whether the guest has the older board of amd64, without PCI Express.
func (g *guest) onI440FX() bool {
	machine := g.domain.OS.Type.Machine
	return machine == "pc" || strings.HasPrefix(machine, i440FX)
}

// bootMenuMilliseconds is KubeVirt's timeout of the boot menu of a guest that starts paused.
const bootMenuMilliseconds = 10000

// operatingSystem sets the machine type and what a reboot does. A machine type without a version is
// an alias: its version is left to the host.
func (g *guest) operatingSystem() {
	at := field.NewPath("spec", "domain", "machine", "type")
	machine := g.machine(at)
	g.domain.OS = &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm", Arch: g.arch.libvirt, Machine: machine}}
	g.leaveToHost(kindMachine, at, "")
	if g.arch.smbios {
		g.domain.OS.SMBios = &libvirtxml.DomainSMBios{Mode: "sysinfo"}
	}
	if s := g.spec.StartStrategy; s != nil && *s == kubevirtv1.StartStrategyPaused {
		g.domain.OS.BootMenu = &libvirtxml.DomainBootMenu{Enable: "yes", Timeout: fmt.Sprint(bootMenuMilliseconds)}
	}
	g.reboot()
}

// machine returns the machine type. The VMI overrides the profile, unless it has the default that
// stage 1 sets.
func (g *guest) machine(at *field.Path) string {
	machine := cmp.Or(g.settings.Machine, g.arch.machine)
	if m := g.spec.Domain.Machine; m != nil && m.Type != "" && (m.Type != g.arch.machine || g.settings.Machine == "") {
		machine = m.Type
	}
	known := g.arch.name == "amd64" && machine == "pc" ||
		slices.ContainsFunc(g.arch.machines, func(prefix string) bool { return strings.HasPrefix(machine, prefix) })
	switch {
	case !machineForm.MatchString(machine):
		g.reject(field.Invalid(at, machine, fmt.Sprintf("must be the name of a machine type such as %s", g.arch.machine)))
	case !known:
		g.reject(field.Invalid(at, machine, fmt.Sprintf(
			"must be %s or a version of it such as %s: guests of %s do not run on this one", g.arch.machine, g.arch.versioned, g.arch.name)))
	}
	return machine
}

// reboot sets what a reboot of the guest does; libvirt's default is a restart.
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
		g.reject(field.NotSupported(field.NewPath("spec", "domain", "rebootPolicy"), *policy,
			[]kubevirtv1.RebootPolicy{kubevirtv1.RebootPolicyReboot, kubevirtv1.RebootPolicyTerminate}))
	}
}

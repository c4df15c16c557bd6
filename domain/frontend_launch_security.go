package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// The bits of guest policies that KubeVirt sets: of SEV, that no debugger
// reads the guest, and that its registers are encrypted too (SEV-ES); of
// SEV-SNP, that two threads of a core may run it, and one that must be set.
const (
	sevNoDebug        = 1 << 0
	sevEncryptedState = 1 << 2
	snpThreads        = 1 << 16
	snpReserved       = 1 << 17
)

// launchSecurity guards the guest's memory against its host: SEV, SEV-SNP or
// TDX on amd64. Virtio devices then move data by way of an IOMMU, and network
// adapters have no option ROM, which would not know of it. As KubeVirt has it,
// on s390x that is all: the guest itself asks the machine for protection.
func (g *guest) launchSecurity() {
	s, at := g.spec.Domain.LaunchSecurity, field.NewPath("spec", "domain", "launchSecurity")
	if s == nil {
		return
	}
	count := 0
	for _, set := range []bool{s.SEV != nil, s.SNP != nil, s.TDX != nil} {
		if set {
			count++
		}
	}
	switch {
	case g.arch.channelIO() && count > 0:
		g.refuse(field.Forbidden(at, "must be empty on "+g.arch.name+", where the guest asks for protection itself"))
	case g.arch.channelIO():
	case g.arch.name != "amd64":
		g.refuse(field.Forbidden(at, "must be left out: it is for amd64 and s390x"))
	case count != 1:
		g.refuse(field.Forbidden(at, "must be exactly one of sev, snp and tdx"))
	default:
		g.domain.LaunchSecurity = guardOf(s)
	}
	g.behindIOMMU()
}

func guardOf(s *kubevirtv1.LaunchSecurity) *libvirtxml.DomainLaunchSecurity {
	switch {
	case s.SEV != nil:
		policy := uint(sevNoDebug)
		if s.SEV.Policy != nil && ptr.Deref(s.SEV.Policy.EncryptedState, false) {
			policy |= sevEncryptedState
		}
		return &libvirtxml.DomainLaunchSecurity{SEV: &libvirtxml.DomainLaunchSecuritySEV{Policy: &policy}}
	case s.SNP != nil:
		return &libvirtxml.DomainLaunchSecurity{SEVSNP: &libvirtxml.DomainLaunchSecuritySEVSNP{Policy: ptr.To[uint64](snpThreads | snpReserved)}}
	default:
		return &libvirtxml.DomainLaunchSecurity{TDX: &libvirtxml.DomainLaunchSecurityTDX{}}
	}
}

// behindIOMMU goes through all virtio devices. KubeVirt forgets those that its
// own API has no such switch for: tablets, sockets, display adapters.
func (g *guest) behindIOMMU() {
	const on = "on"
	g.storageBehindIOMMU(on)
	g.networkBehindIOMMU(on)
	g.displayBehindIOMMU(on)
	for i := range g.devices.RNGs {
		g.devices.RNGs[i].Driver = &libvirtxml.DomainRNGDriver{IOMMU: on}
	}
	if b := g.devices.MemBalloon; b != nil && b.Model != "none" {
		b.Driver = &libvirtxml.DomainMemBalloonDriver{IOMMU: on}
	}
}

func (g *guest) networkBehindIOMMU(on string) {
	for i := range g.devices.Interfaces {
		nic := &g.devices.Interfaces[i]
		if g.arch.optionROM {
			nic.ROM = &libvirtxml.DomainROM{Enabled: "no"}
		}
		if nic.Model != nil && nic.Model.Type == g.virtio() {
			nic.Driver = orNew(nic.Driver)
			nic.Driver.IOMMU = on
		}
	}
	if g.devices.VSock != nil {
		g.devices.VSock.Driver = &libvirtxml.DomainVSockDriver{IOMMU: on}
	}
}

func (g *guest) displayBehindIOMMU(on string) {
	for i := range g.devices.Inputs {
		if g.devices.Inputs[i].Bus == kubevirtv1.VirtIO {
			g.devices.Inputs[i].Driver = &libvirtxml.DomainInputDriver{IOMMU: on}
		}
	}
	for i := range g.devices.Videos {
		if g.devices.Videos[i].Model.Type == kubevirtv1.VirtIO {
			g.devices.Videos[i].Driver = &libvirtxml.DomainVideoDriver{IOMMU: on}
		}
	}
}

func (g *guest) storageBehindIOMMU(on string) {
	for i := range g.devices.Disks {
		if disk := &g.devices.Disks[i]; disk.Target != nil && disk.Target.Bus == kubevirtv1.VirtIO {
			disk.Driver = orNew(disk.Driver)
			disk.Driver.IOMMU = on
		}
	}
	for i := range g.devices.Filesystems {
		g.devices.Filesystems[i].Driver = orNew(g.devices.Filesystems[i].Driver)
		g.devices.Filesystems[i].Driver.IOMMU = on
	}
	for i := range g.devices.Controllers {
		if c := &g.devices.Controllers[i]; c.Type == "scsi" || c.Type == "virtio-serial" {
			c.Driver = orNew(c.Driver)
			c.Driver.IOMMU = on
		}
	}
}

func orNew[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

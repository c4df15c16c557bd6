package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// The bits of guest policies that KubeVirt sets.
const (
	sevNoDebug        = 1 << 0  // keeps debuggers from reading an SEV guest
	sevEncryptedState = 1 << 2  // encrypts the registers too (SEV-ES)
	snpThreads        = 1 << 16 // lets two threads of a core run an SEV-SNP guest
	snpReserved       = 1 << 17 // must be set
)

// launchSecurity encrypts the guest's memory by SEV, SEV-SNP or TDX on amd64. Virtio devices then
// use an IOMMU, and network adapters have no option ROM, which would not. As in KubeVirt, that is
// all on s390x, where the guest itself asks for protection.
func (g *guest) launchSecurity() {
	s, at := g.spec.Domain.LaunchSecurity, field.NewPath("spec", "domain", "launchSecurity")
	if s == nil {
		return
	}
	switch set := count(s.SEV != nil, s.SNP != nil, s.TDX != nil); {
	case g.arch.channelIO() && set > 0:
		g.reject(field.Forbidden(at, "must be empty on "+g.arch.name+", where the guest asks for protection itself"))
	case g.arch.channelIO():
	case g.arch.name != "amd64":
		g.reject(field.Forbidden(at, "must be left out: it is for amd64 and s390x"))
	case set != 1:
		g.reject(field.Forbidden(at, "must be exactly one of sev, snp and tdx"))
	default:
		g.domain.LaunchSecurity = memoryEncryption(s)
	}
	g.storageIOMMU()
	g.networkIOMMU()
	g.deviceIOMMU()
}

func count(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

func memoryEncryption(s *kubevirtv1.LaunchSecurity) *libvirtxml.DomainLaunchSecurity {
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

func (g *guest) networkIOMMU() {
	for i := range g.devices.Interfaces {
		nic := &g.devices.Interfaces[i]
		if g.arch.optionROM {
			nic.ROM = &libvirtxml.DomainROM{Enabled: "no"}
		}
		if nic.Model != nil && nic.Model.Type == g.virtio() {
			nic.Driver = orNew(nic.Driver)
			nic.Driver.IOMMU = "on"
		}
	}
	if v := g.devices.VSock; v != nil {
		v.Driver = &libvirtxml.DomainVSockDriver{IOMMU: "on"}
	}
}

// deviceIOMMU covers inputs and display adapters too, which KubeVirt omits, as it does sockets.
func (g *guest) deviceIOMMU() {
	for i := range g.devices.Inputs {
		if g.devices.Inputs[i].Bus == kubevirtv1.VirtIO {
			g.devices.Inputs[i].Driver = &libvirtxml.DomainInputDriver{IOMMU: "on"}
		}
	}
	for i := range g.devices.Videos {
		if g.devices.Videos[i].Model.Type == kubevirtv1.VirtIO {
			g.devices.Videos[i].Driver = &libvirtxml.DomainVideoDriver{IOMMU: "on"}
		}
	}
	for i := range g.devices.RNGs {
		g.devices.RNGs[i].Driver = &libvirtxml.DomainRNGDriver{IOMMU: "on"}
	}
	if b := g.devices.MemBalloon; b != nil && b.Model != "none" {
		b.Driver = &libvirtxml.DomainMemBalloonDriver{IOMMU: "on"}
	}
}

func (g *guest) storageIOMMU() {
	for i := range g.devices.Disks {
		if disk := &g.devices.Disks[i]; onVirtio(disk) {
			disk.Driver = orNew(disk.Driver)
			disk.Driver.IOMMU = "on"
		}
	}
	for i := range g.devices.Filesystems {
		g.devices.Filesystems[i].Driver = orNew(g.devices.Filesystems[i].Driver)
		g.devices.Filesystems[i].Driver.IOMMU = "on"
	}
	for i := range g.devices.Controllers {
		if c := &g.devices.Controllers[i]; c.Type == "scsi" || c.Type == "virtio-serial" {
			c.Driver = orNew(c.Driver)
			c.Driver.IOMMU = "on"
		}
	}
}

func orNew[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

// launchSecurity adds what the guest's owner needs to verify the encryption, as in KubeVirt: the
// session that the owner has prepared for SEV, and the host's quote service for TDX.
func (h *host) launchSecurity() {
	guard, spec := h.domain.LaunchSecurity, h.spec.Domain.LaunchSecurity
	if guard == nil || spec == nil {
		return
	}
	if guard.SEV != nil && spec.SEV != nil {
		guard.SEV.Session, guard.SEV.DHCert = spec.SEV.Session, spec.SEV.DHCert
	}
	if guard.TDX != nil && h.facts.QuoteSocket != "" {
		guard.TDX.QuoteGenerationService = &libvirtxml.DomainLaunchSecurityTDXQGS{Path: h.facts.QuoteSocket}
	}
}

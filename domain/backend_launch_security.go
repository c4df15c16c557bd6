package domain

import (
	"libvirt.org/go/libvirtxml"
)

// launchSecurity adds what lets the guest's owner know that it is guarded: for
// SEV the session that the owner has prepared with the host, for TDX the
// service of the host that signs quotes, as KubeVirt does.
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

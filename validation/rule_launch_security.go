package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var launchSecurityRules = []Rule{{
	ID:    "launch-security-architecture",
	Says:  "Launch security is for amd64 and s390x.",
	Check: launchSecurityArchitecture,
}, {
	ID:    "one-launch-security",
	Says:  "On amd64, launch security is exactly one of sev, snp and tdx.",
	Check: oneLaunchSecurity,
}, {
	ID:      "launch-security-enabled",
	Says:    "SEV and SNP need feature gate WorkloadEncryptionSEV, TDX needs WorkloadEncryptionTDX.",
	Cluster: true,
	Check:   launchSecurityEnabled,
}, {
	ID:    "launch-security-needs-efi",
	Says:  "SEV, SNP and TDX need EFI.",
	Check: launchSecurityNeedsEFI,
}, {
	ID:    "launch-security-without-secure-boot",
	Says:  "SEV and SNP go without secure boot.",
	Check: launchSecurityWithoutSecureBoot,
}, {
	ID:    "launch-security-without-persistent-efi",
	Says:  "SNP and TDX go without persistent EFI variables.",
	Check: launchSecurityWithoutPersistentEFI,
}, {
	ID:    "tdx-without-smm",
	Says:  "TDX goes without system management mode (SMM).",
	Check: tdxWithoutSMM,
}, {
	ID:    "sev-attestation-starts-paused",
	Says:  "A machine with SEV attestation starts paused.",
	Check: sevAttestationStartsPaused,
}, {
	ID:    "launch-security-without-network-boot",
	Says:  "With SEV, SNP and TDX no interface has a boot order.",
	Check: launchSecurityWithoutNetworkBoot,
}}

// A guard is how the memory of a guest is guarded against its host.
type guard string

const (
	sev guard = "SEV"
	snp guard = "SNP"
	tdx guard = "TDX"
)

// guards are those that m asks for.
func guards(m *Machine) []guard {
	security := m.Spec.Domain.LaunchSecurity
	if security == nil || m.Architecture() != "amd64" {
		return nil
	}
	var out []guard
	if security.SEV != nil {
		out = append(out, sev)
	}
	if security.SNP != nil {
		out = append(out, snp)
	}
	if security.TDX != nil {
		out = append(out, tdx)
	}
	return out
}

// guardOf is the guard of m; "" where it has none, or oneLaunchSecurity reports it.
func guardOf(m *Machine) guard {
	if all := guards(m); len(all) == 1 {
		return all[0]
	}
	return ""
}

func launchSecurityArchitecture(m *Machine, r *Report) {
	if architecture := m.Architecture(); m.Spec.Domain.LaunchSecurity != nil && architecture == "arm64" {
		r.Add(field.Forbidden(m.Domain("launchSecurity"), "is for amd64 and s390x, and this machine is "+architecture))
	}
}

func oneLaunchSecurity(m *Machine, r *Report) {
	if m.Spec.Domain.LaunchSecurity != nil && m.Architecture() == "amd64" && len(guards(m)) != 1 {
		r.Add(field.Forbidden(m.Domain("launchSecurity"), "must be exactly one of sev, snp and tdx"))
	}
}

func launchSecurityEnabled(m *Machine, r *Report) {
	gate := GateSEV
	switch guardOf(m) {
	case "":
		return
	case tdx:
		gate = GateTDX
	}
	if !m.Config.Enabled(gate) {
		r.Add(disabled(m.Domain("launchSecurity"), gate))
	}
}

func launchSecurityNeedsEFI(m *Machine, r *Report) {
	if guard := guardOf(m); guard != "" && efiOf(m) == nil && !m.PreferencesElsewhere() {
		r.Add(field.Required(m.Domain("firmware", "bootloader", "efi"), string(guard)+" needs it"))
	}
}

func launchSecurityWithoutSecureBoot(m *Machine, r *Report) {
	guard := guardOf(m)
	if (guard == sev || guard == snp) && bootsSecurely(m) && !(efiOf(m).SecureBoot == nil && m.PreferencesElsewhere()) {
		r.Add(field.Forbidden(m.Domain("firmware", "bootloader", "efi", "secureBoot"), "must be false with "+string(guard)+"; it is on by default"))
	}
}

func launchSecurityWithoutPersistentEFI(m *Machine, r *Report) {
	guard, efi := guardOf(m), efiOf(m)
	if (guard == snp || guard == tdx) && efi != nil && isOn(efi.Persistent, false) {
		r.Add(field.Forbidden(m.Domain("firmware", "bootloader", "efi", "persistent"), "must be false with "+string(guard)))
	}
}

func tdxWithoutSMM(m *Machine, r *Report) {
	if guardOf(m) == tdx && enabled(featuresOf(m).SMM) {
		r.Add(field.Forbidden(m.Domain("features", "smm"), "must be off with TDX"))
	}
}

// sevAttestationStartsPaused leaves strategies that are none to startStrategy.
func sevAttestationStartsPaused(m *Machine, r *Report) {
	if guardOf(m) == sev && m.Spec.Domain.LaunchSecurity.SEV.Attestation != nil && m.Spec.StartStrategy == nil {
		r.Add(field.Required(m.Path("spec", "startStrategy"), "must be Paused with launchSecurity.sev.attestation"))
	}
}

func launchSecurityWithoutNetworkBoot(m *Machine, r *Report) {
	guard := guardOf(m)
	if guard == "" {
		return
	}
	for i := range m.Spec.Domain.Devices.Interfaces {
		if m.Spec.Domain.Devices.Interfaces[i].BootOrder != nil {
			r.Add(field.Forbidden(m.Device("interfaces").Index(i).Child("bootOrder"), string(guard)+" cannot boot from the network"))
		}
	}
}

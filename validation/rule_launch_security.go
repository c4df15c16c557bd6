package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

var launchSecurityRules = []Rule{{
	ID:          "launch-security-architecture",
	Requirement: "Launch security is supported on amd64 and s390x only.",
	Check: func(vm *ExpandedVM, r *Report) {
		if architecture := vm.Architecture(); vm.Spec.Domain.LaunchSecurity != nil && architecture == "arm64" {
			r.Add(field.Forbidden(vm.Domain("launchSecurity"), "is not supported on "+architecture+", only on amd64 and s390x"))
		}
	},
}, {
	ID:          "one-launch-security",
	Requirement: "On amd64, launch security is exactly one of sev, snp and tdx.",
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec.Domain.LaunchSecurity != nil && vm.Architecture() == "amd64" && len(launchTechnologies(vm)) != 1 {
			r.Add(field.Forbidden(vm.Domain("launchSecurity"), "must be exactly one of sev, snp and tdx"))
		}
	},
}, {
	ID:                "launch-security-enabled",
	Requirement:       "SEV and SNP need feature gate WorkloadEncryptionSEV, TDX needs WorkloadEncryptionTDX.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		gate := GateSEV
		switch launchTechnology(vm) {
		case "":
			return
		case tdx:
			gate = GateTDX
		}
		if !vm.Config.Enabled(gate) {
			r.Add(disabled(vm.Domain("launchSecurity"), gate))
		}
	},
}, {
	ID:          "launch-security-needs-efi",
	Requirement: "SEV, SNP and TDX need EFI.",
	Check: func(vm *ExpandedVM, r *Report) {
		if guard := launchTechnology(vm); guard != "" && efiOf(vm) == nil && !vm.hasPreference() {
			r.Add(field.Required(vm.Domain("firmware", "bootloader", "efi"), string(guard)+" needs it"))
		}
	},
}, {
	ID:          "launch-security-without-secure-boot",
	Requirement: "SEV and SNP exclude secure boot.",
	Check: func(vm *ExpandedVM, r *Report) {
		guard := launchTechnology(vm)
		if (guard == sev || guard == snp) && bootsSecurely(vm) && !(efiOf(vm).SecureBoot == nil && vm.hasPreference()) {
			r.Add(field.Forbidden(vm.Domain("firmware", "bootloader", "efi", "secureBoot"),
				"must be false with "+string(guard)+"; it is on by default"))
		}
	},
}, {
	ID:          "launch-security-without-persistent-efi",
	Requirement: "SNP and TDX exclude persistent EFI variables.",
	Check: func(vm *ExpandedVM, r *Report) {
		guard, efi := launchTechnology(vm), efiOf(vm)
		if (guard == snp || guard == tdx) && efi != nil && ptr.Deref(efi.Persistent, false) {
			r.Add(field.Forbidden(vm.Domain("firmware", "bootloader", "efi", "persistent"), "must be false with "+string(guard)))
		}
	},
}, {
	ID:          "tdx-without-smm",
	Requirement: "TDX excludes system management mode (SMM).",
	Check: func(vm *ExpandedVM, r *Report) {
		if launchTechnology(vm) == tdx && enabled(featuresOf(vm).SMM) {
			r.Add(field.Forbidden(vm.Domain("features", "smm"), "must be off with TDX"))
		}
	},
}, {
	ID:          "sev-attestation-starts-paused",
	Requirement: "A VMI with SEV attestation starts paused.",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores unknown strategies, which start-strategy reports.
		if launchTechnology(vm) == sev && vm.Spec.Domain.LaunchSecurity.SEV.Attestation != nil && vm.Spec.StartStrategy == nil {
			r.Add(field.Required(vm.Path("spec", "startStrategy"), "must be Paused with launchSecurity.sev.attestation"))
		}
	},
}, {
	ID:          "launch-security-without-network-boot",
	Requirement: "With SEV, SNP and TDX no interface has a boot order.",
	Check: func(vm *ExpandedVM, r *Report) {
		guard := launchTechnology(vm)
		if guard == "" {
			return
		}
		for i := range vm.Spec.Domain.Devices.Interfaces {
			if vm.Spec.Domain.Devices.Interfaces[i].BootOrder != nil {
				r.Add(field.Forbidden(vm.Device("interfaces").Index(i).Child("bootOrder"), string(guard)+" cannot boot from the network"))
			}
		}
	},
}}

// A technology protects the memory of a guest from its host.
type technology string

const (
	sev technology = "SEV"
	snp technology = "SNP"
	tdx technology = "TDX"
)

// launchTechnologies returns the technologies that launchSecurity selects.
func launchTechnologies(vm *ExpandedVM) []technology {
	security := vm.Spec.Domain.LaunchSecurity
	if security == nil || vm.Architecture() != "amd64" {
		return nil
	}
	var out []technology
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

// launchTechnology returns the only technology of the VMI. It returns "" if there is none, or
// several, which one-launch-security reports.
func launchTechnology(vm *ExpandedVM) technology {
	if all := launchTechnologies(vm); len(all) == 1 {
		return all[0]
	}
	return ""
}

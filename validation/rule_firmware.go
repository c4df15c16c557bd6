package validation

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var firmwareRules = []Rule{{
	ID:          "architecture-supported",
	Leaf:        true,
	Requirement: "The architecture is " + architectures.String() + ".",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		architectures.check(r, vm.Architecture(), func() *field.Path { return vm.Path("spec", "architecture") })
	},
}, {
	ID:                "machine-type-supported",
	Leaf:              true,
	Requirement:       "The machine type is one that the cluster allows for the architecture.",
	ClusterConfigured: true,
	Check: func(vm *ExpandedVM, r *Report) {
		machine := vm.Spec.Domain.Machine
		if machine == nil || machine.Type == "" || !slices.Contains(architectures, vm.Architecture()) {
			return
		}
		patterns := vm.Config.machineTypes(vm.Architecture())
		if !slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, machine.Type) }) {
			err := field.NotSupported(vm.Domain("machine", "type"), machine.Type, patterns)
			err.Detail += r.suggest(machine.Type, func(yield func(string) bool) {
				for _, pattern := range patterns {
					if !yield(strings.TrimSuffix(pattern, "*")) {
						return
					}
				}
			})
			r.Add(err)
		}
	},
}, {
	ID:          "one-bootloader",
	Requirement: "A VMI boots with BIOS or with EFI, not with both.",
	Check: func(vm *ExpandedVM, r *Report) {
		if bootloader := firmwareOf(vm).Bootloader; bootloader != nil && bootloader.EFI != nil && bootloader.BIOS != nil {
			r.Add(field.Forbidden(vm.Domain("firmware", "bootloader"), "must be either bios or efi"))
		}
	},
}, {
	ID:          "bootloader-architecture",
	Requirement: "A VMI on arm64 boots with EFI.",
	Strictness:  EarlierThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores VMIs with both bootloaders, which one-bootloader reports.
		bootloader := firmwareOf(vm).Bootloader
		if vm.Architecture() == "arm64" && bootloader != nil && bootloader.BIOS != nil && bootloader.EFI == nil {
			r.Add(field.Forbidden(vm.Domain("firmware", "bootloader", "bios"), "arm64 boots with efi"))
		}
	},
}, {
	ID:          "secure-boot-needs-smm",
	Requirement: "Secure boot needs system management mode (SMM).",
	Check: func(vm *ExpandedVM, r *Report) {
		// Ignores confidential guests: launchSecurityRules forbid secure boot or SMM.
		if !bootsSecurely(vm) || enabled(featuresOf(vm).SMM) || vm.Spec.Domain.LaunchSecurity != nil || vm.hasPreference() ||
			vm.hasInstancetype() {
			return
		}
		at := vm.Domain("firmware", "bootloader", "efi", "secureBoot")
		if vm.Architecture() == "arm64" {
			r.Add(field.Forbidden(at, "must be false on arm64, which has no SMM"))
			return
		}
		r.Add(field.Forbidden(at, "needs domain.features.smm.enabled: true; secureBoot: false turns it off, which is on by default"))
	},
}, {
	ID:          "reboot-policy-enabled",
	Requirement: "A reboot policy needs feature gate RebootPolicy.",
	Gate:        GateRebootPolicy,
	Check: func(vm *ExpandedVM, r *Report) {
		if vm.Spec.Domain.RebootPolicy != nil {
			r.addDisabled(vm.Domain("rebootPolicy"))
		}
	},
}, {
	ID:          "acpi-table-given",
	Requirement: "ACPI tables are a SLIC or an MSDM table, or both.",
	Check: func(vm *ExpandedVM, r *Report) {
		if acpi := firmwareOf(vm).ACPI; acpi != nil && acpi.SlicNameRef == "" && acpi.MsdmNameRef == "" {
			r.Add(field.Required(vm.Domain("firmware", "acpi"), "must name a volume in slicNameRef or msdmNameRef"))
		}
	},
}, {
	ID:          "acpi-table-is-secret-volume",
	Requirement: "An ACPI table is a volume with the source secret.",
	Check: func(vm *ExpandedVM, r *Report) {
		if acpi := firmwareOf(vm).ACPI; acpi != nil {
			acpiTable(vm, r, "slicNameRef", acpi.SlicNameRef)
			acpiTable(vm, r, "msdmNameRef", acpi.MsdmNameRef)
		}
	},
}}

// architectures lists the architectures that KubeVirt supports; the first is the default.
var architectures = valueSet{"amd64", "arm64", "s390x"}

// matches reports whether name matches a pattern such as q35*; an invalid pattern matches nothing.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// firmwareOf returns spec.domain.firmware, or an empty one.
func firmwareOf(vm *ExpandedVM) *kubevirtv1.Firmware { return orEmpty(vm.Spec.Domain.Firmware) }

// efiOf returns the EFI bootloader, or nil.
func efiOf(vm *ExpandedVM) *kubevirtv1.EFI {
	if bootloader := firmwareOf(vm).Bootloader; bootloader != nil {
		return bootloader.EFI
	}
	return nil
}

// bootsSecurely reports whether the VMI uses secure boot, the default of EFI except on arm64.
// KubeVirt makes this exception when it creates a VMI, after it has validated the VM.
func bootsSecurely(vm *ExpandedVM) bool {
	efi := efiOf(vm)
	return efi != nil && ptr.Deref(efi.SecureBoot, vm.Architecture() != "arm64" || vm.lacksDefaults())
}

// enabled reports whether a feature is set and not disabled.
func enabled(feature *kubevirtv1.FeatureState) bool {
	return feature != nil && ptr.Deref(feature.Enabled, true)
}

// featuresOf returns spec.domain.features, or empty features.
func featuresOf(vm *ExpandedVM) *kubevirtv1.Features { return orEmpty(vm.Spec.Domain.Features) }

func acpiTable(vm *ExpandedVM, r *Report, ref, name string) {
	if name == "" {
		return
	}
	switch volume := vm.Volume(name); {
	case volume == nil:
		r.Add(field.Invalid(vm.Domain("firmware", "acpi", ref), name, "must be the name of a volume"+r.suggest(name, secretVolumes(vm))))
	case volume.Secret == nil:
		r.Add(field.Invalid(vm.Domain("firmware", "acpi", ref), name, "must be a volume with the source secret"))
	}
}

// secretVolumes yields the names of volumes with the source secret.
func secretVolumes(vm *ExpandedVM) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range vm.Spec.Volumes {
			if vm.Spec.Volumes[i].Secret != nil && !yield(vm.Spec.Volumes[i].Name) {
				return
			}
		}
	}
}

package validation

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var firmwareRules = []Rule{{
	ID:    "architecture-supported",
	Leaf:  true,
	Says:  "The architecture is amd64, arm64 or s390x.",
	Reach: EarlierThanKubeVirt,
	Check: architectureSupported,
}, {
	ID:      "machine-type-supported",
	Leaf:    true,
	Says:    "The machine type is one that the cluster allows for the architecture.",
	Cluster: true,
	Check:   machineTypeSupported,
}, {
	ID:    "one-bootloader",
	Says:  "A machine boots with BIOS or with EFI, not with both.",
	Check: oneBootloader,
}, {
	ID:    "bootloader-architecture",
	Says:  "On arm64 a machine boots with EFI.",
	Reach: EarlierThanKubeVirt,
	Check: bootloaderArchitecture,
}, {
	ID:    "secure-boot-needs-smm",
	Says:  "Secure boot needs system management mode (SMM).",
	Check: secureBootNeedsSMM,
}, {
	ID:      "reboot-policy-enabled",
	Says:    "A reboot policy needs feature gate RebootPolicy.",
	Cluster: true,
	Check:   rebootPolicyEnabled,
}}

// architectures are those that KubeVirt supports; the first is the default.
var architectures = []string{"amd64", "arm64", "s390x"}

func architectureSupported(m *Machine, r *Report) {
	if architecture := m.Architecture(); !slices.Contains(architectures, architecture) {
		r.Add(r.unsupported(m.Path("spec", "architecture"), architecture, architectures...))
	}
}

func machineTypeSupported(m *Machine, r *Report) {
	machine := m.Spec.Domain.Machine
	if machine == nil || machine.Type == "" || !slices.Contains(architectures, m.Architecture()) {
		return
	}
	patterns := m.Config.machineTypes(m.Architecture())
	if !slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, machine.Type) }) {
		err := field.NotSupported(m.Domain("machine", "type"), machine.Type, patterns)
		err.Detail += r.Suggest(machine.Type, func(yield func(string) bool) {
			for _, pattern := range patterns {
				if !yield(strings.TrimSuffix(pattern, "*")) {
					return
				}
			}
		})
		r.Add(err)
	}
}

// matches reports whether name fits a pattern such as q35*; one that is none fits nothing.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// firmwareOf is the firmware of m, or one that says nothing.
func firmwareOf(m *Machine) *kubevirtv1.Firmware {
	if firmware := m.Spec.Domain.Firmware; firmware != nil {
		return firmware
	}
	return &kubevirtv1.Firmware{}
}

// efiOf is how m boots with EFI; nil where it does not.
func efiOf(m *Machine) *kubevirtv1.EFI {
	if bootloader := firmwareOf(m).Bootloader; bootloader != nil {
		return bootloader.EFI
	}
	return nil
}

// bootsSecurely reports whether m boots with secure boot: EFI does, except on
// arm64, unless it is turned off.
func bootsSecurely(m *Machine) bool {
	efi := efiOf(m)
	return efi != nil && isOn(efi.SecureBoot, m.Architecture() != "arm64")
}

// isOn is what a switch says, or what it says when nobody set it.
func isOn(given *bool, byDefault bool) bool {
	if given == nil {
		return byDefault
	}
	return *given
}

// enabled reports whether a feature is there and not turned off.
func enabled(feature *kubevirtv1.FeatureState) bool {
	return feature != nil && isOn(feature.Enabled, true)
}

// featuresOf are the features of m, or such as say nothing.
func featuresOf(m *Machine) *kubevirtv1.Features {
	if features := m.Spec.Domain.Features; features != nil {
		return features
	}
	return &kubevirtv1.Features{}
}

func oneBootloader(m *Machine, r *Report) {
	if bootloader := firmwareOf(m).Bootloader; bootloader != nil && bootloader.EFI != nil && bootloader.BIOS != nil {
		r.Add(field.Forbidden(m.Domain("firmware", "bootloader"), "must be either bios or efi"))
	}
}

// bootloaderArchitecture leaves machines with both to oneBootloader.
func bootloaderArchitecture(m *Machine, r *Report) {
	bootloader := firmwareOf(m).Bootloader
	if m.Architecture() == "arm64" && bootloader != nil && bootloader.BIOS != nil && bootloader.EFI == nil {
		r.Add(field.Forbidden(m.Domain("firmware", "bootloader", "bios"), "arm64 boots with efi"))
	}
}

// secureBootNeedsSMM leaves confidential guests to rules of theirs: they go
// without one or the other.
func secureBootNeedsSMM(m *Machine, r *Report) {
	if !bootsSecurely(m) || enabled(featuresOf(m).SMM) || m.PreferencesElsewhere() || m.Spec.Domain.LaunchSecurity != nil || m.SizedElsewhere() {
		return
	}
	at := m.Domain("firmware", "bootloader", "efi", "secureBoot")
	if m.Architecture() == "arm64" {
		r.Add(field.Forbidden(at, "must be false on arm64, which has no SMM"))
		return
	}
	r.Add(field.Forbidden(at, "needs domain.features.smm.enabled: true; secureBoot: false turns it off, which is on by default"))
}

func rebootPolicyEnabled(m *Machine, r *Report) {
	if m.Spec.Domain.RebootPolicy != nil && !m.Config.Enabled(GateRebootPolicy) {
		r.Add(disabled(m.Domain("rebootPolicy"), GateRebootPolicy))
	}
}

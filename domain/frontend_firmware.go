package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// firmware says whether the guest boots by BIOS or UEFI, and whether UEFI
// insists on signatures. Which build that is, is the host's.
func (g *guest) firmware() {
	if value, at := annotation(g.vmi, kubevirtv1.IgnitionAnnotation); value != "" {
		g.refuse(field.Forbidden(at, "not supported: it is a file that KubeVirt's own launcher writes; use cloud-init, a volume cloudInitConfigDrive or cloudInitNoCloud"))
	}
	f := g.spec.Domain.Firmware
	if f == nil {
		return
	}
	if f.ACPI != nil && !g.arch.acpi {
		g.refuse(field.Forbidden(field.NewPath("spec", "domain", "firmware", "acpi"), "guests of "+g.arch.name+" have no ACPI tables; remove it"))
	}
	if f.Bootloader == nil {
		return
	}
	g.bootloader(f.Bootloader, field.NewPath("spec", "domain", "firmware", "bootloader"))
}

func (g *guest) bootloader(b *kubevirtv1.Bootloader, at *field.Path) {
	if b.BIOS != nil && b.EFI != nil {
		g.refuse(field.Forbidden(at.Child("bios"), "a guest boots by bios or by efi; remove one of them"))
		return
	}
	if b.BIOS != nil && ptr.Deref(b.BIOS.UseSerial, false) {
		if g.arch.name != "amd64" {
			g.refuse(field.Forbidden(at.Child("bios", "useSerial"), "only guests of amd64 have a BIOS; remove it"))
		}
		g.domain.OS.BIOS = &libvirtxml.DomainBIOS{UseSerial: "yes"}
	}
	if b.EFI != nil {
		g.efi(b.EFI, at.Child("efi"))
	}
}

// efi leaves a loader without a path, and room for variables. Secure boot is
// on where nothing is said, as KubeVirt has it; it needs SMM.
func (g *guest) efi(efi *kubevirtv1.EFI, at *field.Path) {
	if g.arch.name == "s390x" {
		g.refuse(field.Forbidden(at, "guests of s390x have no UEFI; remove it"))
		return
	}
	secure := ptr.Deref(efi.SecureBoot, !g.measured())
	if smm := g.spec.Domain.Features; secure && g.arch.name == "amd64" && (smm == nil || !on(smm.SMM)) {
		g.refuse(field.Required(field.NewPath("spec", "domain", "features", "smm"), "secure boot needs SMM: set it to {enabled: true}, or set "+at.Child("secureBoot").String()+" to false"))
	}
	g.domain.OS.Loader = &libvirtxml.DomainLoader{Readonly: "yes", Secure: yesNo(secure), Type: "pflash"}
	g.domain.OS.NVRam = &libvirtxml.DomainNVRam{}
}

// measured says that the guest's memory is encrypted such that its firmware is
// measured instead of checking signatures, and keeps no variables.
func (g *guest) measured() bool {
	s := g.spec.Domain.LaunchSecurity
	return s != nil && (s.SNP != nil || s.TDX != nil)
}

// on says whether a feature is there and not switched off.
func on(f *kubevirtv1.FeatureState) bool { return f != nil && ptr.Deref(f.Enabled, true) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

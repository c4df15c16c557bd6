package domain

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// firmware finds the UEFI build that boots the guest, and the file of its
// variables. As in KubeVirt, guests under SEV-SNP and TDX have firmware
// without variables, in a ROM.
func (h *host) firmware() {
	f := h.spec.Domain.Firmware
	if f == nil || h.domain.OS == nil {
		return
	}
	if f.ACPI != nil {
		h.acpiTables(f.ACPI)
	}
	loader := h.domain.OS.Loader
	if loader == nil {
		return
	}
	build := h.firmwareBuild(loader.Secure == "yes")
	if build == nil {
		return
	}
	loader.Path = build.Code
	h.decide(Decision{Field: "spec.domain.firmware.bootloader.efi", Element: "os/loader", Value: build.Code, Reason: "the host's UEFI for such guests"})
	if build.Vars == "" {
		h.domain.OS.NVRam, loader.Type = nil, "rom"
		return
	}
	h.domain.OS.NVRam = &libvirtxml.DomainNVRam{Template: build.Vars, NVRam: h.expand(nvramRule, nil)}
}

// firmwareBuild is the first of the host's that does what is wanted, neither
// less nor more.
func (h *host) firmwareBuild(secure bool) *Firmware {
	confidential := confidentiality(h.spec.Domain.LaunchSecurity)
	for i := range h.facts.Firmware {
		build := &h.facts.Firmware[i]
		if build.Architecture == h.arch.name && build.Secure == secure && build.Confidential == confidential {
			return build
		}
	}
	what := h.arch.name
	if secure {
		what += ", with secure boot"
	}
	if confidential != "" {
		what += ", for " + confidential
	}
	h.refuse(field.Invalid(field.NewPath("spec", "domain", "firmware", "bootloader", "efi"), what, "the host has no such UEFI (facts.firmware)"))
	return nil
}

// confidentiality is the technique that hides a guest's memory from the host,
// as Firmware names it.
func confidentiality(l *kubevirtv1.LaunchSecurity) string {
	switch {
	case l == nil:
		return ""
	case l.SEV != nil:
		return "SEV"
	case l.SNP != nil:
		return "SEV-SNP"
	case l.TDX != nil:
		return "TDX"
	}
	return ""
}

// acpiTables adds the tables that a Windows licence needs. They are files,
// slic.bin and msdm.bin, of secrets: in a folder that is named as the
// volume's image would be, without what follows its last dot.
func (h *host) acpiTables(acpi *kubevirtv1.ACPI) {
	at := field.NewPath("spec", "domain", "firmware", "acpi")
	if acpi.SlicNameRef == "" && acpi.MsdmNameRef == "" {
		h.refuse(field.Required(at.Child("slicNameRef"), "name the volume of one of the tables slic and msdm, or remove acpi"))
		return
	}
	h.domain.OS.ACPI = &libvirtxml.DomainACPI{}
	for _, table := range []struct{ kind, volume, field string }{
		{"slic", acpi.SlicNameRef, "slicNameRef"}, {"msdm", acpi.MsdmNameRef, "msdmNameRef"},
	} {
		if table.volume == "" {
			continue
		}
		volume, index := h.volume(table.volume)
		if volume == nil || volume.Secret == nil {
			h.refuse(field.Invalid(at.Child(table.field), table.volume, "must be the name of a volume that is a secret"))
			continue
		}
		img, err := h.image(volume, index)
		if err != nil {
			h.refuse(err)
			continue
		}
		folder := strings.TrimSuffix(img.path, path.Ext(img.path))
		h.domain.OS.ACPI.Tables = append(h.domain.OS.ACPI.Tables, libvirtxml.DomainACPITable{
			Type: table.kind, Path: path.Join(folder, fmt.Sprintf("%s.bin", table.kind)),
		})
	}
}

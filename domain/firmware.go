package domain

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// firmware selects BIOS or UEFI, and secure boot. Which build of UEFI is used depends on the host.
func (g *guest) firmware() {
	if value, at := annotation(g.vmi, kubevirtv1.IgnitionAnnotation); value != "" {
		g.reject(field.Forbidden(at, "not supported: it is a file that KubeVirt's own launcher writes; use cloud-init, a volume cloudInitConfigDrive or cloudInitNoCloud"))
	}
	f, at := g.spec.Domain.Firmware, field.NewPath("spec", "domain", "firmware")
	if f == nil {
		return
	}
	if f.ACPI != nil && !g.arch.acpi {
		g.reject(field.Forbidden(at.Child("acpi"), "guests of "+g.arch.name+" have no ACPI tables; remove it"))
	}
	if f.Bootloader != nil {
		g.bootloader(f.Bootloader.BIOS, f.Bootloader.EFI, at.Child("bootloader"))
	}
}

func (g *guest) bootloader(bios *kubevirtv1.BIOS, efi *kubevirtv1.EFI, at *field.Path) {
	if bios != nil && efi != nil {
		g.reject(field.Forbidden(at.Child("bios"), "a guest boots by bios or by efi; remove one of them"))
		return
	}
	if bios != nil && ptr.Deref(bios.UseSerial, false) {
		if g.arch.name != "amd64" {
			g.reject(field.Forbidden(at.Child("bios", "useSerial"), "only guests of amd64 have a BIOS; remove it"))
		}
		if !g.hasSerial() {
			g.reject(field.Invalid(at.Child("bios", "useSerial"), true, "needs the serial console: remove autoattachSerialConsole: false"))
		}
		g.domain.OS.BIOS = &libvirtxml.DomainBIOS{UseSerial: "yes"}
	}
	if efi != nil {
		g.efi(efi, at.Child("efi"))
	}
}

// efi adds a loader without a path, and a variable store. As in KubeVirt, secure boot is the
// default; it requires SMM.
func (g *guest) efi(efi *kubevirtv1.EFI, at *field.Path) {
	if g.arch.name == "s390x" {
		g.reject(field.Forbidden(at, "guests of s390x have no UEFI; remove it"))
		return
	}
	// Firmware of SEV-SNP and TDX guests is measured; it checks no signatures.
	guard := g.spec.Domain.LaunchSecurity
	secure := ptr.Deref(efi.SecureBoot, guard == nil || guard.SNP == nil && guard.TDX == nil)
	if g.arch.name == "amd64" {
		g.checkFeaturesOfEFI(secure, at)
	}
	g.domain.OS.Loader = &libvirtxml.DomainLoader{Readonly: "yes", Secure: yesNo(secure), Type: "pflash"}
	g.domain.OS.NVRam = &libvirtxml.DomainNVRam{}
}

func (g *guest) checkFeaturesOfEFI(secure bool, at *field.Path) {
	f, features := orNew(g.spec.Domain.Features), field.NewPath("spec", "domain", "features")
	if !on(&f.ACPI) {
		g.reject(field.Invalid(features.Child("acpi", "enabled"), false, "must be true, because UEFI needs ACPI; or remove "+at.String()))
	}
	if machine := g.domain.OS.Type.Machine; secure && g.onI440FX() {
		g.reject(field.Invalid(at.Child("secureBoot"), true, "must be false: secure boot needs a machine of type q35, not "+machine))
	}
	if secure && !on(f.SMM) {
		g.reject(field.Required(features.Child("smm"), "secure boot needs SMM: set it to {enabled: true}, or set "+at.Child("secureBoot").String()+" to false"))
	}
}

// on reports whether a feature is set and not disabled.
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

// firmware sets the UEFI build that boots the guest, and its variable store. As in KubeVirt,
// firmware of SEV-SNP and TDX guests is in a ROM and has no variables.
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

// firmwareBuild returns the host's first build with exactly the wanted properties.
func (h *host) firmwareBuild(secure bool) *Firmware {
	confidential := confidentiality(h.spec.Domain.LaunchSecurity)
	for i := range h.facts.Firmware {
		build := &h.facts.Firmware[i]
		if build.Architecture == h.arch.name && build.Secure == secure && build.Confidential == confidential {
			return build
		}
	}
	wanted := h.arch.name
	if secure {
		wanted += ", with secure boot"
	}
	if confidential != "" {
		wanted += ", for " + confidential
	}
	h.reject(field.Invalid(field.NewPath("spec", "domain", "firmware", "bootloader", "efi"), wanted, "the host has no such UEFI (facts.firmware)"))
	return nil
}

// confidentiality is the technique that hides a guest's memory from the host, as Firmware names it.
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

// acpiTables adds the tables of a Windows licence. They are files of Secrets, slic.bin and
// msdm.bin, in a folder with the path of the volume's image without its extension.
func (h *host) acpiTables(acpi *kubevirtv1.ACPI) {
	at := field.NewPath("spec", "domain", "firmware", "acpi")
	if acpi.SlicNameRef == "" && acpi.MsdmNameRef == "" {
		h.reject(field.Required(at.Child("slicNameRef"), "name the volume of one of the tables slic and msdm, or remove acpi"))
		return
	}
	h.domain.OS.ACPI = &libvirtxml.DomainACPI{}
	for _, table := range []struct{ kind, volume string }{{"slic", acpi.SlicNameRef}, {"msdm", acpi.MsdmNameRef}} {
		if table.volume == "" {
			continue
		}
		volume, index := h.volume(table.volume)
		if volume == nil || volume.Secret == nil {
			h.reject(field.Invalid(at.Child(table.kind+"NameRef"), table.volume, "must be the name of a volume that is a secret"))
			continue
		}
		img, err := h.image(volume, index)
		if err != nil {
			h.reject(err)
			continue
		}
		folder := strings.TrimSuffix(img.path, path.Ext(img.path))
		h.domain.OS.ACPI.Tables = append(h.domain.OS.ACPI.Tables, libvirtxml.DomainACPITable{Type: table.kind, Path: path.Join(folder, table.kind+".bin")})
	}
}

// kernelBootFolder is the folder of kernels next to container disks, as in KubeVirt.
const kernelBootFolder = "kernel-boot"

// kernel sets the command line of a guest that boots a kernel directly.
func (g *guest) kernel() {
	f := g.spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil {
		return
	}
	at := field.NewPath("spec", "domain", "firmware", "kernelBoot")
	container := f.KernelBoot.Container
	switch {
	case container == nil && f.KernelBoot.KernelArgs != "":
		g.reject(field.Required(at.Child("container"), "kernelArgs are for a kernel: name the image that holds it, or remove kernelArgs"))
	case container != nil && container.KernelPath == "" && container.InitrdPath == "":
		g.reject(field.Required(at.Child("container", "kernelPath"), "name the file of the kernel, of the initrd, or both"))
	}
	g.domain.OS.Cmdline = f.KernelBoot.KernelArgs
}

// kernel sets the paths of the kernel and of the initial RAM disk: in the folder kernel-boot next
// to container disks, with their file names in the image. Where the path rule tells container disks
// apart by file name, each image has a folder of its own there.
func (h *host) kernel() {
	f := h.spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil || h.domain.OS == nil {
		return
	}
	container := f.KernelBoot.Container
	image := h.expand(containerDiskRule, map[string]string{"image": container.Image, "volume": kernelBootFolder, "index": kernelBootFolder})
	folder := path.Join(path.Dir(image), kernelBootFolder)
	if template := containerDiskRule.of(h.settings.Paths); strings.Contains(path.Base(template), "{image}") && !strings.Contains(path.Dir(template), "{image}") {
		folder = path.Join(folder, fileName(container.Image))
	}
	at := field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
	h.domain.OS.Kernel = h.bootFile(folder, container.KernelPath, at.Child("kernelPath"))
	h.domain.OS.Initrd = h.bootFile(folder, container.InitrdPath, at.Child("initrdPath"))
	if h.domain.OS.Kernel != "" && h.domain.OS.Kernel == h.domain.OS.Initrd {
		h.reject(field.Invalid(at.Child("initrdPath"), container.InitrdPath, "must have another file name than the kernel: both are in one folder"))
	}
}

// bootFile is the path on the host of a file of an image; empty if none is named.
func (h *host) bootFile(folder, inImage string, at *field.Path) string {
	if inImage == "" {
		return ""
	}
	base := path.Base(path.Clean(inImage))
	if base == "." || base == ".." || base == "/" {
		h.reject(field.Invalid(at, inImage, "must be the path of a file in the image"))
		return ""
	}
	return path.Join(folder, fileName(base))
}

package domain

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kernelBootFolder is where kernels lie, in the folder that container disks
// have, as in KubeVirt.
const kernelBootFolder = "kernel-boot"

// kernel says where the kernel and the initial file system lie that the guest
// boots: in the folder kernel-boot beside container disks, under the names
// that their files have in the image. Where images are files beside each other
// that are told apart by their names, they are folders in there.
func (h *host) kernel() {
	f := h.spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil || h.domain.OS == nil {
		return
	}
	container := f.KernelBoot.Container
	image := h.expand(containerDiskRule, map[string]string{"image": container.Image, "volume": kernelBootFolder, "index": kernelBootFolder})
	folder := path.Join(path.Dir(image), kernelBootFolder)
	if template := containerDiskRule.of(h.settings.Paths); strings.Contains(path.Base(template), "{image}") && !strings.Contains(path.Dir(template), "{image}") {
		folder = path.Join(folder, FileName(container.Image))
	}
	at := field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
	h.domain.OS.Kernel = h.bootFile(folder, container.KernelPath, at.Child("kernelPath"))
	h.domain.OS.Initrd = h.bootFile(folder, container.InitrdPath, at.Child("initrdPath"))
	if h.domain.OS.Kernel != "" && h.domain.OS.Kernel == h.domain.OS.Initrd {
		h.refuse(field.Invalid(at.Child("initrdPath"), container.InitrdPath, "the kernel's file has the same name; they would lie in one place"))
	}
}

// bootFile is where a file of an image lies on the host; empty where none is
// named.
func (h *host) bootFile(folder, inImage string, at *field.Path) string {
	if inImage == "" {
		return ""
	}
	base := path.Base(path.Clean(inImage))
	if base == "." || base == ".." || base == "/" {
		h.refuse(field.Invalid(at, inImage, "must be the path of a file in the image"))
		return ""
	}
	return path.Join(folder, FileName(base))
}

package domain

import (
	"path"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kernelBootFolder is where kernels lie, in the folder that container disks
// have, as in KubeVirt.
const kernelBootFolder = "kernel-boot"

// kernel says where the kernel and the initial file system lie that the guest
// boots: in the folder kernel-boot beside container disks, under the names
// that their files have in the image.
func (h *host) kernel() {
	f := h.spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil || h.domain.OS == nil {
		return
	}
	container := f.KernelBoot.Container
	image := h.expand(containerDiskRule, map[string]string{"image": container.Image, "volume": kernelBootFolder, "index": kernelBootFolder})
	folder := path.Join(path.Dir(image), kernelBootFolder)
	at := field.NewPath("spec", "domain", "firmware", "kernelBoot", "container")
	file := func(name, of string) string {
		if of == "" {
			return ""
		}
		base := path.Base(path.Clean(of))
		if base == "." || base == ".." || base == "/" {
			h.refuse(field.Invalid(at.Child(name), of, "must be the path of a file in the image"))
			return ""
		}
		return path.Join(folder, fileName(base))
	}
	h.domain.OS.Kernel = file("kernelPath", container.KernelPath)
	h.domain.OS.Initrd = file("initrdPath", container.InitrdPath)
	if h.domain.OS.Kernel != "" && h.domain.OS.Kernel == h.domain.OS.Initrd {
		h.refuse(field.Invalid(at.Child("initrdPath"), container.InitrdPath, "the kernel's file has the same name; they would lie in one place"))
	}
}

package domain

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kernel gives a guest that boots a kernel directly its command line. Where
// kernel and initial file system are is the host's.
func (g *guest) kernel() {
	f := g.spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil {
		return
	}
	at := field.NewPath("spec", "domain", "firmware", "kernelBoot")
	container := f.KernelBoot.Container
	switch {
	case container == nil && f.KernelBoot.KernelArgs != "":
		g.refuse(field.Required(at.Child("container"), "kernelArgs are for a kernel: name the image that holds it, or remove kernelArgs"))
	case container != nil && container.KernelPath == "" && container.InitrdPath == "":
		g.refuse(field.Required(at.Child("container", "kernelPath"), "name the file of the kernel, of the initrd, or both"))
	}
	g.domain.OS.Cmdline = f.KernelBoot.KernelArgs
}

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var kernelBootRules = []Rule{{
	ID:    "kernel-args-need-kernel",
	Says:  "Arguments of a kernel need a container with a kernel.",
	Check: kernelArgsNeedKernel,
}, {
	ID:    "kernel-boot-image",
	Says:  "A container with a kernel has an image.",
	Check: kernelBootImage,
}, {
	ID:    "kernel-boot-path-given",
	Says:  "A container with a kernel says where the kernel or the initrd lies.",
	Check: kernelBootPathGiven,
}, {
	ID:    "kernel-boot-path-absolute",
	Leaf:  true,
	Says:  "The paths of kernel and initrd are absolute, without . and .. and doubled slashes.",
	Check: kernelBootPathAbsolute,
}}

// kernelOf is the container that m boots a kernel of; nil where there is none.
func kernelOf(m *Machine) *kubevirtv1.KernelBootContainer {
	if boot := firmwareOf(m).KernelBoot; boot != nil {
		return boot.Container
	}
	return nil
}

func kernelArgsNeedKernel(m *Machine, r *Report) {
	if boot := firmwareOf(m).KernelBoot; boot != nil && boot.Container == nil && boot.KernelArgs != "" {
		r.Add(field.Forbidden(m.Domain("firmware", "kernelBoot", "kernelArgs"), "needs kernelBoot.container, with the kernel that they are for"))
	}
}

func kernelBootImage(m *Machine, r *Report) {
	if kernel := kernelOf(m); kernel != nil && kernel.Image == "" {
		r.Add(field.Required(m.Domain("firmware", "kernelBoot", "container", "image"), "must be the image with the kernel"))
	}
}

func kernelBootPathGiven(m *Machine, r *Report) {
	if kernel := kernelOf(m); kernel != nil && kernel.KernelPath == "" && kernel.InitrdPath == "" {
		r.Add(field.Required(m.Domain("firmware", "kernelBoot", "container"), "must have kernelPath or initrdPath, or both"))
	}
}

func kernelBootPathAbsolute(m *Machine, r *Report) {
	kernel := kernelOf(m)
	if kernel == nil {
		return
	}
	if kernel.KernelPath != "" && !isCleanPath(kernel.KernelPath) {
		r.addAs(reachOfPath(kernel.KernelPath), field.Invalid(m.Domain("firmware", "kernelBoot", "container", "kernelPath"), kernel.KernelPath, cleanPathDetail))
	}
	if kernel.InitrdPath != "" && !isCleanPath(kernel.InitrdPath) {
		r.addAs(reachOfPath(kernel.InitrdPath), field.Invalid(m.Domain("firmware", "kernelBoot", "container", "initrdPath"), kernel.InitrdPath, cleanPathDetail))
	}
}

package validation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var bootRules = []Rule{{
	ID:          "boot-order-positive",
	Leaf:        true,
	Requirement: "A boot order is at least 1.",
	Check: func(vm *ExpandedVM, r *Report) {
		bootOrders(vm, func(order uint, list string, i int, _ string) {
			if order == 0 {
				r.Add(field.Invalid(vm.Device(list).Index(i).Child("bootOrder"), order,
					"must be at least 1; leave it out for a device that does not boot"))
			}
		})
	},
}, {
	ID:          "boot-order-unique",
	Requirement: "No two disks and interfaces have the same boot order.",
	Check: func(vm *ExpandedVM, r *Report) {
		var first map[uint]string
		bootOrders(vm, func(order uint, list string, i int, name string) {
			other, taken := first[order]
			switch {
			case order == 0: // boot-order-positive reports it
			case taken:
				r.Add(duplicate(vm.Device(list).Index(i).Child("bootOrder"), order, "is the boot order of "+other+" already"))
			default:
				if first == nil {
					first = map[uint]string{}
				}
				first[order] = fmt.Sprintf("%s[%s]", list, shorten(name))
			}
		})
	},
}, {
	ID:          "bootable-device",
	Requirement: "A VM has a bootable device: a volume with an image, an interface with a boot order, or a kernel.",
	Strictness:  StricterThanKubeVirt,
	Check: func(vm *ExpandedVM, r *Report) {
		isOwned := vm.VM == nil && metav1.GetControllerOfNoCopy(vm.Meta) != nil
		if isOwned || vm.isBootable() || vm.Old != nil && vm.Old.Spec != nil && !vm.Old.isBootable() {
			return
		}
		r.Warn("%s: no bootable device: add a volume with an image, an interface with bootOrder, or firmware.kernelBoot",
			vm.Device())
	},
}}

// bootOrders calls f for each boot order, with the list, position and name of its device.
func bootOrders(vm *ExpandedVM, f func(order uint, list string, i int, name string)) {
	devices := &vm.Spec.Domain.Devices
	for i := range devices.Disks {
		if order := devices.Disks[i].BootOrder; order != nil {
			f(*order, "disks", i, devices.Disks[i].Name)
		}
	}
	for i := range devices.Interfaces {
		if order := devices.Interfaces[i].BootOrder; order != nil {
			f(*order, "interfaces", i, devices.Interfaces[i].Name)
		}
	}
}

// isBootable reports whether the guest may have a device to boot from. A host device counts,
// because only the node knows its type.
func (vm *ExpandedVM) isBootable() bool {
	devices := &vm.Spec.Domain.Devices
	return kernelOf(vm) != nil || len(devices.HostDevices) > 0 ||
		slices.ContainsFunc(vm.Spec.Volumes, func(v kubevirtv1.Volume) bool { return mayBeBootable(&v.VolumeSource) && !vm.hasFilesystem(v.Name) }) ||
		slices.ContainsFunc(devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.BootOrder != nil })
}

// mayBeBootable reports whether a volume of this kind may contain an operating system.
func mayBeBootable(v *kubevirtv1.VolumeSource) bool {
	return v.ContainerDisk != nil || v.PersistentVolumeClaim != nil || v.DataVolume != nil || v.Ephemeral != nil || v.HostDisk != nil
}

var kernelBootRules = []Rule{{
	ID:          "kernel-args-need-kernel",
	Requirement: "Arguments of a kernel need a container with a kernel.",
	Check: func(vm *ExpandedVM, r *Report) {
		if boot := firmwareOf(vm).KernelBoot; boot != nil && boot.Container == nil && boot.KernelArgs != "" {
			r.Add(field.Forbidden(vm.Domain("firmware", "kernelBoot", "kernelArgs"), "requires kernelBoot.container, which contains the kernel"))
		}
	},
}, {
	ID:          "kernel-boot-image",
	Requirement: "A container with a kernel has an image.",
	Check: func(vm *ExpandedVM, r *Report) {
		if kernel := kernelOf(vm); kernel != nil && kernel.Image == "" {
			r.Add(field.Required(vm.Domain("firmware", "kernelBoot", "container", "image"), "must be the image with the kernel"))
		}
	},
}, {
	ID:          "kernel-boot-path-given",
	Requirement: "A container with a kernel has kernelPath, initrdPath, or both.",
	Check: func(vm *ExpandedVM, r *Report) {
		if kernel := kernelOf(vm); kernel != nil && kernel.KernelPath == "" && kernel.InitrdPath == "" {
			r.Add(field.Required(vm.Domain("firmware", "kernelBoot", "container"), "must have kernelPath or initrdPath, or both"))
		}
	},
}, {
	ID:          "kernel-boot-path-absolute",
	Leaf:        true,
	Requirement: "The paths of kernel and initrd are absolute, without . and .. and doubled slashes.",
	Check: func(vm *ExpandedVM, r *Report) {
		kernel := kernelOf(vm)
		if kernel == nil {
			return
		}
		for _, file := range []struct{ field, path string }{{"kernelPath", kernel.KernelPath}, {"initrdPath", kernel.InitrdPath}} {
			if file.path != "" && !isCleanPath(file.path) {
				at := vm.Domain("firmware", "kernelBoot", "container", file.field)
				r.addStricter(pathStrictness(file.path), field.Invalid(at, file.path, cleanPathDetail))
			}
		}
	},
}}

// kernelOf returns the container of the kernel to boot, or nil.
func kernelOf(vm *ExpandedVM) *kubevirtv1.KernelBootContainer {
	if boot := firmwareOf(vm).KernelBoot; boot != nil {
		return boot.Container
	}
	return nil
}

package validation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

var bootRules = []Rule{{
	ID:    "boot-order-positive",
	Leaf:  true,
	Says:  "A boot order is at least 1.",
	Check: bootOrderPositive,
}, {
	ID:    "boot-order-unique",
	Says:  "No two disks and interfaces have the same boot order.",
	Check: bootOrderUnique,
}, {
	ID:    "bootable-device",
	Says:  "A VM has a bootable device: a volume with an image, an interface with a boot order, or a kernel.",
	Reach: BeyondKubeVirt,
	Check: bootableDevice,
}}

// bootOrders calls f with each boot order, and the list, place and name of what has it.
func bootOrders(m *Machine, f func(order uint, list string, i int, name string)) {
	devices := &m.Spec.Domain.Devices
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

func bootOrderPositive(m *Machine, r *Report) {
	bootOrders(m, func(order uint, list string, i int, _ string) {
		if order == 0 {
			r.Add(field.Invalid(m.Device(list).Index(i).Child("bootOrder"), order, "must be at least 1; leave it out where nothing boots"))
		}
	})
}

func bootOrderUnique(m *Machine, r *Report) {
	var first map[uint]string
	bootOrders(m, func(order uint, list string, i int, name string) {
		other, taken := first[order]
		switch {
		case order == 0: // bootOrderPositive reports it
		case taken:
			duplicate := field.Duplicate(m.Device(list).Index(i).Child("bootOrder"), order)
			duplicate.Detail = "is the boot order of " + other + " already"
			r.Add(duplicate)
		default:
			if first == nil {
				first = map[uint]string{}
			}
			first[order] = fmt.Sprintf("%s[%s]", list, shorten(name))
		}
	})
}

func bootableDevice(m *Machine, r *Report) {
	isOwned := m.VM == nil && metav1.GetControllerOfNoCopy(m.Meta) != nil
	if isOwned || m.boots() || m.Old != nil && m.Old.Spec != nil && !m.Old.boots() {
		return
	}
	r.Warn("%s: no bootable device: add a volume with an image, an interface with bootOrder, or firmware.kernelBoot",
		m.Device())
}

// boots reports whether m has a device that a guest may boot from. What a host device is, only
// the node knows.
func (m *Machine) boots() bool {
	devices := &m.Spec.Domain.Devices
	return kernelOf(m) != nil || len(devices.HostDevices) > 0 ||
		slices.ContainsFunc(m.Spec.Volumes, func(v kubevirtv1.Volume) bool { return mayHoldSystem(&v.VolumeSource) && !m.Filesystem(v.Name) }) ||
		slices.ContainsFunc(devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.BootOrder != nil })
}

// mayHoldSystem reports whether a volume has content that its author chose, and not only data
// for a guest that runs.
func mayHoldSystem(v *kubevirtv1.VolumeSource) bool {
	return v.ContainerDisk != nil || v.PersistentVolumeClaim != nil || v.DataVolume != nil || v.Ephemeral != nil || v.HostDisk != nil
}

package domain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// controllers adds the controllers of the guest's devices; libvirt adds others that devices need.
// As in KubeVirt, USB is either needed by a device or declared absent, SCSI exists for hotplugged
// disks unless hotplug is disabled, and the virtio-serial controller goes with the serial console.
func (g *guest) controllers() {
	add := func(kind, model string) {
		g.devices.Controllers = append(g.devices.Controllers, libvirtxml.DomainController{Type: kind, Index: ptr.To[uint](0), Model: model})
	}
	if g.needsUSB() {
		add("usb", "qemu-xhci")
	} else {
		add("usb", "none")
	}
	hotplug := g.settings.SCSIController != v1alpha1.ControllerAsNeeded && !g.spec.Domain.Devices.DisableHotplug
	if hotplug || g.hasDisk("scsi") {
		add("scsi", cmp.Or(g.arch.scsi, g.virtio()))
		g.scsiQueues(&g.devices.Controllers[len(g.devices.Controllers)-1])
	}
	g.disablePCIHole()
	if g.hasSerial() {
		add("virtio-serial", g.virtio())
	}
	g.rootComplex()
	g.rejectSharedAddresses()
}

// scsiQueues adds a queue for each of the guest's CPUs if a SCSI disk has an I/O thread of its own,
// as in KubeVirt: that thread serves the controller.
func (g *guest) scsiQueues(c *libvirtxml.DomainController) {
	for i := range g.spec.Domain.Devices.Disks {
		d := &g.spec.Domain.Devices.Disks[i]
		scsi := func(t diskTarget) bool { return t.bus == string(kubevirtv1.DiskBusSCSI) }
		if ptr.Deref(d.DedicatedIOThread, false) && slices.ContainsFunc(targets(d, nil), scsi) {
			c.Driver = &libvirtxml.DomainControllerDriver{Queues: new(g.vcpus())}
			return
		}
	}
}

// needsUSB looks for tablets, disks, which KubeVirt checks except for CD drives, and redirected
// devices. Host devices on USB are not known yet.
func (g *guest) needsUSB() bool {
	if g.arch.channelIO() {
		return false
	}
	return g.arch.usb || g.settings.USBController == v1alpha1.ControllerAlways || len(g.devices.RedirDevs) > 0 ||
		slices.ContainsFunc(g.devices.Inputs, func(in libvirtxml.DomainInput) bool { return in.Bus == "usb" }) || g.hasDisk("usb")
}

func (g *guest) hasDisk(bus string) bool {
	return slices.ContainsFunc(g.devices.Disks, func(d libvirtxml.DomainDisk) bool { return d.Target != nil && d.Target.Bus == bus })
}

// disablePCIHole removes the 64-bit window of PCI, for guests that crash on it.
func (g *guest) disablePCIHole() {
	value, at := annotation(g.vmi, kubevirtv1.DisablePCIHole64)
	if !strings.EqualFold(value, "true") {
		return
	}
	if g.arch.name != "amd64" {
		g.reject(field.Invalid(at, value, "must be left out: only guests of amd64 have this window"))
	}
	root := "pcie-root"
	if g.onI440FX() {
		root = "pci-root"
	}
	g.devices.Controllers = append(g.devices.Controllers, libvirtxml.DomainController{
		Type: "pci", Index: ptr.To[uint](0), Model: root,
		PCI: &libvirtxml.DomainControllerPCI{Hole64: &libvirtxml.DomainControllerPCIHole64{Size: 0, Unit: "KiB"}},
	})
}

func annotation(vmi *kubevirtv1.VirtualMachineInstance, name string) (string, *field.Path) {
	return vmi.Annotations[name], field.NewPath("metadata", "annotations").Key(name)
}

// rootComplex places the guest's PCI devices on the root complex instead of behind ports, if the
// VMI asks for it.
func (g *guest) rootComplex() {
	value, at := annotation(g.vmi, kubevirtv1.PlacePCIDevicesOnRootComplex)
	if value == "true" && g.arch.channelIO() {
		g.reject(field.Invalid(at, value, "must be left out: guests of "+g.arch.name+" have no root complex"))
		return
	}
	g.errs = append(g.errs, placeOnRootComplex(g.vmi, g.devices)...)
}

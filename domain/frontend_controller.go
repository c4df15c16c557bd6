package domain

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// controllers gives the guest the controllers of its devices. As KubeVirt has
// it, USB is there for devices that need it, and else said to be absent; SCSI
// is there for disks to come, unless hotplug is off; that of virtio ports goes
// with the serial console. What else a device needs, libvirt adds.
func (g *guest) controllers() {
	add := func(kind, model string) {
		g.devices.Controllers = append(g.devices.Controllers, libvirtxml.DomainController{Type: kind, Index: ptr.To[uint](0), Model: model})
	}
	if g.needsUSB() {
		add("usb", "qemu-xhci")
	} else {
		add("usb", "none")
	}
	if g.needsSCSI() {
		model := g.virtio()
		if g.arch.scsi != "" {
			model = g.arch.scsi
		}
		add("scsi", model)
		g.scsiQueues(&g.devices.Controllers[len(g.devices.Controllers)-1])
	}
	g.pciHole()
	if g.hasSerial() {
		add("virtio-serial", g.virtio())
	}
	g.rootComplex()
	g.refuseSharedAddresses()
}

// scsiQueues gives the controller a queue for each processor of the guest, as
// KubeVirt has it, where a SCSI disk is to have an I/O thread of its own: that
// thread is the controller's.
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

// needsUSB looks at what the guest has: tablets, disks (KubeVirt forgets CD
// drives), clients' devices. Those of the host are not known yet.
func (g *guest) needsUSB() bool {
	if g.arch.channelIO() {
		return false
	}
	return g.arch.usb || g.settings.USBController == v1alpha1.ControllerAlways || len(g.devices.RedirDevs) > 0 ||
		slices.ContainsFunc(g.devices.Inputs, func(in libvirtxml.DomainInput) bool { return in.Bus == "usb" }) || g.hasDisk("usb")
}

func (g *guest) needsSCSI() bool {
	spare := g.settings.SCSIController != v1alpha1.ControllerAsNeeded && !g.spec.Domain.Devices.DisableHotplug
	return spare || g.hasDisk("scsi")
}

func (g *guest) hasDisk(bus string) bool {
	return slices.ContainsFunc(g.devices.Disks, func(d libvirtxml.DomainDisk) bool { return d.Target != nil && d.Target.Bus == bus })
}

// pciHole takes the 64-bit window of PCI away, for guests that crash on it.
func (g *guest) pciHole() {
	value, at := annotation(g.vmi, kubevirtv1.DisablePCIHole64)
	if !strings.EqualFold(value, "true") {
		return
	}
	if g.arch.name != "amd64" {
		g.refuse(field.Invalid(at, value, "must be left out: only guests of amd64 have this window"))
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

// annotation is the value of an annotation, and its path.
func annotation(vmi *kubevirtv1.VirtualMachineInstance, name string) (string, *field.Path) {
	return vmi.Annotations[name], field.NewPath("metadata", "annotations").Key(name)
}

// rootComplex puts the guest's PCI devices beside each other on the root
// complex, where the instance asks for it, instead of each behind a port.
func (g *guest) rootComplex() {
	value, at := annotation(g.vmi, kubevirtv1.PlacePCIDevicesOnRootComplex)
	if value != "true" {
		return
	}
	if g.arch.channelIO() {
		g.refuse(field.Invalid(at, value, "must be left out: guests of "+g.arch.name+" have no root complex"))
		return
	}
	if !placeOnRootComplex(g.devices) {
		g.refuse(field.Invalid(at, value, "must be left out: there are more devices than slots on the root complex"))
	}
}

package domain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// disks gives the guest its disks, LUNs and CD drives, each with the volume of
// its name; only a CD drive may be empty. As KubeVirt has it, a name such as
// vda counts through the disks of a prefix, which sata, scsi and usb share;
// the unit of a SCSI disk is its number among these; a CD drive leaves it to
// libvirt.
func (g *guest) disks() {
	names := newDiskNames(g.vmi)
	for i := range g.spec.Domain.Devices.Disks {
		at := devicesAt.Child("disks").Index(i)
		if out := g.disk(&g.spec.Domain.Devices.Disks[i], at, names); out != nil {
			g.devices.Disks = append(g.devices.Disks, *out)
		}
	}
	g.refuseUnusedVolumes()
}

// A diskTarget is what a disk says of the device that the guest sees.
type diskTarget struct {
	// device is disk, lun or cdrom.
	device   string
	bus      string
	readOnly bool
	at       *field.Path
}

// targets are all that a disk says it is: it should be one.
func targets(d *kubevirtv1.Disk, at *field.Path) []diskTarget {
	var out []diskTarget
	if t := d.Disk; t != nil {
		out = append(out, diskTarget{"disk", string(t.Bus), t.ReadOnly, at.Child("disk")})
	}
	if t := d.LUN; t != nil {
		out = append(out, diskTarget{"lun", string(t.Bus), t.ReadOnly, at.Child("lun")})
	}
	if t := d.CDRom; t != nil {
		out = append(out, diskTarget{"cdrom", string(t.Bus), ptr.Deref(t.ReadOnly, true), at.Child("cdrom")})
	}
	return out
}

func (g *guest) disk(d *kubevirtv1.Disk, at *field.Path, names *diskNames) *libvirtxml.DomainDisk {
	all := targets(d, at)
	switch len(all) {
	case 0:
		g.refuse(field.Required(at, "must be one of disk, lun and cdrom"))
		return nil
	case 1:
	default:
		g.refuse(field.Forbidden(at, "must be one of disk, lun and cdrom; leave out the others"))
		return nil
	}
	target := all[0]
	if !g.checkBus(&target) {
		return nil
	}
	dev, unit := names.next(target.bus, d.Name)
	out := &libvirtxml.DomainDisk{
		Device: target.device,
		Target: &libvirtxml.DomainDiskTarget{Bus: target.bus, Dev: dev},
		Alias:  g.alias(at.Child("name"), d.Name),
		Boot:   g.boot(at.Child("bootOrder"), d.BootOrder),
	}
	if target.bus == string(kubevirtv1.DiskBusSCSI) && target.device != "cdrom" {
		out.Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Controller: ptr.To[uint](0), Bus: ptr.To[uint](0), Unit: &unit}}
	}
	if target.bus == kubevirtv1.VirtIO && ptr.Deref(g.spec.Domain.Devices.BlockMultiQueue, false) {
		out.Driver = &libvirtxml.DomainDiskDriver{Queues: new(g.vcpus())}
	}
	g.diskDetails(d, &target, at, out)
	g.diskVolume(d, &target, at, out)
	g.blockSize(d, at.Child("blockSize"), out)
	if target.readOnly {
		out.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	}
	return out
}

// diskBuses are the buses that libvirt has for a device of an architecture.
// CD drives on virtio and LUNs on sata or usb are what it refuses; machines
// other than q35 have no sata of their own.
func (g *guest) diskBuses(device string) []string {
	desktop := g.arch.name == "amd64"
	switch {
	case device == "lun":
		return []string{"scsi", "virtio"}
	case device == "cdrom" && desktop:
		return []string{"sata", "scsi", "usb"}
	case device == "cdrom":
		return []string{"scsi"}
	case desktop:
		return []string{"sata", "scsi", "usb", "virtio"}
	default:
		return []string{"scsi", "virtio"}
	}
}

func (g *guest) checkBus(t *diskTarget) bool {
	known := g.diskBuses(t.device)
	switch {
	case t.bus == "":
		g.refuse(field.Required(t.at.Child("bus"), fmt.Sprintf("must be one of %q", known)))
	case !slices.Contains(known, t.bus):
		g.refuse(field.NotSupported(t.at.Child("bus"), t.bus, known))
	case t.bus == "sata" && t.device == "disk" && t.readOnly:
		g.refuse(field.Invalid(t.at.Child("readonly"), true, "must be false on the sata bus; use another bus, or a cdrom"))
	default:
		return true
	}
	return false
}

// diskDetails are what one kind of device has alone. KubeVirt gives serials to
// disks only, and models to disks on virtio, not to LUNs.
func (g *guest) diskDetails(d *kubevirtv1.Disk, t *diskTarget, at *field.Path, out *libvirtxml.DomainDisk) {
	virtio := t.bus == kubevirtv1.VirtIO
	switch {
	case d.Disk != nil:
		out.Serial = d.Serial
		if virtio {
			out.Model = g.virtio()
			out.Address = g.pciAddress(t.at.Child("pciAddress"), d.Disk.PciAddress)
		} else if d.Disk.PciAddress != "" {
			g.refuse(field.Invalid(t.at.Child("pciAddress"), d.Disk.PciAddress, "must be left out unless the bus is virtio"))
		}
	case d.CDRom != nil:
		out.Target.Tray = string(d.CDRom.Tray)
		if trays := []string{"", "open", "closed"}; !slices.Contains(trays, out.Target.Tray) {
			g.refuse(field.NotSupported(t.at.Child("tray"), out.Target.Tray, trays[1:]))
		}
	}
	if d.Disk == nil && d.Serial != "" {
		g.refuse(field.Forbidden(at.Child("serial"), "must be left out of a "+t.device+": only disks have a serial"))
	}
}

// diskVolume ties a disk to its volume. Downward metrics are a disk that the
// guest reads only, on virtio.
func (g *guest) diskVolume(d *kubevirtv1.Disk, t *diskTarget, at *field.Path, out *libvirtxml.DomainDisk) {
	i := slices.IndexFunc(g.spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == d.Name })
	switch {
	case i < 0 && t.device != "cdrom" && d.Name != "":
		err := field.NotFound(at.Child("name"), d.Name)
		err.Detail = "must be the name of a volume; only a cdrom can be empty"
		g.refuse(err)
	case i < 0 && t.bus == "usb":
		g.refuse(field.Invalid(t.at.Child("bus"), t.bus, "must be sata or scsi while there is no volume of its name: QEMU does not start an empty drive on usb"))
	case i < 0 || g.spec.Volumes[i].DownwardMetrics == nil:
	case t.device != "disk" || t.bus != kubevirtv1.VirtIO:
		g.refuse(field.Invalid(t.at.Child("bus"), t.bus, "must be a disk on virtio: its volume has downward metrics"))
	default:
		out.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	}
}

// refuseUnusedVolumes refuses volumes that neither disk nor file system nor
// firmware table shows to the guest. Stage 1 gives such a volume a disk.
func (g *guest) refuseUnusedVolumes() {
	used := map[string]bool{}
	for i := range g.spec.Domain.Devices.Disks {
		used[g.spec.Domain.Devices.Disks[i].Name] = true
	}
	for i := range g.spec.Domain.Devices.Filesystems {
		used[g.spec.Domain.Devices.Filesystems[i].Name] = true
	}
	if f := g.spec.Domain.Firmware; f != nil && f.ACPI != nil {
		used[f.ACPI.SlicNameRef], used[f.ACPI.MsdmNameRef] = true, true
	}
	delete(used, "")
	for i := range g.spec.Volumes {
		if name := g.spec.Volumes[i].Name; !used[name] {
			g.refuse(field.Invalid(field.NewPath("spec", "volumes").Index(i).Child("name"), name, "must be the name of a disk or file system too: the guest does not see this volume"))
		}
	}
}

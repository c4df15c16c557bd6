package domain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// disks adds disks, LUNs and CD drives, each with the volume of the same name; only a CD drive may
// be empty. As in KubeVirt, a name such as vda counts the disks with a prefix, which sata, scsi and
// usb share, and is the unit of a SCSI disk; that of a CD drive is left to libvirt.
func (g *guest) disks() {
	names := newDiskNames(g.vmi)
	for i := range g.spec.Domain.Devices.Disks {
		at := devicesAt.Child("disks").Index(i)
		if out := g.disk(&g.spec.Domain.Devices.Disks[i], at, names); out != nil {
			g.devices.Disks = append(g.devices.Disks, *out)
		}
	}
	g.rejectUnusedVolumes()
}

// A diskTarget is the device that the guest sees of a disk.
type diskTarget struct {
	device   string // disk, lun or cdrom
	bus      string
	readOnly bool
	at       *field.Path
}

// targets returns all targets of a disk: a valid one has one.
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
	if len(all) == 0 {
		g.reject(field.Required(at, "must be one of disk, lun and cdrom"))
		return nil
	}
	if len(all) > 1 {
		g.reject(field.Forbidden(at, "must be one of disk, lun and cdrom; leave out the others"))
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
		Alias:  g.alias(at.Child("name"), "", d.Name),
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

// diskBuses returns the buses of a device. libvirt rejects CD drives on virtio and LUNs on sata or
// usb, and QEMU rejects LUNs on virtio since virtio 1.0; only amd64 has sata.
func (g *guest) diskBuses(device string) []string {
	amd64 := g.arch.name == "amd64"
	switch {
	case device == "cdrom" && amd64:
		return []string{"sata", "scsi", "usb"}
	case device == "cdrom":
		return []string{"scsi"}
	case device == "disk" && amd64:
		return []string{"sata", "scsi", "usb", "virtio"}
	case device == "disk":
		return []string{"scsi", "virtio"}
	default:
		return []string{"scsi"}
	}
}

// defaultBus is the default of stage 1, for a VMI with an empty bus.
func (g *guest) defaultBus(device string) string {
	switch {
	case device == "lun":
		return "scsi"
	case g.arch.name == "amd64":
		return "sata"
	}
	return "virtio"
}

// checkBus sets the bus of a target without one, and reports whether the device can be on its bus.
func (g *guest) checkBus(t *diskTarget) bool {
	known := g.diskBuses(t.device)
	t.bus = cmp.Or(t.bus, g.defaultBus(t.device))
	switch {
	case !slices.Contains(known, t.bus):
		g.reject(field.NotSupported(t.at.Child("bus"), t.bus, known))
	case t.bus == "sata" && t.device == "disk" && t.readOnly:
		g.reject(field.Invalid(t.at.Child("readonly"), true, "must be false on the sata bus; use another bus, or a cdrom"))
	default:
		return true
	}
	return false
}

// diskDetails sets what only one kind of device has. As in KubeVirt, only disks have serials, and
// only disks on virtio have models.
func (g *guest) diskDetails(d *kubevirtv1.Disk, t *diskTarget, at *field.Path, out *libvirtxml.DomainDisk) {
	virtio := t.bus == kubevirtv1.VirtIO
	switch {
	case d.Disk != nil:
		out.Serial = d.Serial
		if virtio {
			out.Model = g.virtio()
			out.Address = g.pciAddress(t.at.Child("pciAddress"), d.Disk.PciAddress, out.Model)
		} else if d.Disk.PciAddress != "" {
			g.reject(field.Invalid(t.at.Child("pciAddress"), d.Disk.PciAddress, "must be left out unless the bus is virtio"))
		}
	case d.CDRom != nil:
		out.Target.Tray = string(d.CDRom.Tray)
		g.oneOf(t.at.Child("tray"), out.Target.Tray, []string{"open", "closed"})
	}
	if d.Disk == nil && d.Serial != "" {
		g.reject(field.Forbidden(at.Child("serial"), "must be left out of a "+t.device+": only disks have a serial"))
	}
}

// diskVolume checks the volume of a disk. Downward metrics are a read-only disk on virtio.
func (g *guest) diskVolume(d *kubevirtv1.Disk, t *diskTarget, at *field.Path, out *libvirtxml.DomainDisk) {
	i := slices.IndexFunc(g.spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == d.Name })
	switch {
	case i < 0 && t.device != "cdrom" && d.Name != "":
		g.reject(detailed(field.NotFound(at.Child("name"), d.Name), "must be the name of a volume; only a cdrom can be empty"))
	case i < 0 && t.bus == "usb":
		g.reject(field.Invalid(t.at.Child("bus"), t.bus, "must be sata or scsi while there is no volume of its name: QEMU does not start an empty drive on usb"))
	case i < 0 || g.spec.Volumes[i].DownwardMetrics == nil:
	case t.device != "disk" || t.bus != kubevirtv1.VirtIO:
		g.reject(field.Invalid(t.at.Child("bus"), t.bus, "must be a disk on virtio: its volume has downward metrics"))
	default:
		out.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	}
}

// rejectUnusedVolumes rejects volumes that the guest sees neither as a disk nor as a file system
// nor as a firmware table. Stage 1 adds a disk for such a volume.
func (g *guest) rejectUnusedVolumes() {
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
		v, at := &g.spec.Volumes[i], field.NewPath("spec", "volumes").Index(i)
		if !used[v.Name] {
			g.reject(field.Invalid(at.Child("name"), v.Name, "must be the name of a disk or file system too: the guest does not see this volume"))
		}
		if kind, label := volumeLabel(v); len(label) > maxVolumeLabel {
			g.reject(field.TooLong(at.Child(kind, "volumeLabel"), label, maxVolumeLabel))
		}
	}
}

const maxVolumeLabel = 32 // of an ISO image

// volumeLabel returns the label that a volume of files gets in the guest, and the volume's kind.
func volumeLabel(v *kubevirtv1.Volume) (kind, label string) {
	switch {
	case v.ConfigMap != nil:
		return "configMap", v.ConfigMap.VolumeLabel
	case v.Secret != nil:
		return "secret", v.Secret.VolumeLabel
	case v.DownwardAPI != nil:
		return "downwardAPI", v.DownwardAPI.VolumeLabel
	}
	return "", ""
}

// The limits of QEMU for block sizes; those of s390x are limited by its pages.
const (
	minBlockSize      = 512
	maxBlockSize      = 2 << 20
	maxBlockSizeS390X = 4096
	pageDiscard       = 4096 // QEMU's least granularity of discards on buses other than virtio
)

// blockSize sets the block sizes of a disk, or leaves those of its volume to the host.
func (g *guest) blockSize(d *kubevirtv1.Disk, at *field.Path, out *libvirtxml.DomainDisk) {
	if d.BlockSize == nil {
		return
	}
	custom, match := d.BlockSize.Custom, on(d.BlockSize.MatchVolume)
	switch {
	case custom != nil && match:
		g.reject(field.Forbidden(at, "must be custom or matchVolume; leave the other one out"))
	case match:
		g.leaveToHost(kindBlockSize, at.Child("matchVolume"), d.Name)
	case custom != nil:
		g.checkBlockSize(at.Child("custom", "logical"), custom.Logical)
		g.checkBlockSize(at.Child("custom", "physical"), custom.Physical)
		out.BlockIO = &libvirtxml.DomainDiskBlockIO{LogicalBlockSize: custom.Logical, PhysicalBlockSize: custom.Physical}
		if discard := custom.DiscardGranularity; discard != nil {
			out.BlockIO.DiscardGranularity = new(*discard)
		}
	}
}

func (g *guest) checkBlockSize(at *field.Path, size uint) {
	largest := uint(maxBlockSize)
	if g.arch.channelIO() {
		largest = maxBlockSizeS390X
	}
	if size < minBlockSize || size > largest || size&(size-1) != 0 {
		g.reject(field.Invalid(at, size, fmt.Sprintf("must be a power of two from %d to %d", minBlockSize, largest)))
	}
}

// resolveBlockSize sets the block sizes of a volume's storage. As in KubeVirt, one of the sizes
// replaces the other one if that is unknown, and the physical size replaces a discard granularity
// that is no multiple. An unknown granularity, or QEMU's default, is left out.
func (h *host) resolveBlockSize(p Placeholder) {
	facts, d := h.facts.Volumes[p.Device], h.disk(p.Device)
	logical := cmp.Or(facts.LogicalBlockSize, facts.PhysicalBlockSize)
	physical := cmp.Or(facts.PhysicalBlockSize, facts.LogicalBlockSize)
	if logical == 0 || d == nil {
		h.missing(p, fmt.Sprintf("volumes[%s].logicalBlockSize", p.Device))
		return
	}
	d.BlockIO = &libvirtxml.DomainDiskBlockIO{LogicalBlockSize: logical, PhysicalBlockSize: physical}
	value, discard := fmt.Sprintf("%d/%d", logical, physical), facts.DiscardGranularity
	if discard%logical != 0 {
		discard = physical
	}
	byDefault := max(logical, pageDiscard)
	if d.Target != nil && d.Target.Bus == kubevirtv1.VirtIO {
		byDefault = logical
	}
	if discard != 0 && discard != byDefault { // libvirt 9.0 has no element for it
		d.BlockIO.DiscardGranularity = &discard
		value += fmt.Sprintf(", discard %d", discard)
	}
	h.resolved(p, elementOf("disk", d.Alias)+"/blockio", value, "those of the volume's storage")
}

// diskNames assigns the names by which libvirt orders disks: vda, sdb.
type diskNames struct {
	kept  map[string]string // earlier names, by disk
	owner map[string]string // the disk that has a name
}

var keptForm = regexp.MustCompile(`^[vs]d[a-z]{1,3}$`)

// newDiskNames keeps the names of the VMI's status: a disk keeps its name when another disk is
// removed.
func newDiskNames(vmi *kubevirtv1.VirtualMachineInstance) *diskNames {
	n := &diskNames{kept: map[string]string{}, owner: map[string]string{}}
	for i := range vmi.Status.VolumeStatus {
		status := &vmi.Status.VolumeStatus[i]
		if keptForm.MatchString(status.Target) && n.owner[status.Target] == "" {
			n.kept[status.Name], n.owner[status.Target] = status.Target, status.Name
		}
	}
	return n
}

// next returns the name of a disk and its number among those with the same prefix.
func (n *diskNames) next(bus, disk string) (string, uint) {
	prefix := "sd"
	if bus == kubevirtv1.VirtIO {
		prefix = "vd"
	}
	kept := n.kept[disk]
	if !strings.HasPrefix(kept, prefix) {
		kept = ""
	}
	for i := uint(0); ; i++ {
		name := prefix + letters(i)
		if kept == "" && n.owner[name] == "" || kept == name {
			n.owner[name] = disk
			return name, i
		}
	}
}

// letters counts a, b, … z, aa, ab.
func letters(i uint) string {
	const base = 26
	tail := string(rune('a' + i%base))
	if i < base {
		return tail
	}
	return letters(i/base-1) + tail
}

package domain

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// A diskStep is one disk on its way to its image.
type diskStep struct {
	spec *kubevirtv1.Disk
	disk *libvirtxml.DomainDisk
	img  *image
	// facts of its volume.
	facts VolumeFacts
	at    *field.Path
}

// element is a part of the disk, as an XPath.
func (d *diskStep) element(part string) string {
	return fmt.Sprintf("devices/disk[alias/@name='%s']/%s", d.disk.Alias.Name, part)
}

// directIO says whether what the image lies on can do direct I/O.
func (d *diskStep) directIO() bool { return ptr.Deref(d.facts.DirectIO, true) }

// disks gives every disk the image or the device that is its volume, and a
// driver that reads and writes it as the instance says, then the profile, then
// KubeVirt's preStartHook would: past the host's cache where that can be, by
// native I/O where the image has all its blocks.
func (h *host) disks() {
	var all []*diskStep
	for i := range h.spec.Domain.Devices.Disks {
		spec := &h.spec.Domain.Devices.Disks[i]
		d := &diskStep{
			spec: spec, disk: h.disk(spec.Name), facts: h.facts.Volumes[spec.Name],
			at: devicesAt.Child("disks").Index(i),
		}
		if d.disk == nil {
			h.refuse(field.InternalError(d.at, errors.New("stage 2 has made no disk of it")))
			continue
		}
		d.disk.Driver = orNew(d.disk.Driver)
		d.disk.Driver.Name = "qemu"
		volume, index := h.volume(spec.Name)
		if volume == nil {
			h.emptyDrive(d)
			continue
		}
		img, err := h.image(volume, index)
		if err != nil {
			h.refuse(err)
			continue
		}
		d.img, all = img, append(all, d)
		h.disksImage(d)
	}
	h.refuseShared(all)
}

// disk is the one of stage 2 for a disk of the instance.
func (h *host) disk(name string) *libvirtxml.DomainDisk {
	for i := range h.devices.Disks {
		if a := h.devices.Disks[i].Alias; a != nil && a.Name == "ua-"+name {
			return &h.devices.Disks[i]
		}
	}
	return nil
}

// emptyDrive is a drive without a medium.
func (h *host) emptyDrive(d *diskStep) {
	if d.spec.CDRom == nil {
		h.refuse(field.Required(field.NewPath("spec", "volumes"), fmt.Sprintf("the disk %s needs a volume of this name; only a cdrom may be empty", d.spec.Name)))
		return
	}
	d.disk.Driver.Type = "raw"
	d.disk.Source = &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{}}
}

func (h *host) disksImage(d *diskStep) {
	d.disk.Source = d.img.source()
	d.disk.Driver.Type = d.img.format
	if b := d.img.beneath; b != nil {
		d.disk.BackingStore = &libvirtxml.DomainDiskBackingStore{Format: &libvirtxml.DomainDiskFormat{Type: b.format}, Source: b.source()}
	}
	h.lun(d)
	h.shareable(d)
	h.cache(d)
	h.diskIO(d)
	h.discard(d)
	d.disk.Driver.ErrorPolicy = string(ptr.Deref(d.spec.ErrorPolicy, h.settings.Disks.ErrorPolicy))
}

// lun passes commands through to a device, and with a reservation asks a
// helper on the host to reserve it.
func (h *host) lun(d *diskStep) {
	if d.spec.LUN == nil {
		return
	}
	if !d.img.block {
		h.refuse(field.Invalid(d.at.Child("lun"), d.img.path, fmt.Sprintf("a lun needs a volume that is a block device, which facts.volumes[%s] does not say", d.spec.Name)))
		return
	}
	if !d.spec.LUN.Reservation {
		return
	}
	helper := libvirtxml.DomainDiskReservationsSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "client", Path: h.socket("pr-helper.sock", d.at.Child("lun", "reservation"))}}
	d.disk.Source.Reservations = &libvirtxml.DomainDiskReservations{Managed: "no", Source: &helper}
}

// shareable lets several guests write to one disk, which nobody may cache.
func (h *host) shareable(d *diskStep) {
	if !ptr.Deref(d.spec.Shareable, false) {
		return
	}
	if d.img.format != "raw" {
		h.refuse(field.Invalid(d.at.Child("shareable"), true, fmt.Sprintf("only raw images can be shared, and the volume's is %s", d.img.format)))
	}
	if d.spec.Cache != "" && d.spec.Cache != kubevirtv1.CacheNone {
		h.refuse(field.Invalid(d.at.Child("cache"), d.spec.Cache, "must be none for a disk that is shareable"))
	}
	d.disk.Shareable = &libvirtxml.DomainDiskShareable{}
}

// cache is the mode that the instance names; none for what is shared; the
// profile's; or none where the host can do direct I/O and writethrough where
// it cannot.
func (h *host) cache(d *diskStep) {
	mode := d.spec.Cache
	if mode == "" && ptr.Deref(d.spec.Shareable, false) {
		mode = kubevirtv1.CacheNone
	}
	if mode == kubevirtv1.CacheNone && !d.directIO() {
		h.refuse(field.Invalid(d.at.Child("cache"), mode, fmt.Sprintf("what the volume lies on cannot do direct I/O (facts.volumes[%s].directIO)", d.spec.Name)))
	}
	if mode != "" {
		d.disk.Driver.Cache = string(mode)
		return
	}
	mode, reason := chosenCache(h.settings.Disks.Cache, d.directIO())
	d.disk.Driver.Cache = string(mode)
	h.decide(Decision{Field: d.at.Child("cache").String(), Element: d.element("driver/@cache"), Value: string(mode), Reason: reason})
}

// chosenCache is the mode of a disk that names none, given the profile's, and
// why.
func chosenCache(profile kubevirtv1.DriverCache, directIO bool) (kubevirtv1.DriverCache, string) {
	switch {
	case profile == kubevirtv1.CacheNone && !directIO:
		return kubevirtv1.CacheWriteThrough, "the backend profile says none, and what the volume lies on cannot do direct I/O"
	case profile != "":
		return profile, "the backend profile says so"
	case directIO:
		return kubevirtv1.CacheNone, "what the volume lies on can do direct I/O"
	default:
		return kubevirtv1.CacheWriteThrough, "what the volume lies on cannot do direct I/O"
	}
}

// diskIO is the mode that the instance names, the profile's, or native where
// nothing is cached and no block is missing. libvirt does native I/O past the
// cache only.
func (h *host) diskIO(d *diskStep) {
	past := d.disk.Driver.Cache == string(kubevirtv1.CacheNone)
	if d.spec.IO == kubevirtv1.IONative && !past {
		h.refuse(field.Invalid(d.at.Child("io"), d.spec.IO, "needs the cache mode none, and the disk's is "+d.disk.Driver.Cache))
	}
	if d.spec.IO != "" {
		d.disk.Driver.IO = string(d.spec.IO)
		return
	}
	mode, reason := chosenIO(h.settings.Disks.IO, past, d.img.block || d.facts.Preallocated)
	if mode != "" {
		d.disk.Driver.IO = string(mode)
		h.decide(Decision{Field: d.at.Child("io").String(), Element: d.element("driver/@io"), Value: string(mode), Reason: reason})
	}
}

// chosenIO is the mode of a disk that names none, given the profile's, and
// why; empty is QEMU's own. past says that nothing is cached, full that no
// block is missing.
func chosenIO(profile kubevirtv1.DriverIO, past, full bool) (kubevirtv1.DriverIO, string) {
	switch {
	case profile == kubevirtv1.IONative && !past:
		return kubevirtv1.IOThreads, "the backend profile says native, which needs the cache mode none"
	case profile != "":
		return profile, "the backend profile says so"
	case past && full:
		return kubevirtv1.IONative, "nothing is cached and no block is missing"
	}
	return "", ""
}

// discard hands the guest's discards on, except for volumes that were given
// all their blocks for good, and for images that a drive only reads.
func (h *host) discard(d *diskStep) {
	if d.facts.Preallocated || d.spec.CDRom != nil && d.img.data {
		return
	}
	d.disk.Driver.Discard = cmp.Or(h.settings.Disks.Discard, "unmap")
}

package domain

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// A backedDisk is a disk with its image.
type backedDisk struct {
	spec  *kubevirtv1.Disk
	disk  *libvirtxml.DomainDisk
	img   *image
	facts VolumeFacts
	at    *field.Path
}

func (d *backedDisk) directIO() bool { return ptr.Deref(d.facts.DirectIO, true) }

// disks sets the image or device of every disk, and its driver: as the VMI says, or else the
// profile, or else as KubeVirt's preStartHook does, with direct I/O where possible and native I/O
// for preallocated images.
func (h *host) disks() {
	var all []*backedDisk
	for i := range h.spec.Domain.Devices.Disks {
		spec := &h.spec.Domain.Devices.Disks[i]
		d := &backedDisk{
			spec: spec, disk: h.disk(spec.Name), facts: h.facts.Volumes[spec.Name],
			at: devicesAt.Child("disks").Index(i),
		}
		d.disk.Driver = orNew(d.disk.Driver)
		d.disk.Driver.Name = "qemu"
		volume, index := h.volume(spec.Name)
		if volume == nil { // stage 2 has seen that it is a CD drive
			d.disk.Driver.Type = "raw"
			d.disk.Source = &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{}}
			continue
		}
		img, err := h.image(volume, index)
		if err != nil {
			h.reject(err)
			continue
		}
		d.img, all = img, append(all, d)
		h.diskImage(d)
	}
	h.rejectSharedImages(all)
}

// disk returns the disk that stage 2 added for a disk of the VMI.
func (h *host) disk(name string) *libvirtxml.DomainDisk {
	for i := range h.devices.Disks {
		if a := h.devices.Disks[i].Alias; a != nil && a.Name == "ua-"+name {
			return &h.devices.Disks[i]
		}
	}
	return nil
}

func (h *host) diskImage(d *backedDisk) {
	d.disk.Source = d.img.source()
	d.disk.Driver.Type = d.img.format
	if b := d.img.backing; b != nil {
		d.disk.BackingStore = &libvirtxml.DomainDiskBackingStore{Format: &libvirtxml.DomainDiskFormat{Type: b.format}, Source: b.source()}
	}
	h.lun(d)
	h.shareable(d)
	h.cache(d)
	h.diskIO(d)
	// Discards would undo a preallocation, and a drive with data is read-only.
	if !d.facts.Preallocated && (d.spec.CDRom == nil || !d.img.data) {
		d.disk.Driver.Discard = cmp.Or(h.settings.Disks.Discard, "unmap")
	}
	d.disk.Driver.ErrorPolicy = string(ptr.Deref(d.spec.ErrorPolicy, h.settings.Disks.ErrorPolicy))
}

// lun passes SCSI commands through to a device. Reservations go through a helper on the host.
func (h *host) lun(d *backedDisk) {
	if d.spec.LUN == nil {
		return
	}
	if !d.img.block {
		h.reject(field.Invalid(d.at.Child("lun"), d.img.path, fmt.Sprintf("a lun needs a volume that is a block device, which facts.volumes[%s] does not say", d.spec.Name)))
		return
	}
	if !d.spec.LUN.Reservation {
		return
	}
	helper := libvirtxml.DomainDiskReservationsSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "client", Path: h.socket("pr-helper.sock", d.at.Child("lun", "reservation"))}}
	d.disk.Source.Reservations = &libvirtxml.DomainDiskReservations{Managed: "no", Source: &helper}
}

// shareable lets several guests write to a disk, which must then be raw and not cached.
func (h *host) shareable(d *backedDisk) {
	if !ptr.Deref(d.spec.Shareable, false) {
		return
	}
	if d.img.format != "raw" {
		h.reject(field.Invalid(d.at.Child("shareable"), true, fmt.Sprintf("only raw images can be shared, and the volume's is %s", d.img.format)))
	}
	if d.spec.Cache != "" && d.spec.Cache != kubevirtv1.CacheNone {
		h.reject(field.Invalid(d.at.Child("cache"), d.spec.Cache, "must be none for a disk that is shareable"))
	}
	d.disk.Shareable = &libvirtxml.DomainDiskShareable{}
}

// cache sets the VMI's cache mode; none for shareable disks; the profile's; or none if direct I/O
// is supported, else writethrough.
func (h *host) cache(d *backedDisk) {
	mode := d.spec.Cache
	if mode == "" && ptr.Deref(d.spec.Shareable, false) {
		mode = kubevirtv1.CacheNone
	}
	if mode == kubevirtv1.CacheNone && !d.directIO() {
		h.reject(field.Invalid(d.at.Child("cache"), mode, fmt.Sprintf("the volume's storage does not support direct I/O (facts.volumes[%s].directIO)", d.spec.Name)))
	}
	if mode == "" {
		var reason string
		mode, reason = defaultCache(h.settings.Disks.Cache, d.directIO())
		h.decide(Decision{Field: d.at.Child("cache").String(), Element: elementOf("disk", d.disk.Alias) + "/driver/@cache", Value: string(mode), Reason: reason})
	}
	d.disk.Driver.Cache = string(mode)
}

// defaultCache is the mode of a disk without one, given the profile's, and the reason.
func defaultCache(profile kubevirtv1.DriverCache, directIO bool) (kubevirtv1.DriverCache, string) {
	switch {
	case profile == kubevirtv1.CacheNone && !directIO:
		return kubevirtv1.CacheWriteThrough, "the backend profile says none, but the volume's storage does not support direct I/O"
	case profile != "":
		return profile, "set by the backend profile"
	case directIO:
		return kubevirtv1.CacheNone, "the volume's storage supports direct I/O"
	default:
		return kubevirtv1.CacheWriteThrough, "the volume's storage does not support direct I/O"
	}
}

// diskIO sets the VMI's mode, the profile's, or native for preallocated images that are not cached.
// libvirt has native I/O without a cache only.
func (h *host) diskIO(d *backedDisk) {
	uncached := d.disk.Driver.Cache == string(kubevirtv1.CacheNone)
	if d.spec.IO == kubevirtv1.IONative && !uncached {
		h.reject(field.Invalid(d.at.Child("io"), d.spec.IO, "needs the cache mode none, and the disk's is "+d.disk.Driver.Cache))
	}
	if d.spec.IO != "" {
		d.disk.Driver.IO = string(d.spec.IO)
		return
	}
	mode, reason := defaultIO(h.settings.Disks.IO, uncached, d.img.block || d.facts.Preallocated)
	if mode != "" {
		d.disk.Driver.IO = string(mode)
		h.decide(Decision{Field: d.at.Child("io").String(), Element: elementOf("disk", d.disk.Alias) + "/driver/@io", Value: string(mode), Reason: reason})
	}
}

// defaultIO is the mode of a disk without one, given the profile's, and the reason; empty is QEMU's
// default.
func defaultIO(profile kubevirtv1.DriverIO, uncached, allocated bool) (kubevirtv1.DriverIO, string) {
	switch {
	case profile == kubevirtv1.IONative && !uncached:
		return kubevirtv1.IOThreads, "the backend profile says native, which needs the cache mode none"
	case profile != "":
		return profile, "set by the backend profile"
	case uncached && allocated:
		return kubevirtv1.IONative, "the image is not cached and fully allocated"
	}
	return "", ""
}

// rejectSharedImages rejects an image that two disks of the guest would write to, and one that a
// disk writes to while another disk has an overlay of it. Read-only disks and shareable disks may
// have the same image. In KubeVirt each volume has a place of its own.
func (h *host) rejectSharedImages(all []*backedDisk) {
	owners := map[string]*backedDisk{}
	for _, d := range all {
		other := owners[d.img.path]
		if other == nil {
			owners[d.img.path] = d
		} else if !d.mayShareWith(other) {
			h.reject(field.Invalid(d.at, d.img.path, fmt.Sprintf("the disk %s has the same file, by %s", other.spec.Name, d.img.origin)))
		}
	}
	for _, d := range all {
		if d.img.backing == nil {
			continue
		}
		if other := owners[d.img.backing.path]; other != nil && other.disk.ReadOnly == nil {
			h.reject(field.Invalid(d.at, d.img.backing.path, fmt.Sprintf(
				"this is the disk's backing file, by %s, and the disk %s writes to it, by %s", d.img.backing.origin, other.spec.Name, other.img.origin)))
		}
	}
}

func (d *backedDisk) mayShareWith(other *backedDisk) bool {
	return d.disk.ReadOnly != nil && other.disk.ReadOnly != nil || d.disk.Shareable != nil && other.disk.Shareable != nil
}

const (
	threadsPerCPU = 2    // the I/O threads of the policy auto for each CPU that the VMI requests
	maxPoolUses   = 4096 // limits the product of disks and threads of a pool: each disk names each thread
)

// An ioPlan counts the I/O threads of a VMI.
type ioPlan struct {
	shared, dedicated uint // shared threads are for all disks, numbered from 1; dedicated ones follow
	pool              bool // every disk uses every shared thread
}

func (p *ioPlan) count() uint { return p.shared + p.dedicated }

// planIOThreads counts I/O threads as KubeVirt does: a shared one, or as many as disks but at most
// twice the CPUs, and one for each disk with a dedicated thread; or a pool. Without a policy the
// profile decides.
func (h *host) planIOThreads() (*ioPlan, *field.Error) {
	policy := h.spec.Domain.IOThreadsPolicy
	if policy != nil && *policy == kubevirtv1.IOThreadsPolicySupplementalPool {
		return h.planPool()
	}
	plan, disks := &ioPlan{}, uint(len(h.spec.Domain.Devices.Disks))
	for i := range h.spec.Domain.Devices.Disks {
		if ptr.Deref(h.spec.Domain.Devices.Disks[i].DedicatedIOThread, false) {
			plan.dedicated++
		}
	}
	if policy == nil && plan.dedicated == 0 {
		if disks > 0 {
			plan.shared = uint(max(ptr.Deref(h.settings.Disks.IOThreads, 0), 0))
		}
		return plan, nil
	}
	limit, err := h.threadLimit()
	if err != nil {
		return nil, err
	}
	plan.shared = disks - plan.dedicated
	if disks > limit {
		plan.shared = max(limit, plan.dedicated+1) - plan.dedicated
	}
	return plan, nil
}

func (h *host) planPool() (*ioPlan, *field.Error) {
	at := field.NewPath("spec", "domain", "ioThreads", "supplementalPoolThreadCount")
	threads := h.spec.Domain.IOThreads
	if threads == nil || threads.SupplementalPoolThreadCount == nil {
		return nil, field.Required(at, "the policy supplementalPool needs a number of threads")
	}
	count, disks := *threads.SupplementalPoolThreadCount, len(h.spec.Domain.Devices.Disks)
	switch {
	case count == 0 || count > maxIOThreads:
		return nil, field.Invalid(at, count, fmt.Sprintf("must be between 1 and %d", maxIOThreads))
	case int(count)*disks > maxPoolUses:
		return nil, field.Invalid(at, count, fmt.Sprintf("must be at most %d, since each of %d disks uses each thread", maxPoolUses/disks, disks))
	}
	return &ioPlan{shared: uint(*threads.SupplementalPoolThreadCount), pool: true}, nil
}

// threadLimit is the number of threads above which disks share.
func (h *host) threadLimit() (uint, *field.Error) {
	policy := ptr.Deref(h.spec.Domain.IOThreadsPolicy, kubevirtv1.IOThreadsPolicyShared)
	switch {
	case policy == kubevirtv1.IOThreadsPolicyShared:
		return 1, nil
	case policy != kubevirtv1.IOThreadsPolicyAuto:
		return 0, field.NotSupported(field.NewPath("spec", "domain", "ioThreadsPolicy"), policy, []kubevirtv1.IOThreadsPolicy{
			kubevirtv1.IOThreadsPolicyShared, kubevirtv1.IOThreadsPolicyAuto, kubevirtv1.IOThreadsPolicySupplementalPool,
		})
	case h.spec.Domain.CPU != nil && h.spec.Domain.CPU.DedicatedCPUPlacement && h.spec.Domain.CPU.IsolateEmulatorThread:
		return 1, nil // it shares the emulator's CPU
	}
	for _, of := range []corev1.ResourceList{h.spec.Domain.Resources.Requests, h.spec.Domain.Resources.Limits} {
		if cpus, ok := of[corev1.ResourceCPU]; ok {
			return threadsPerCPU * uint(min(max(cpus.Value(), 0), maxVCPUs)), nil
		}
	}
	return threadsPerCPU, nil
}

// ioThreads assigns I/O threads to virtio disks in turn, as KubeVirt does, and to SCSI controllers
// if a SCSI disk is to have a dedicated thread: SCSI disks themselves cannot have one.
func (h *host) ioThreads() {
	plan, err := h.planIOThreads()
	if err != nil {
		h.reject(err)
		return
	}
	if plan.count() == 0 {
		return
	}
	h.domain.IOThreads = plan.count()
	next, own, scsi := uint(1), plan.shared+1, false
	for i := range h.spec.Domain.Devices.Disks {
		spec := &h.spec.Domain.Devices.Disks[i]
		dedicated := ptr.Deref(spec.DedicatedIOThread, false)
		d := h.disk(spec.Name)
		if !onBus(d, kubevirtv1.DiskBusVirtio) {
			scsi = scsi || dedicated && onBus(d, kubevirtv1.DiskBusSCSI)
			continue
		}
		switch {
		case plan.pool:
			d.Driver.IOThreads = plan.all()
		case dedicated:
			d.Driver.IOThread = new(own)
			own++
		default:
			d.Driver.IOThread = new(next)
			next = next%plan.shared + 1
		}
	}
	if scsi {
		h.scsiThread(next)
	}
}

func onBus(d *libvirtxml.DomainDisk, bus kubevirtv1.DiskBus) bool {
	return d != nil && d.Driver != nil && d.Target != nil && d.Target.Bus == string(bus)
}

// all returns the threads of a pool.
func (p *ioPlan) all() *libvirtxml.DomainDiskIOThreads {
	out := &libvirtxml.DomainDiskIOThreads{}
	for id := range p.shared {
		out.IOThread = append(out.IOThread, libvirtxml.DomainDiskIOThread{ID: id + 1})
	}
	return out
}

// scsiThread assigns a thread to the SCSI controllers. The guest sees only their queues.
func (h *host) scsiThread(id uint) {
	for i := range h.devices.Controllers {
		c := &h.devices.Controllers[i]
		if c.Type != "scsi" {
			continue
		}
		c.Driver = orNew(c.Driver)
		c.Driver.IOThread = id
	}
}

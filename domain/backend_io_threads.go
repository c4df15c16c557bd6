package domain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

const (
	// threadsPerCPU is how many I/O threads the policy auto gives for each CPU
	// that the instance requests.
	threadsPerCPU = 2
	// maxPoolUses is how often disks may name threads of a pool in all: each of
	// them names each thread.
	maxPoolUses = 4096
)

// An ioPlan says which I/O threads an instance has.
type ioPlan struct {
	// shared are for all disks, numbered from 1; the dedicated ones follow.
	shared, dedicated uint
	// pool says that every disk uses every shared thread.
	pool bool
}

func (p *ioPlan) count() uint { return p.shared + p.dedicated }

// planIOThreads counts I/O threads as KubeVirt does: one that is shared, or as
// many as disks up to twice the CPUs, and one for each disk that is to have
// its own; or a pool. An instance that says nothing gets what the profile
// says.
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
		return nil, field.Required(at, "the policy supplementalPool needs the number of its threads")
	}
	count, disks := *threads.SupplementalPoolThreadCount, len(h.spec.Domain.Devices.Disks)
	switch {
	case count == 0 || count > maxIOThreads:
		return nil, field.Invalid(at, count, fmt.Sprintf("must be at least 1 and at most %d", maxIOThreads))
	case int(count)*disks > maxPoolUses:
		return nil, field.Invalid(at, count, fmt.Sprintf("must be at most %d, since each of %d disks uses each thread", maxPoolUses/disks, disks))
	}
	return &ioPlan{shared: uint(*threads.SupplementalPoolThreadCount), pool: true}, nil
}

// threadLimit is how many threads there are before disks must share.
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

// ioThreads hands I/O threads to disks: virtio ones in turn, as KubeVirt does,
// and the SCSI controllers where a disk of theirs is to have its own, since
// SCSI disks themselves have none.
func (h *host) ioThreads() {
	plan, err := h.planIOThreads()
	if err != nil {
		h.refuse(err)
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

// all are the threads of a pool.
func (p *ioPlan) all() *libvirtxml.DomainDiskIOThreads {
	out := &libvirtxml.DomainDiskIOThreads{}
	for id := range p.shared {
		out.IOThread = append(out.IOThread, libvirtxml.DomainDiskIOThread{ID: id + 1})
	}
	return out
}

// scsiThread gives a thread to the SCSI controllers. Their queues are what the
// guest sees of them, and stay.
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

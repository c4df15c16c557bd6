package domain

import (
	"math"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const (
	// growthSlots is the least number that libvirt's schema accepts. Memory that is plugged later
	// is a virtio-mem device, which uses no slot.
	growthSlots  = 1
	smallestPage = 4 << 10 // the smallest size of pages of any architecture, in bytes
	leastMemory  = 1 << 20 // the least memory of a guest, in bytes
)

// memory sets the guest's memory and the most that can be plugged later, in bytes.
func (g *guest) memory() {
	g.hugePages()
	at := field.NewPath("spec", "domain", "memory")
	m := g.spec.Domain.Memory
	if m == nil || m.Guest == nil {
		g.reject(field.Required(at.Child("guest"), "say how much memory the guest has, such as 1Gi"))
		return
	}
	bytes := bytesOf(m.Guest)
	if m.Guest.CmpInt64(math.MaxInt64) > 0 {
		g.reject(field.Invalid(at.Child("guest"), m.Guest.String(), "must be less than 8Ei"))
		return
	}
	if bytes < leastMemory {
		g.reject(field.Invalid(at.Child("guest"), m.Guest.String(), "must be at least 1Mi"))
		return
	}
	g.domain.Memory = &libvirtxml.DomainMemory{Value: bytes, Unit: "b"}
	if m.MaxGuest == nil || m.MaxGuest.Cmp(*m.Guest) == 0 {
		return
	}
	most := bytesOf(m.MaxGuest)
	if most < bytes {
		g.reject(field.Invalid(at.Child("maxGuest"), m.MaxGuest.String(), "must be at least memory.guest, which is "+m.Guest.String()))
		return
	}
	g.domain.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: most, Unit: "b", Slots: growthSlots}
}

// pageForm is a size of huge pages as Kubernetes names it, or in bytes.
var pageForm = regexp.MustCompile(`^[0-9]{1,15}([KMGT]i|[kMGT])?$`)

func (g *guest) hugePages() {
	m := g.spec.Domain.Memory
	if m == nil || m.Hugepages == nil {
		return
	}
	size, bytes := m.Hugepages.PageSize, pageSize(m)
	if !pageForm.MatchString(size) || bytes < smallestPage || bytes&(bytes-1) != 0 {
		g.reject(field.Invalid(field.NewPath("spec", "domain", "memory", "hugepages", "pageSize"), size, "must be the size of huge pages, a power of two such as 2Mi or 1Gi"))
	}
}

// pageSize is the size of a VMI's huge pages in bytes; 0 if it has none or the size is invalid.
func pageSize(m *kubevirtv1.Memory) uint {
	if m == nil || m.Hugepages == nil {
		return 0
	}
	size, err := resource.ParseQuantity(m.Hugepages.PageSize)
	if err != nil {
		return 0
	}
	return uint(max(size.Value(), 0))
}

// bytesOf returns a quantity in bytes. It drops a fraction of a byte, as KubeVirt does, and is 0
// for a negative quantity.
func bytesOf(q *resource.Quantity) uint {
	bytes := q.Value() // rounded up
	if q.CmpInt64(bytes) < 0 {
		bytes--
	}
	return uint(max(bytes, 0))
}

// memory backs the guest's memory with pages of the VMI's size, with shared memory for virtiofs and
// passt, and otherwise as the backend profile says. As in KubeVirt, huge pages are a memfd unless
// an annotation disables it.
func (h *host) memory() {
	h.domain.MemoryBacking = orNew(h.domain.MemoryBacking)
	backing, settings := h.domain.MemoryBacking, h.settings.Memory
	huge := pageSize(h.spec.Domain.Memory)
	if huge > 0 && backing.MemoryHugePages == nil {
		backing.MemoryHugePages = &libvirtxml.DomainMemoryHugepages{Hugepages: []libvirtxml.DomainMemoryHugepage{{Size: huge, Unit: "b"}}}
	}
	h.memorySource(backing, huge > 0)
	if c := h.spec.Domain.CPU; !ptr.Deref(settings.Mergeable, true) || c != nil && c.Realtime != nil {
		backing.MemoryNosharepages = &libvirtxml.DomainMemoryNosharepages{}
	}
	if ptr.Deref(settings.Locked, false) {
		backing.MemoryLocked = &libvirtxml.DomainMemoryLocked{}
	}
	if ptr.Deref(settings.Preallocated, false) {
		backing.MemoryAllocation = &libvirtxml.DomainMemoryAllocation{Mode: "immediate"}
	}
	h.domain.MemoryBacking = unlessEmpty(backing)
}

// memorySource selects a memfd, and whether other processes can map it.
func (h *host) memorySource(backing *libvirtxml.DomainMemoryBacking, huge bool) {
	shared, memfd := sharesMemory(h.spec), h.settings.Memory.Source == v1alpha1.MemoryMemfd
	if huge {
		memfd = h.vmi.Annotations[kubevirtv1.MemfdMemoryBackend] != "false"
	}
	if memfd || shared {
		backing.MemorySource = &libvirtxml.DomainMemorySource{Type: "memfd"}
	}
	if shared {
		backing.MemoryAccess = &libvirtxml.DomainMemoryAccess{Mode: "shared"}
	}
}

// balloon adds a memory balloon, or the model none, since libvirt adds a balloon otherwise. As in
// KubeVirt, guests with dedicated CPUs, real-time or huge pages do not report free pages.
func (g *guest) balloon() {
	if !ptr.Deref(g.spec.Domain.Devices.AutoattachMemBalloon, true) {
		g.devices.MemBalloon = &libvirtxml.DomainMemBalloon{Model: "none"}
		return
	}
	reporting := g.settings.Balloon == nil || ptr.Deref(g.settings.Balloon.FreePageReporting, true)
	if g.vmi.IsHighPerformanceVMI() || g.vmi.Annotations[kubevirtv1.FreePageReportingDisabledAnnotation] == "true" {
		reporting = false
	}
	g.devices.MemBalloon = &libvirtxml.DomainMemBalloon{Model: g.virtio(), FreePageReporting: onOff(reporting)}
}

// balloon sets how often the guest reports its memory, as in KubeVirt.
func (h *host) balloon() {
	period := ptr.Deref(h.settings.BalloonStatsSeconds, 0)
	if b := h.devices.MemBalloon; b != nil && b.Model != "none" && period > 0 {
		b.Stats = &libvirtxml.DomainMemBalloonStats{Period: uint(period)}
	}
}

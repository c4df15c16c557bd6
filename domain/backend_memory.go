package domain

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// memory says what holds the guest's memory: pages of the size that the
// instance names, memory that other processes can map where virtiofs or passt
// must, and what the backend profile says for the rest. As in KubeVirt huge
// pages can be mapped too, unless an annotation says otherwise.
func (h *host) memory() {
	if h.domain.MemoryBacking == nil {
		h.domain.MemoryBacking = &libvirtxml.DomainMemoryBacking{}
	}
	backing, settings := h.domain.MemoryBacking, h.settings.Memory
	huge := h.hugePages()
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

// memorySource says who can map the guest's memory.
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

// hugePages is the size of the pages that the instance names, in bytes; 0
// where it names none.
func (h *host) hugePages() uint {
	m := h.spec.Domain.Memory
	if m == nil || m.Hugepages == nil {
		return 0
	}
	size, err := resource.ParseQuantity(m.Hugepages.PageSize)
	if err != nil || size.Value() <= 0 {
		h.refuse(field.Invalid(field.NewPath("spec", "domain", "memory", "hugepages", "pageSize"), m.Hugepages.PageSize, "must be a size such as 2Mi"))
		return 0
	}
	return uint(size.Value())
}

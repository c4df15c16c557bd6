package domain

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// growthSlots are as few as libvirt's schema accepts: memory that comes later is
// a virtio-mem device, which takes none.
const growthSlots = 1

// memory gives the guest its memory, and the most that it may be given later.
// Units are bytes.
func (g *guest) memory() {
	g.hugePages()
	at := field.NewPath("spec", "domain", "memory")
	m := g.spec.Domain.Memory
	if m == nil || m.Guest == nil {
		g.refuse(field.Required(at.Child("guest"), "say how much memory the guest has, such as 1Gi"))
		return
	}
	bytes := bytesOf(m.Guest)
	if bytes < leastMemory {
		g.refuse(field.Invalid(at.Child("guest"), m.Guest.String(), "must be at least 1Mi"))
		return
	}
	g.domain.Memory = &libvirtxml.DomainMemory{Value: bytes, Unit: "b"}
	if m.MaxGuest == nil || m.MaxGuest.Cmp(*m.Guest) == 0 {
		return
	}
	most := bytesOf(m.MaxGuest)
	if most < bytes {
		g.refuse(field.Invalid(at.Child("maxGuest"), m.MaxGuest.String(), "must be at least memory.guest, which is "+m.Guest.String()))
		return
	}
	g.domain.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: most, Unit: "b", Slots: growthSlots}
}

// pageForm is a size of huge pages as Kubernetes names it, or in bytes.
var pageForm = regexp.MustCompile(`^[0-9]{1,15}([KMGT]i|[kMGT])?$`)

// smallestPage is that of the architecture with the smallest ones.
const smallestPage = 4 << 10

// hugePages looks at the size of huge pages that the instance names; the host
// has them.
func (g *guest) hugePages() {
	m := g.spec.Domain.Memory
	if m == nil || m.Hugepages == nil {
		return
	}
	text, bytes := m.Hugepages.PageSize, int64(0)
	if pageForm.MatchString(text) {
		if size, err := resource.ParseQuantity(text); err == nil {
			bytes = size.Value()
		}
	}
	if bytes < smallestPage || bytes&(bytes-1) != 0 {
		g.refuse(field.Invalid(field.NewPath("spec", "domain", "memory", "hugepages", "pageSize"), text, "must be the size of huge pages, a power of two such as 2Mi or 1Gi"))
	}
}

// leastMemory is the least memory of a guest, in bytes.
const leastMemory = 1 << 20

// bytesOf returns a quantity in bytes. It drops a fraction of a byte, as KubeVirt
// does, and is 0 for a negative quantity.
func bytesOf(q *resource.Quantity) uint {
	bytes := q.Value() // rounded up
	if q.CmpInt64(bytes) < 0 {
		bytes--
	}
	return uint(max(bytes, 0))
}

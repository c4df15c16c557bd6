package domain

import (
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
	at := field.NewPath("spec", "domain", "memory")
	m := g.spec.Domain.Memory
	if m == nil || m.Guest == nil {
		g.refuse(field.Required(at.Child("guest"), "say how much memory the guest has, such as 1Gi"))
		return
	}
	bytes, ok := wholeBytes(m.Guest)
	if !ok {
		g.refuse(field.Invalid(at.Child("guest"), m.Guest.String(), "must be a whole number of bytes, at least 1Mi"))
		return
	}
	g.domain.Memory = &libvirtxml.DomainMemory{Value: bytes, Unit: "b"}
	if m.MaxGuest == nil || m.MaxGuest.Cmp(*m.Guest) == 0 {
		return
	}
	most, ok := wholeBytes(m.MaxGuest)
	if !ok || most < bytes {
		g.refuse(field.Invalid(at.Child("maxGuest"), m.MaxGuest.String(), "must be a whole number of bytes, at least as many as guest"))
		return
	}
	g.domain.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: most, Unit: "b", Slots: growthSlots}
}

// wholeBytes is a quantity of at least a megabyte in bytes.
func wholeBytes(q *resource.Quantity) (uint, bool) {
	bytes, exact := q.AsInt64()
	return uint(max(bytes, 0)), exact && bytes >= 1<<20
}

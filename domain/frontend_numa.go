package domain

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// numa gives a guest whose memory must lie in pages of a kind, or be shared, the
// one NUMA cell that libvirt wants for it, and a guest that may grow. A guest
// whose cells follow the host's gets them in stage 3.
func (g *guest) numa() {
	if c := g.spec.Domain.CPU; c != nil && c.NUMA != nil && c.NUMA.GuestMappingPassthrough != nil {
		g.numaOfHost(c)
		return
	}
	if g.domain.Memory == nil || g.domain.VCPU == nil || !g.wantsCell() {
		return
	}
	cpus := "0"
	if n := g.domain.VCPU.Value; n > 1 {
		cpus = fmt.Sprintf("0-%d", n-1)
	}
	g.domain.CPU.Numa = &libvirtxml.DomainNuma{Cell: []libvirtxml.DomainCell{{
		ID: ptr.To[uint](0), CPUs: cpus, Memory: g.domain.Memory.Value, Unit: "b",
	}}}
}

// numaOfHost is for guests whose cells follow the CPUs that they are promised.
func (g *guest) numaOfHost(c *kubevirtv1.CPU) {
	at := field.NewPath("spec", "domain", "cpu", "numa", "guestMappingPassthrough")
	if !c.DedicatedCPUPlacement {
		g.refuse(field.Required(field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement"), at.String()+" needs it to be true: cells follow the CPUs that the guest is promised"))
	}
	if m := g.spec.Domain.Memory; m == nil || m.Hugepages == nil {
		g.refuse(field.Required(field.NewPath("spec", "domain", "memory", "hugepages"), at.String()+" needs huge pages: set pageSize"))
	}
	g.bind(Late{Kind: LateNUMA, Field: at.String()})
}

// wantsCell says whether libvirt wants a NUMA cell to describe the memory.
func (g *guest) wantsCell() bool {
	m := g.spec.Domain.Memory
	return m != nil && m.Hugepages != nil || g.domain.MaximumMemory != nil || sharesMemory(g.spec)
}

// sharesMemory says whether other processes of the host must reach the guest's
// memory: those of virtiofs and passt.
func sharesMemory(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	for _, f := range spec.Domain.Devices.Filesystems {
		if f.Virtiofs != nil {
			return true
		}
	}
	for _, i := range spec.Domain.Devices.Interfaces {
		if i.PasstBinding != nil && i.State != kubevirtv1.InterfaceStateAbsent {
			return true
		}
	}
	return false
}

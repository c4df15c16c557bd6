package domain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// numa adds the one NUMA cell that libvirt requires for huge pages, shared memory and memory that
// may grow. Cells like the host's are left to the host.
func (g *guest) numa() {
	c, m := g.spec.Domain.CPU, g.spec.Domain.Memory
	if followsHost(c) {
		g.numaOfHost(c)
		return
	}
	needsCell := m != nil && m.Hugepages != nil || g.domain.MaximumMemory != nil || sharesMemory(g.spec)
	if g.domain.Memory == nil || g.domain.VCPU == nil || !needsCell {
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

// followsHost reports whether the guest's NUMA cells are like the host's.
func followsHost(c *kubevirtv1.CPU) bool {
	return c != nil && c.NUMA != nil && c.NUMA.GuestMappingPassthrough != nil
}

func (g *guest) numaOfHost(c *kubevirtv1.CPU) {
	at := field.NewPath("spec", "domain", "cpu", "numa", "guestMappingPassthrough")
	if !c.DedicatedCPUPlacement {
		g.reject(field.Required(field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement"), at.String()+" needs it to be true: cells follow the guest's dedicated CPUs"))
	}
	if m := g.spec.Domain.Memory; m == nil || m.Hugepages == nil {
		g.reject(field.Required(field.NewPath("spec", "domain", "memory", "hugepages"), at.String()+" needs huge pages: set pageSize"))
	}
	g.leaveToHost(kindNUMA, at, "")
}

// sharesMemory reports whether processes of virtiofs or passt must map the guest's memory.
func sharesMemory(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	devices := &spec.Domain.Devices
	return slices.ContainsFunc(devices.Filesystems, func(f kubevirtv1.Filesystem) bool { return f.Virtiofs != nil }) ||
		slices.ContainsFunc(devices.Interfaces, func(i kubevirtv1.Interface) bool {
			return i.PasstBinding != nil && i.State != kubevirtv1.InterfaceStateAbsent
		})
}

// A hostCell is a NUMA node of the host with the guest's CPUs that run there.
type hostCell struct {
	node  uint
	vcpus []uint
}

// resolveNUMA adds a cell for each of the host's nodes that the guest's CPUs run on, as KubeVirt
// does: memory in equal parts of whole pages, the remainder in the first cells, each part allocated
// on its node at once. Distances are the host's, if all of them are known.
func (h *host) resolveNUMA(p Placeholder) {
	c := h.dedicated()
	if c == nil || h.domain.CPU == nil || h.domain.Memory == nil {
		h.reject(field.Required(field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement"), p.Field+" needs it to be true"))
		return
	}
	placed, err := h.place(c)
	if err != nil {
		return // cpuPlacement reports it
	}
	page, cells := pageSize(h.spec.Domain.Memory), h.hostCells(placed)
	count := uint(len(cells))
	if page == 0 || h.domain.Memory.Value%page != 0 || h.domain.Memory.Value/page < count {
		h.reject(field.Invalid(field.NewPath("spec", "domain", "memory", "guest"), h.domain.Memory.Value,
			fmt.Sprintf("must be whole huge pages of %d bytes, at least one for each of %d NUMA cells", page, count)))
		return
	}
	h.writeCells(cells, page)
	h.resolved(p, "cpu/numa", fmt.Sprintf("%d cells", count), "like the host's nodes that the guest's CPUs are on")
}

// hostCells returns the nodes of a placement, by number.
func (h *host) hostCells(p *placement) []hostCell {
	nodes := map[uint]uint{}
	for _, cpu := range h.facts.CPUs {
		nodes[cpu.ID] = cpu.Node
	}
	var out []hostCell
	for vcpu, cpu := range p.vcpus {
		at := slices.IndexFunc(out, func(c hostCell) bool { return c.node == nodes[cpu] })
		if at < 0 {
			at = len(out)
			out = append(out, hostCell{node: nodes[cpu]})
		}
		out[at].vcpus = append(out[at].vcpus, uint(vcpu))
	}
	slices.SortFunc(out, func(a, b hostCell) int { return int(a.node) - int(b.node) })
	return out
}

func (h *host) writeCells(cells []hostCell, page uint) {
	pages, count := h.domain.Memory.Value/page, uint(len(cells))
	numa, tune, huge := &libvirtxml.DomainNuma{}, &libvirtxml.DomainNUMATune{}, &libvirtxml.DomainMemoryHugepages{}
	var all []uint
	for i, cell := range cells {
		id, memory := uint(i), pages/count*page
		if id < pages%count {
			memory += page
		}
		numa.Cell = append(numa.Cell, libvirtxml.DomainCell{
			ID: new(id), CPUs: cpuList(cell.vcpus...), Memory: memory, Unit: "b", Distances: h.distances(cell.node, cells),
		})
		tune.MemNodes = append(tune.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: id, Mode: "strict", Nodeset: cpuList(cell.node)})
		huge.Hugepages = append(huge.Hugepages, libvirtxml.DomainMemoryHugepage{Size: page, Unit: "b", Nodeset: cpuList(id)})
		all = append(all, cell.node)
	}
	tune.Memory = &libvirtxml.DomainNUMATuneMemory{Mode: "strict", Nodeset: cpuList(all...)}
	h.domain.CPU.Numa, h.domain.NUMATune = numa, tune
	h.domain.MemoryBacking = &libvirtxml.DomainMemoryBacking{
		MemoryHugePages: huge, MemoryAllocation: &libvirtxml.DomainMemoryAllocation{Mode: "immediate"},
	}
}

// distances are those from one node to all nodes; nil if one is unknown.
func (h *host) distances(from uint, cells []hostCell) *libvirtxml.DomainCellDistances {
	out := &libvirtxml.DomainCellDistances{}
	for i, to := range cells {
		value, known := h.facts.Distances[from][to.node]
		if !known {
			return nil
		}
		out.Siblings = append(out.Siblings, libvirtxml.DomainCellSibling{ID: uint(i), Value: value})
	}
	return out
}

package domain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"libvirt.org/go/libvirtxml"
)

// A hostCell is a node of the host and the guest's CPUs that run there.
type hostCell struct {
	node  uint
	vcpus []uint
}

// lateNUMA makes the guest's cells after the nodes of the host that its CPUs
// run on, as KubeVirt does: memory in equal parts, in whole pages, the first
// cells taking what is left over; each part is allocated on its node, at once.
// Distances are the host's, where it tells them all.
func (h *host) lateNUMA(late Late) {
	c := h.dedicated()
	if c == nil || h.domain.CPU == nil || h.domain.Memory == nil {
		h.refuse(field.Required(field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement"), late.Field+" needs it to be true"))
		return
	}
	p, err := h.place(c)
	if err != nil {
		return // cpuPlacement says so
	}
	page := h.pageSize(late)
	cells := h.hostCells(p)
	count := uint(len(cells))
	if page == 0 || h.domain.Memory.Value%page != 0 || h.domain.Memory.Value/page < count {
		h.refuse(field.Invalid(field.NewPath("spec", "domain", "memory", "guest"), h.domain.Memory.Value,
			fmt.Sprintf("must be whole huge pages of %d bytes, one at least for each of %d NUMA cells", page, count)))
		return
	}
	h.writeCells(cells, page)
	h.resolved(late, "cpu/numa", fmt.Sprintf("%d cells", count), "made after the host's nodes that the guest's CPUs are on")
}

// pageSize is the size of the huge pages without which cells cannot be bound
// to nodes.
func (h *host) pageSize(late Late) uint {
	if m := h.spec.Domain.Memory; m == nil || m.Hugepages == nil {
		h.refuse(field.Required(field.NewPath("spec", "domain", "memory", "hugepages"), late.Field+" needs huge pages"))
		return 0
	}
	return h.hugePages()
}

// hostCells are the nodes of a placement, in order of their number.
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

// distances are those from one node to all of them; nil where the host does
// not tell all.
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

package domain

import (
	"cmp"
	"slices"
)

// A cpuNode is what is left of the CPUs of one NUMA node of the host.
type cpuNode struct {
	id uint
	// whole are the CPUs of cores that have at least as many left as a core of the
	// guest has threads; loose are those of other cores.
	whole [][]uint
	loose []uint
}

// A cpuPool hands out CPUs of the host, each once.
type cpuPool struct {
	nodes []*cpuNode
	// threads is how many a core of the guest has.
	threads int
}

// newCPUPool sorts CPUs by node and core. A CPU that is named twice counts
// once.
func newCPUPool(cpus []HostCPU, threads int) *cpuPool {
	type core struct{ node, socket, core uint }
	pool, seen, cores := &cpuPool{threads: threads}, map[uint]bool{}, map[core][]uint{}
	var order []core
	for _, c := range cpus {
		at := core{c.Node, c.Socket, c.Core}
		if seen[c.ID] {
			continue
		}
		if cores[at] == nil {
			order = append(order, at)
		}
		seen[c.ID], cores[at] = true, append(cores[at], c.ID)
	}
	slices.SortStableFunc(order, func(a, b core) int { return cmp.Compare(a.node, b.node) })
	for _, at := range order {
		if n := len(pool.nodes); n == 0 || pool.nodes[n-1].id != at.node {
			pool.nodes = append(pool.nodes, &cpuNode{id: at.node})
		}
		pool.nodes[len(pool.nodes)-1].put(cores[at], threads)
	}
	return pool
}

// put adds the CPUs that are left of a core.
func (n *cpuNode) put(core []uint, threads int) {
	if len(core) >= threads {
		n.whole = append(n.whole, core)
	} else {
		n.loose = append(n.loose, core...)
	}
}

// takeWhole takes the CPUs of one core of the guest from one core of the host.
func (n *cpuNode) takeWhole(threads int) []uint {
	if len(n.whole) == 0 {
		return nil
	}
	core := n.whole[0]
	taken, left := core[:threads], core[threads:]
	if len(left) >= threads {
		n.whole[0] = left
	} else {
		n.whole, n.loose = n.whole[1:], append(n.loose, left...)
	}
	return taken
}

// takeLoose takes them from what is left of several cores.
func (n *cpuNode) takeLoose(threads int) []uint {
	if len(n.loose) < threads {
		return nil
	}
	taken := n.loose[:threads]
	n.loose = n.loose[threads:]
	return taken
}

// takeCores takes CPUs for cores of the guest: from whole cores first, then
// from what is left of others, a core of the guest always on one node; at last,
// where crossing is allowed, from anywhere.
func (p *cpuPool) takeCores(count int, crossing bool) ([]uint, bool) {
	var out []uint
	for _, take := range []func(*cpuNode) []uint{
		func(n *cpuNode) []uint { return n.takeWhole(p.threads) },
		func(n *cpuNode) []uint { return n.takeLoose(p.threads) },
	} {
		for _, node := range p.nodes {
			for count > 0 {
				taken := take(node)
				if taken == nil {
					break
				}
				out, count = append(out, taken...), count-1
			}
		}
	}
	for missing := count * p.threads; crossing && missing > 0; missing-- {
		one, ok := p.takeOne()
		if !ok {
			return nil, false
		}
		out, count = append(out, one), 0
	}
	return out, count == 0
}

// takeOne takes a CPU, from what is left of cores first.
func (p *cpuPool) takeOne() (uint, bool) {
	for _, node := range p.nodes {
		if taken := node.takeLoose(1); taken != nil {
			return taken[0], true
		}
		if len(node.whole) == 0 {
			continue
		}
		core := node.whole[0]
		node.whole = node.whole[1:]
		node.put(core[1:], p.threads)
		return core[0], true
	}
	return 0, false
}

// first puts a node before the others.
func (p *cpuPool) first(i int) {
	node := p.nodes[i]
	p.nodes = slices.Insert(slices.Delete(p.nodes, i, i+1), 0, node)
}

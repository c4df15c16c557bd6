package domain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// A placement assigns CPUs of the host to the threads of a guest with dedicated CPUs.
type placement struct {
	vcpus    []uint
	pool     []uint // for the supplemental I/O threads
	emulator []uint // for the emulator's threads, if these are isolated
}

func (h *host) dedicated() *kubevirtv1.CPU {
	if c := h.spec.Domain.CPU; c != nil && c.DedicatedCPUPlacement {
		return c
	}
	return nil
}

// place finds CPUs as KubeVirt does: whole cores before parts of cores. It prefers a single node
// that has enough, which KubeVirt leaves to the kubelet. Hotpluggable sockets have no CPUs.
func (h *host) place(c *kubevirtv1.CPU) (*placement, *field.Error) {
	cores, threads := int(max(c.Sockets, 1)*max(c.Cores, 1)), int(max(c.Threads, 1))
	at := field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement")
	pool, out := h.roomFor(cores, threads, !followsHost(c))
	if out == nil {
		return nil, field.Invalid(at, true, fmt.Sprintf("%d cores of %d threads do not fit on the %d CPUs that the host has for guests (facts.cpus)", cores, threads, len(h.facts.CPUs)))
	}
	take := func(to *[]uint, count uint) bool {
		for range count {
			one, ok := pool.takeOne()
			if !ok {
				return false
			}
			*to = append(*to, one)
		}
		return true
	}
	if plan, err := h.planIOThreads(); err == nil && plan.pool && !take(&out.pool, plan.shared) {
		return nil, field.Invalid(field.NewPath("spec", "domain", "ioThreads", "supplementalPoolThreadCount"), plan.shared, "the host has no CPUs left for them (facts.cpus)")
	}
	if c.IsolateEmulatorThread && !take(&out.emulator, h.emulatorCPUs(len(out.vcpus)+len(out.pool))) {
		return nil, field.Invalid(field.NewPath("spec", "domain", "cpu", "isolateEmulatorThread"), true, "the host has no CPU left for it (facts.cpus)")
	}
	return out, nil
}

// roomFor takes CPUs from the first node that has enough, or else from all nodes. The returned pool
// has the remaining CPUs, those of that node first.
func (h *host) roomFor(cores, threads int, crossing bool) (*cpuPool, *placement) {
	pool := newCPUPool(h.facts.CPUs, threads)
	for i := range pool.nodes {
		fresh := newCPUPool(h.facts.CPUs, threads)
		single := &cpuPool{nodes: fresh.nodes[i : i+1 : i+1], threads: threads}
		if cpus, ok := single.takeCores(cores, true); ok {
			node := fresh.nodes[i]
			fresh.nodes = slices.Insert(slices.Delete(fresh.nodes, i, i+1), 0, node)
			return fresh, &placement{vcpus: cpus}
		}
	}
	if cpus, ok := pool.takeCores(cores, crossing); ok {
		return pool, &placement{vcpus: cpus}
	}
	return nil, nil
}

// emulatorCPUs is one, or two if an annotation asks for an even number of CPUs in total.
func (h *host) emulatorCPUs(others int) uint {
	if _, even := h.vmi.Annotations[kubevirtv1.EmulatorThreadCompleteToEvenParity]; even && others%2 == 0 {
		return 2
	}
	return 1
}

// cpuPlacement pins each thread of a guest with dedicated CPUs to one of them, and the threads of
// any other guest to the CPUs of the backend profile.
func (h *host) cpuPlacement() {
	h.domain.CPUTune = &libvirtxml.DomainCPUTune{}
	if c := h.dedicated(); c != nil {
		if p, err := h.place(c); err != nil {
			h.reject(err)
		} else {
			h.pin(p)
		}
		h.realtime(c)
	} else {
		h.pinByProfile()
	}
	h.domain.CPUTune = unlessEmpty(h.domain.CPUTune)
}

func (h *host) pin(p *placement) {
	tune := h.domain.CPUTune
	for i, cpu := range p.vcpus {
		tune.VCPUPin = append(tune.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(i), CPUSet: cpuList(cpu)})
	}
	h.decide(Decision{
		Field: "spec.domain.cpu.dedicatedCpuPlacement", Element: "cputune/vcpupin", Value: cpuList(p.vcpus...),
		Reason: "dedicated CPUs of the host",
	})
	if len(p.emulator) > 0 {
		tune.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: cpuList(p.emulator...)}
		h.decide(Decision{Field: "spec.domain.cpu.isolateEmulatorThread", Element: "cputune/emulatorpin", Value: tune.EmulatorPin.CPUSet, Reason: "a CPU of the host for the emulator's threads only"})
	}
	plan, err := h.planIOThreads()
	if err != nil {
		return // ioThreads reports it
	}
	for i, set := range p.forIOThreads(plan) {
		tune.IOThreadPin = append(tune.IOThreadPin, libvirtxml.DomainCPUTuneIOThreadPin{IOThread: uint(i) + 1, CPUSet: set})
	}
}

// forIOThreads returns the CPUs of each I/O thread: one of its own in a pool; else the emulator's,
// if these are isolated; else a fair share of the guest's.
func (p *placement) forIOThreads(plan *ioPlan) []string {
	var out []string
	count, cpus := int(plan.count()), len(p.vcpus)
	for i := range count {
		switch {
		case plan.pool:
			out = append(out, cpuList(p.pool[i]))
		case len(p.emulator) > 0:
			out = append(out, cpuList(p.emulator...))
		case count >= cpus:
			out = append(out, cpuList(p.vcpus[(i+1)%cpus]))
		default:
			out = append(out, cpuList(p.vcpus[share(i, count, cpus):share(i+1, count, cpus)]...))
		}
	}
	return out
}

// share is the start of the i-th part when things are divided in order; the first parts are longer
// if there is a remainder.
func share(i, of, things int) int { return i*(things/of) + min(i, things%of) }

// pinByProfile pins the threads of a guest without dedicated CPUs to the CPUs of the backend
// profile.
func (h *host) pinByProfile() {
	if c := h.spec.Domain.CPU; c != nil {
		h.rejectDedicatedOnly(c)
	}
	tune, sets := h.domain.CPUTune, h.settings.CPU
	if sets.VCPUs != "" && h.domain.VCPU != nil {
		for id := range h.domain.VCPU.Value {
			tune.VCPUPin = append(tune.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: id, CPUSet: sets.VCPUs})
		}
	}
	if sets.Emulator != "" {
		tune.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: sets.Emulator}
	}
	if plan, err := h.planIOThreads(); err == nil && sets.IOThreads != "" {
		for id := range plan.count() {
			tune.IOThreadPin = append(tune.IOThreadPin, libvirtxml.DomainCPUTuneIOThreadPin{IOThread: id + 1, CPUSet: sets.IOThreads})
		}
	}
}

func (h *host) rejectDedicatedOnly(c *kubevirtv1.CPU) {
	at := field.NewPath("spec", "domain", "cpu")
	if c.IsolateEmulatorThread {
		h.reject(field.Forbidden(at.Child("isolateEmulatorThread"), "needs dedicatedCpuPlacement: true"))
	}
	if c.Realtime != nil {
		h.reject(field.Forbidden(at.Child("realtime"), "needs dedicatedCpuPlacement: true, or others of the host would starve"))
	}
}

// cpuMask is a list of virtual CPUs in which ^ excludes one that was listed before.
var cpuMask = regexp.MustCompile(`^(\^?[0-9]+|[0-9]+-[0-9]+)(,(\^?[0-9]+|[0-9]+-[0-9]+))*$`)

// maxMask is the length of a mask of single CPUs.
const maxMask = 5 * maxVCPUs

// masked reports whether a mask names some of count virtual CPUs, and no others.
func masked(mask string, count uint64) bool {
	listed := make([]bool, min(count, maxVCPUs))
	for part := range strings.SplitSeq(mask, ",") {
		text, excluded := strings.CutPrefix(part, "^")
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || from > to || to >= uint64(len(listed)) {
			return false
		}
		for id := from; id <= to; id++ {
			listed[id] = !excluded
		}
	}
	return slices.Contains(listed, true)
}

// realtime gives virtual CPUs real-time priority. In KubeVirt, virt-handler does it outside the
// domain.
func (h *host) realtime(c *kubevirtv1.CPU) {
	if c.Realtime == nil {
		return
	}
	mask, count := strings.TrimSpace(c.Realtime.Mask), uint64(max(c.Sockets, 1))*uint64(max(c.Cores, 1))*uint64(max(c.Threads, 1))
	if mask == "" {
		mask = "0"
		if count > 1 {
			mask = fmt.Sprintf("0-%d", count-1)
		}
	}
	if len(mask) > maxMask || !cpuMask.MatchString(mask) || !masked(mask, count) {
		h.reject(field.Invalid(field.NewPath("spec", "domain", "cpu", "realtime", "mask"), c.Realtime.Mask, fmt.Sprintf("must be a list of the virtual CPUs 0 to %d, such as 0-3,^1", count-1)))
		return
	}
	h.domain.CPUTune.VCPUSched = []libvirtxml.DomainCPUTuneVCPUSched{{VCPUs: mask, Scheduler: "fifo", Priority: new(1)}}
}

// cpuList returns CPUs in the kernel's notation, in order.
func cpuList(cpus ...uint) string {
	sorted := slices.Sorted(slices.Values(cpus))
	text := make([]string, len(sorted))
	for i, cpu := range sorted {
		text[i] = strconv.FormatUint(uint64(cpu), 10)
	}
	return strings.Join(text, ",")
}

// A cpuNode has the free CPUs of one NUMA node of the host.
type cpuNode struct {
	id uint
	// whole are cores with enough free CPUs for the threads of a core of the guest; loose are the
	// CPUs of other cores.
	whole [][]uint
	loose []uint
}

// A cpuPool assigns each CPU of the host at most once.
type cpuPool struct {
	nodes []*cpuNode
	// threads of a core of the guest.
	threads int
}

// newCPUPool groups CPUs by node and core, and drops duplicates.
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

// takeLoose takes the CPUs of one core of the guest from several cores of the host.
func (n *cpuNode) takeLoose(threads int) []uint {
	if len(n.loose) < threads {
		return nil
	}
	taken := n.loose[:threads]
	n.loose = n.loose[threads:]
	return taken
}

// takeCores takes CPUs for cores of the guest: whole cores first, then loose CPUs of one node for
// each core of the guest, and finally, if crossing nodes is allowed, any CPUs.
func (p *cpuPool) takeCores(count int, crossing bool) ([]uint, bool) {
	var out []uint
	for _, take := range []func(*cpuNode, int) []uint{(*cpuNode).takeWhole, (*cpuNode).takeLoose} {
		for _, node := range p.nodes {
			for count > 0 {
				taken := take(node, p.threads)
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

// takeOne takes one CPU, a loose one if possible.
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

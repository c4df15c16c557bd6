package domain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// A placement says on which CPUs of the host the threads of a guest run that
// was promised CPUs of its own.
type placement struct {
	vcpus []uint
	// pool are those of the supplemental I/O threads.
	pool []uint
	// emulator are those of the emulator's threads, where they are to be apart.
	emulator []uint
}

// dedicated is the instance's CPU where it was promised CPUs of its own.
func (h *host) dedicated() *kubevirtv1.CPU {
	if c := h.spec.Domain.CPU; c != nil && c.DedicatedCPUPlacement {
		return c
	}
	return nil
}

// followsHost says whether the guest's NUMA cells are made after the host's.
func followsHost(c *kubevirtv1.CPU) bool {
	return c != nil && c.NUMA != nil && c.NUMA.GuestMappingPassthrough != nil
}

// place finds CPUs as KubeVirt does: whole cores before parts of cores. A
// single node that has enough is preferred, which KubeVirt leaves to the
// kubelet. Sockets that may come later have none.
func (h *host) place(c *kubevirtv1.CPU) (*placement, *field.Error) {
	cores, threads := int(max(c.Sockets, 1)*max(c.Cores, 1)), int(max(c.Threads, 1))
	at := field.NewPath("spec", "domain", "cpu", "dedicatedCpuPlacement")
	pool, out := h.roomFor(cores, threads, !followsHost(c))
	if out == nil {
		return nil, field.Invalid(at, true, fmt.Sprintf("%d cores of %d threads do not fit on the %d CPUs that the host has to give (facts.cpus)", cores, threads, len(h.facts.CPUs)))
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

// roomFor takes CPUs from the first node that has enough, else from all. The
// pool is what is left, beginning with that node.
func (h *host) roomFor(cores, threads int, crossing bool) (*cpuPool, *placement) {
	pool := newCPUPool(h.facts.CPUs, threads)
	for i := range pool.nodes {
		fresh := newCPUPool(h.facts.CPUs, threads)
		single := &cpuPool{nodes: fresh.nodes[i : i+1 : i+1], threads: threads}
		if cpus, ok := single.takeCores(cores, true); ok {
			fresh.first(i)
			return fresh, &placement{vcpus: cpus}
		}
	}
	if cpus, ok := pool.takeCores(cores, crossing); ok {
		return pool, &placement{vcpus: cpus}
	}
	return nil, nil
}

// emulatorCPUs is one, or two where an annotation wants an even number of CPUs
// in all.
func (h *host) emulatorCPUs(others int) uint {
	if _, even := h.vmi.Annotations[kubevirtv1.EmulatorThreadCompleteToEvenParity]; even && others%2 == 0 {
		return 2
	}
	return 1
}

// cpuPlacement pins the threads of a guest that was promised CPUs each to one
// of them, those of any other to the CPUs of the backend profile.
func (h *host) cpuPlacement() {
	h.domain.CPUTune = &libvirtxml.DomainCPUTune{}
	if c := h.dedicated(); c != nil {
		if p, err := h.place(c); err != nil {
			h.refuse(err)
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
		Reason: "CPUs of the host that are the guest's alone",
	})
	if len(p.emulator) > 0 {
		tune.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: cpuList(p.emulator...)}
		h.decide(Decision{Field: "spec.domain.cpu.isolateEmulatorThread", Element: "cputune/emulatorpin", Value: tune.EmulatorPin.CPUSet, Reason: "a CPU of the host for the emulator's threads alone"})
	}
	plan, err := h.planIOThreads()
	if err != nil {
		return // ioThreads says so
	}
	for i, set := range p.forIOThreads(plan) {
		tune.IOThreadPin = append(tune.IOThreadPin, libvirtxml.DomainCPUTuneIOThreadPin{IOThread: uint(i) + 1, CPUSet: set})
	}
}

// forIOThreads are the CPUs of each I/O thread: one of its own in a pool; else
// the emulator's, where those are apart; else a fair share of the guest's.
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

// share is where the part of one of several begins, when things are dealt out
// in order and the first ones get what is left over.
func share(i, of, things int) int { return i*(things/of) + min(i, things%of) }

// pinByProfile keeps the threads of a guest to which nothing was promised on
// the CPUs that the backend profile names.
func (h *host) pinByProfile() {
	if c := h.spec.Domain.CPU; c != nil {
		h.refuseUnpromised(c)
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

// refuseUnpromised refuses what only CPUs of its own can give a guest.
func (h *host) refuseUnpromised(c *kubevirtv1.CPU) {
	at := field.NewPath("spec", "domain", "cpu")
	if c.IsolateEmulatorThread {
		h.refuse(field.Forbidden(at.Child("isolateEmulatorThread"), "needs dedicatedCpuPlacement: true"))
	}
	if c.Realtime != nil {
		h.refuse(field.Forbidden(at.Child("realtime"), "needs dedicatedCpuPlacement: true, or others of the host would starve"))
	}
}

// cpuMask is a list of virtual CPUs in which ^ takes one away.
var cpuMask = regexp.MustCompile(`^\^?[0-9]+(-[0-9]+)?(,\^?[0-9]+(-[0-9]+)?)*$`)

// realtime has virtual CPUs run before everything else of the host. KubeVirt's
// virt-handler does it beside the domain.
func (h *host) realtime(c *kubevirtv1.CPU) {
	if c.Realtime == nil {
		return
	}
	mask := strings.TrimSpace(c.Realtime.Mask)
	if mask == "" {
		mask = "0"
		if n := max(c.Sockets, 1) * max(c.Cores, 1) * max(c.Threads, 1); n > 1 {
			mask = fmt.Sprintf("0-%d", n-1)
		}
	}
	if !cpuMask.MatchString(mask) {
		h.refuse(field.Invalid(field.NewPath("spec", "domain", "cpu", "realtime", "mask"), c.Realtime.Mask, "must be a list of virtual CPUs such as 0-3,^1"))
		return
	}
	h.domain.CPUTune.VCPUSched = []libvirtxml.DomainCPUTuneVCPUSched{{VCPUs: mask, Scheduler: "fifo", Priority: new(1)}}
}

// cpuList is CPUs as the kernel lists them, in order.
func cpuList(cpus ...uint) string {
	sorted := slices.Sorted(slices.Values(cpus))
	text := make([]string, len(sorted))
	for i, cpu := range sorted {
		text[i] = strconv.FormatUint(uint64(cpu), 10)
	}
	return strings.Join(text, ",")
}

package presets

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtwright/virtwright/presets/provenance"
)

const (
	// hotplugRatio is how many times its CPUs and its memory a VMI may have at most.
	hotplugRatio = 4
	// maxHotplugCPUs is the most vCPUs that the default of maxSockets allows. KubeVirt allows
	// 512, but libvirt 9.0 refuses more than 255 for a guest without an IOMMU.
	maxHotplugCPUs = 255
	// minHotplugMemory is the least memory of a guest whose memory may grow, in bytes.
	minHotplugMemory = 1 << 30
	// hotplugBlock is the unit in which memory grows, in bytes; with huge pages of 1Gi it is
	// one page.
	hotplugBlock = 2 << 20
)

// hotplugs reports whether the defaults for CPU and memory hotplug act. They belong to a VMI
// when it is created: in a stored VM they would freeze the maxima of the size it had then.
// They make no valid VMI invalid, so a probe leaves them out.
func (m *machine) hotplugs() bool {
	return !m.w.probing && m.instance && !m.platform.NoLiveUpdate && m.arch() != arm64
}

// maxSockets lets the sockets of a VMI grow.
func (m *machine) maxSockets() {
	cpu := m.domain.child("cpu")
	sockets, perSocket := whole(cpu.get("sockets")), whole(cpu.get("cores"))*whole(cpu.get("threads"))
	if !m.hotplugs() || sockets <= 0 || sockets > maxCPUs || perSocket <= 0 {
		return
	}
	cpu.setMaximum("maxSockets", max(sockets, min(hotplugRatio*sockets, maxHotplugCPUs/perSocket)))
}

// maxGuest lets the memory of a VMI grow, where KubeVirt can add memory.
func (m *machine) maxGuest() {
	if !m.hotplugs() || m.arch() != amd64 || m.memoryStays() {
		return
	}
	memory := m.domain.child("memory")
	q, err := parseQuantity(memory.get("guest"))
	if err != nil {
		return
	}
	block := int64(hotplugBlock)
	if memory.child("hugepages").text("pageSize") == "1Gi" {
		block = minHotplugMemory
	}
	guest := q.Value()
	if guest < minHotplugMemory || guest%block != 0 || guest > math.MaxInt64/hotplugRatio {
		return
	}
	memory.setMaximum("maxGuest", resource.NewQuantity(hotplugRatio*guest, resource.BinarySI).String())
}

// memoryStays reports whether the VMI has something with which memory cannot grow.
func (m *machine) memoryStays() bool {
	cpu := m.domain.child("cpu")
	return cpu.has("realtime") || cpu.child("numa").has("guestMappingPassthrough") || m.domain.has("launchSecurity")
}

// setMaximum sets a field by default unless a preset forbids it: the VMI of a VM that presets
// accept must not be refused.
func (c *cursor) setMaximum(name string, value any) {
	at := c.path().With(provenance.Segment{Name: name})
	forbids := func(p *Compiled) bool {
		return p != nil && slices.ContainsFunc(p.forbids, func(f forbid) bool { return slices.Equal(f.path, at) })
	}
	if !slices.ContainsFunc(c.w.by, forbids) {
		c.setDefault(name, value)
	}
}

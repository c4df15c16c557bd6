package domain

import (
	"cmp"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// lateResolvers say for each kind of what is late-bound how it is resolved.
var lateResolvers = map[LateKind]func(*host, Late){
	LateMachine:           (*host).lateMachine,
	LateHostCPU:           (*host).lateHostCPU,
	LateHyperVPassthrough: (*host).lateHyperV,
	LateTSC:               (*host).lateTSC,
	LateNUMA:              (*host).lateNUMA,
	LateMAC:               (*host).lateMAC,
	LateMTU:               (*host).lateMTU,
	LateBlockSize:         (*host).lateBlockSize,
	LateVSOCKCID:          (*host).lateVSOCK,
	LateHostDevice:        (*host).lateDevice,
}

// resolveLate puts what only the host knows in the place of each placeholder,
// and says so. What the host does not know is refused: a guest must not find
// something else tomorrow. In KubeVirt these values come from the pod and from
// libvirt, unsaid.
func (h *host) resolveLate() {
	for _, late := range h.partial.Late {
		resolve := lateResolvers[late.Kind]
		if resolve == nil {
			h.refuse(field.InternalError(field.NewPath(late.Field), fmt.Errorf("cannot resolve what is late-bound as %s: no resolver", late.Kind)))
			continue
		}
		resolve(h, late)
	}
	if value, at := annotation(h.vmi, kubevirtv1.PlacePCIDevicesOnRootComplex); value == "true" && !placeOnRootComplex(h.devices) {
		h.refuse(field.Invalid(at, value, "must be left out: there are more devices than slots on the root complex"))
	}
}

// missing refuses what the facts do not tell.
func (h *host) missing(late Late, fact string) {
	h.refuse(field.Required(field.NewPath(late.Field), "only a host knows it, and this one does not say (facts."+fact+")"))
}

// resolved notes what something late-bound was resolved to.
func (h *host) resolved(late Late, element, value, reason string) {
	h.decide(Decision{Field: late.Field, Element: element, Value: value, Reason: reason})
}

// versioned is a machine type that stays what it is.
var versioned = regexp.MustCompile(`[0-9]+(\.[0-9]+)+$`)

func (h *host) lateMachine(late Late) {
	if h.domain.OS == nil || h.domain.OS.Type == nil {
		return
	}
	alias := h.domain.OS.Type.Machine
	machine, known := h.facts.Machines[h.arch.name][alias]
	switch {
	case known && machine != "" && machine != alias:
		h.domain.OS.Type.Machine = machine
		h.resolved(late, "os/type/@machine", machine, "what the host means by "+alias)
	case known:
		h.resolved(late, "os/type/@machine", alias, "left to libvirt")
	case !versioned.MatchString(alias):
		h.missing(late, fmt.Sprintf("machines.%s[%s]", h.arch.name, alias))
	}
}

// lateHostCPU has nothing to resolve but what emulation has replaced: libvirt
// makes the processor after the host's.
func (h *host) lateHostCPU(late Late) {
	if h.domain.CPU != nil && h.domain.CPU.Mode != "maximum" {
		h.resolved(late, "cpu/@mode", h.domain.CPU.Mode, "made after the host's by libvirt")
	}
}

// lateHyperV likewise: QEMU offers what the host's kernel can do.
func (h *host) lateHyperV(late Late) {
	if h.domain.Features != nil && h.domain.Features.HyperV != nil {
		h.resolved(late, "features/hyperv/@mode", h.domain.Features.HyperV.Mode, "what the host's kernel offers")
	}
}

// lateTSC gives the guest's counter the host's frequency. Emulated guests have
// no counter of a known frequency.
func (h *host) lateTSC(late Late) {
	clock := h.domain.Clock
	if clock == nil {
		return
	}
	for i := range clock.Timer {
		if clock.Timer[i].Name != "tsc" {
			continue
		}
		switch {
		case h.emulated:
			clock.Timer = append(clock.Timer[:i], clock.Timer[i+1:]...)
			h.decide(Decision{Field: late.Field, Element: "clock/timer[@name='tsc']", Reason: noFrequency, Degraded: true})
		case h.facts.TSCFrequency == 0:
			h.missing(late, "tscFrequency")
		default:
			clock.Timer[i].Frequency = h.facts.TSCFrequency
			h.resolved(late, "clock/timer[@name='tsc']/@frequency", fmt.Sprint(h.facts.TSCFrequency), "the host's")
		}
		return
	}
}

// lateBlockSize gives a disk the block sizes of what its volume lies on. As in
// KubeVirt one of the sizes stands for the other where that is unknown, and
// the physical one for a granularity that is no multiple.
func (h *host) lateBlockSize(late Late) {
	facts, d := h.facts.Volumes[late.Device], h.disk(late.Device)
	logical := cmp.Or(facts.LogicalBlockSize, facts.PhysicalBlockSize)
	physical := cmp.Or(facts.PhysicalBlockSize, facts.LogicalBlockSize)
	if logical == 0 || d == nil {
		h.missing(late, fmt.Sprintf("volumes[%s].logicalBlockSize", late.Device))
		return
	}
	discard := facts.DiscardGranularity
	if discard%logical != 0 {
		discard = physical
	}
	d.BlockIO = &libvirtxml.DomainDiskBlockIO{LogicalBlockSize: logical, PhysicalBlockSize: physical, DiscardGranularity: &discard}
	h.resolved(late, fmt.Sprintf("devices/disk[alias/@name='%s']/blockio", d.Alias.Name),
		fmt.Sprintf("%d/%d, discard %d", logical, physical, discard), "those of what the volume lies on")
}

// firstCID is the first context ID that a guest can have: those below are the
// hypervisor's and the host's.
const firstCID = 3

func (h *host) lateVSOCK(late Late) {
	if h.facts.VSOCKCID < firstCID || h.devices.VSock == nil {
		h.missing(late, "vsockCID")
		return
	}
	cid := fmt.Sprint(h.facts.VSOCKCID)
	h.devices.VSock.CID = &libvirtxml.DomainVSockCID{Auto: "no", Address: cid}
	h.resolved(late, "devices/vsock/cid/@address", cid, "reserved for the instance")
}

package domain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
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
		h.unknownMachine(late, alias)
	}
}

// unknownMachine refuses an alias, and says which ones the host knows.
func (h *host) unknownMachine(late Late, alias string) {
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(h.facts.Machines[h.arch.name])), versioned.MatchString)
	what := cmp.Or(strings.Join(known, ", "), "none")
	h.refuse(field.Invalid(field.NewPath(late.Field), alias, fmt.Sprintf(
		"the host does not say which version it means by it (facts.machines.%s[%s]); it knows the aliases: %s; a versioned machine type would do as it is",
		h.arch.name, alias, what)))
}

// lateHostCPU has nothing to resolve but what emulation has replaced: libvirt
// makes the processor after the host's.
func (h *host) lateHostCPU(late Late) {
	if h.domain.CPU != nil && !h.emulated {
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
// the physical one for a granularity that is no multiple. A granularity that is
// unknown, or QEMU's own, is left out.
func (h *host) lateBlockSize(late Late) {
	facts, d := h.facts.Volumes[late.Device], h.disk(late.Device)
	logical := cmp.Or(facts.LogicalBlockSize, facts.PhysicalBlockSize)
	physical := cmp.Or(facts.PhysicalBlockSize, facts.LogicalBlockSize)
	if logical == 0 || d == nil {
		h.missing(late, fmt.Sprintf("volumes[%s].logicalBlockSize", late.Device))
		return
	}
	d.BlockIO = &libvirtxml.DomainDiskBlockIO{LogicalBlockSize: logical, PhysicalBlockSize: physical}
	value, discard := fmt.Sprintf("%d/%d", logical, physical), facts.DiscardGranularity
	if discard%logical != 0 {
		discard = physical
	}
	if discard != 0 && discard != usualGranularity(d, logical) {
		d.BlockIO.DiscardGranularity = &discard
		value += fmt.Sprintf(", discard %d", discard)
	}
	h.resolved(late, fmt.Sprintf("devices/disk[alias/@name='%s']/blockio", d.Alias.Name), value, "those of what the volume lies on")
}

// pageDiscard is the least that QEMU discards at once of disks on other buses
// than virtio.
const pageDiscard = 4096

// usualGranularity is what QEMU discards at once where nothing is said, which
// libvirt 9.0 cannot be told.
func usualGranularity(d *libvirtxml.DomainDisk, logical uint) uint {
	if d.Target != nil && d.Target.Bus == kubevirtv1.VirtIO {
		return logical
	}
	return max(logical, pageDiscard)
}

// firstCID is the first context ID that a guest can have: those below are the
// hypervisor's and the host's.
const firstCID = 3

// lateVSOCK takes the host's word, else that of the instance's status, where
// KubeVirt's controller writes it.
func (h *host) lateVSOCK(late Late) {
	reserved := cmp.Or(h.facts.VSOCKCID, ptr.Deref(h.vmi.Status.VSOCKCID, 0))
	if reserved < firstCID || h.devices.VSock == nil {
		h.missing(late, "vsockCID")
		return
	}
	cid := fmt.Sprint(reserved)
	h.devices.VSock.CID = &libvirtxml.DomainVSockCID{Auto: "no", Address: cid}
	h.resolved(late, "devices/vsock/cid/@address", cid, "reserved for the instance")
}

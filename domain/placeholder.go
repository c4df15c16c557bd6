package domain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Placeholder is a value that a guest sees and only a host knows: it is late-bound. Stage 3
// resolves it, or rejects the VMI.
type Placeholder struct {
	// Kind of the value.
	Kind placeholderKind `json:"kind"`
	// Field of the VMI that asks for the value, with its path from the root.
	Field string `json:"field"`
	// Device is the name of the disk, interface or host device with this value; empty for others.
	Device string `json:"device,omitempty"`
}

// String returns the placeholder as one line.
func (p Placeholder) String() string {
	if p.Device == "" {
		return fmt.Sprintf("%s (%s)", p.Kind, p.Field)
	}
	return fmt.Sprintf("%s of %s (%s)", p.Kind, p.Device, p.Field)
}

type placeholderKind string

// The kinds of placeholders. Each has a resolver in stage 3.
const (
	kindMachine           placeholderKind = "Machine"           // the versioned machine type behind an alias
	kindHostCPU           placeholderKind = "HostCPU"           // a CPU like the host's; the domain has its mode
	kindHyperVPassthrough placeholderKind = "HyperVPassthrough" // the enlightenments that the host offers
	kindTSC               placeholderKind = "TSC"               // the frequency of the time stamp counter
	kindNUMA              placeholderKind = "NUMA"              // cells like the host's
	kindMAC               placeholderKind = "MAC"               // the address of an interface that has none
	kindMTU               placeholderKind = "MTU"
	kindBlockSize         placeholderKind = "BlockSize" // of a disk that matches its volume
	kindVSOCKCID          placeholderKind = "VSOCKCID"
	kindHostDevice        placeholderKind = "HostDevice" // stage 2 adds none
)

var resolvers = map[placeholderKind]func(*host, Placeholder){
	kindMachine:           (*host).resolveMachine,
	kindHostCPU:           (*host).resolveHostCPU,
	kindHyperVPassthrough: (*host).resolveHyperV,
	kindTSC:               (*host).resolveTSC,
	kindNUMA:              (*host).resolveNUMA,
	kindMAC:               (*host).resolveMAC,
	kindMTU:               (*host).resolveMTU,
	kindBlockSize:         (*host).resolveBlockSize,
	kindVSOCKCID:          (*host).resolveVSOCK,
	kindHostDevice:        (*host).resolveDevice,
}

func (g *guest) leaveToHost(kind placeholderKind, at *field.Path, device string) {
	g.placeholders = append(g.placeholders, Placeholder{Kind: kind, Field: at.String(), Device: device})
}

// placeholders resolves every placeholder and records a decision for it. It rejects a VMI whose
// values the host does not know: the guest must not find other hardware tomorrow. With KubeVirt
// these values come from the pod and from libvirt, unrecorded.
func (h *host) placeholders() {
	for _, p := range h.guest.Placeholders {
		resolve := resolvers[p.Kind]
		if resolve == nil {
			h.reject(field.InternalError(field.NewPath(p.Field), fmt.Errorf("cannot resolve a placeholder of kind %s: no resolver", p.Kind)))
			continue
		}
		resolve(h, p)
	}
	h.errs = append(h.errs, placeOnRootComplex(h.vmi, h.devices)...)
}

func (h *host) missing(p Placeholder, fact string) {
	h.reject(field.Required(field.NewPath(p.Field), "only a host knows it, and this one does not say (facts."+fact+")"))
}

func (h *host) resolved(p Placeholder, element, value, reason string) {
	h.decide(Decision{Field: p.Field, Element: element, Value: value, Reason: reason})
}

// versioned is a machine type that never changes.
var versioned = regexp.MustCompile(`[0-9]+(\.[0-9]+)+$`)

func (h *host) resolveMachine(p Placeholder) {
	if h.domain.OS == nil || h.domain.OS.Type == nil {
		return
	}
	alias := h.domain.OS.Type.Machine
	machine, known := h.facts.Machines[h.arch.name][alias]
	switch {
	case known && machine != "" && machine != alias:
		h.domain.OS.Type.Machine = machine
		h.resolved(p, "os/type/@machine", machine, "the host's version of "+alias)
	case known:
		h.resolved(p, "os/type/@machine", alias, "left to libvirt")
	case !versioned.MatchString(alias):
		aliases := slices.DeleteFunc(slices.Sorted(maps.Keys(h.facts.Machines[h.arch.name])), versioned.MatchString)
		h.reject(field.Invalid(field.NewPath(p.Field), alias, fmt.Sprintf(
			"the host does not say which version it stands for (facts.machines.%s[%s]); use a versioned machine type, or an alias that the host knows: %s",
			h.arch.name, alias, cmp.Or(strings.Join(aliases, ", "), "none"))))
	}
}

// resolveHostCPU changes nothing: libvirt creates the CPU when the domain starts.
func (h *host) resolveHostCPU(p Placeholder) {
	if h.domain.CPU != nil && !h.emulated {
		h.resolved(p, "cpu/@mode", h.domain.CPU.Mode, "created by libvirt from the host's CPU")
	}
}

// resolveHyperV changes nothing: QEMU offers what the host's kernel supports.
func (h *host) resolveHyperV(p Placeholder) {
	if h.domain.Features != nil && h.domain.Features.HyperV != nil {
		h.resolved(p, "features/hyperv/@mode", h.domain.Features.HyperV.Mode, "what the host's kernel offers")
	}
}

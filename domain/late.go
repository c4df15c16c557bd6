package domain

import "fmt"

// A Late is something that a guest sees and that only a host knows. Stage 2
// leaves the element as the placeholder that the kind says; stage 3 resolves
// it, or refuses the instance.
type Late struct {
	// Kind says what is to be resolved.
	Kind LateKind `json:"kind"`
	// Field is the field of the instance that asks for it, with its path from the
	// root.
	Field string `json:"field"`
	// Device is the name of the disk, interface or host device that it is about;
	// empty where it is about the machine.
	Device string `json:"device,omitempty"`
}

// String is what is to be resolved, as one line.
func (l Late) String() string {
	if l.Device == "" {
		return fmt.Sprintf("%s (%s)", l.Kind, l.Field)
	}
	return fmt.Sprintf("%s of %s (%s)", l.Kind, l.Device, l.Field)
}

// LateKind is a kind of what is late-bound.
type LateKind string

// The kinds of what is late-bound. Each has a resolver in stage 3.
const (
	// LateMachine is a machine type that is an alias: the versioned one is the
	// host's. The placeholder is the alias.
	LateMachine LateKind = "Machine"
	// LateHostCPU is a CPU made after the host's. The placeholder is its mode.
	LateHostCPU LateKind = "HostCPU"
	// LateHyperVPassthrough is what the host offers of Hyper-V's enlightenments.
	LateHyperVPassthrough LateKind = "HyperVPassthrough"
	// LateTSC is the frequency of the time stamp counter.
	LateTSC LateKind = "TSC"
	// LateNUMA are NUMA cells made after the host's.
	LateNUMA LateKind = "NUMA"
	// LateMAC is the address of an interface that names none. The placeholder is
	// an interface without one.
	LateMAC LateKind = "MAC"
	// LateMTU is the largest packet of an interface.
	LateMTU LateKind = "MTU"
	// LateBlockSize is the block size of a disk that takes its volume's.
	LateBlockSize LateKind = "BlockSize"
	// LateVSOCKCID is the context ID of a guest.
	LateVSOCKCID LateKind = "VSOCKCID"
	// LateHostDevice is a device of the host that the guest gets. The placeholder
	// is nothing: devices of the host are added in stage 3.
	LateHostDevice LateKind = "HostDevice"
)

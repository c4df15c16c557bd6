package standin

import (
	"fmt"
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Annotation tells, on an instance or on the template of a VirtualMachine, how
// the guest behaves. Anybody may write it; what [Runtime.Tell] said goes first.
const Annotation = "standin.virtwright.dev/behaviour"

// A Behaviour is how a guest, or the node below it, behaves.
type Behaviour string

// The behaviours.
const (
	// Run is the usual one: the guest starts, runs, and shuts down when asked to.
	Run Behaviour = "run"
	// CrashEarly fails at the end of phase Scheduled, before it ever runs.
	CrashEarly Behaviour = "crash-early"
	// Crash fails after it ran for Delays.Life.
	Crash Behaviour = "crash"
	// Shutdown ends by itself, and well, after it ran for Delays.Life.
	Shutdown Behaviour = "shutdown"
	// Hang runs and does not shut down until its grace period forces it.
	Hang Behaviour = "hang"
	// Unschedulable finds no node. It is claimed once it is told otherwise.
	Unschedulable Behaviour = "unschedulable"
)

// Behaviours are all there are.
func Behaviours() []Behaviour {
	return []Behaviour{Run, CrashEarly, Crash, Shutdown, Hang, Unschedulable}
}

// annotated is what the annotation of an instance says, Run where it says nothing.
func annotated(vmi *kubevirtv1.VirtualMachineInstance) (Behaviour, error) {
	b := Behaviour(vmi.Annotations[Annotation])
	switch {
	case b == "":
		return Run, nil
	case !slices.Contains(Behaviours(), b):
		return Run, fmt.Errorf("cannot behave as annotation %s says: %q is none of %q", Annotation, b, Behaviours())
	}
	return b, nil
}

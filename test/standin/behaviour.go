package standin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// annotation tells how the guest behaves, on its pod. A VMI and the template of a VM give theirs to
// the pod that is created later. What [Runtime.Tell] said goes first.
const annotation = "standin.virtwright.dev/behaviour"

// A Behaviour is how a guest, or the node below it, behaves.
type Behaviour string

// The behaviours.
const (
	// Run is the usual one: the guest starts, runs, and shuts down when asked to.
	Run Behaviour = "run"
	// CrashEarly fails where the guest would start.
	CrashEarly Behaviour = "crash-early"
	// Crash fails after it ran for Delays.Life.
	Crash Behaviour = "crash"
	// Shutdown ends by itself, and well, after it ran for Delays.Life.
	Shutdown Behaviour = "shutdown"
	// Hang runs and does not shut down until its grace period forces it.
	Hang Behaviour = "hang"
	// Unschedulable finds no node. It is bound once its behavior changes.
	Unschedulable Behaviour = "unschedulable"
)

// behaviours are all there are.
func behaviours() []Behaviour {
	return []Behaviour{Run, CrashEarly, Crash, Shutdown, Hang, Unschedulable}
}

// annotated is what the annotation of a pod says, Run where it says nothing.
func annotated(pod *corev1.Pod) (Behaviour, error) {
	b := Behaviour(pod.Annotations[annotation])
	switch {
	case b == "":
		return Run, nil
	case !slices.Contains(behaviours(), b):
		return Run, fmt.Errorf("cannot behave as annotation %s says: %q is none of %q", annotation, b, behaviours())
	}
	return b, nil
}

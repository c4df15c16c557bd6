package virtualmachineinstance

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// Reasons of status.reason besides those of v1alpha1.GuestEnd.
const (
	reasonNotLive  = "LivenessProbeFailed" // for a pod that the kubelet ended because its liveness probe failed
	reasonNoPod    = "NoPod"               // for a VMI that another program started
	reasonNeverRan = "NeverRan"            // for a VMI that was deleted before it had a pod
)

// An observation holds the facts about a VMI that a decision depends on.
type observation struct {
	Phase        kubevirtv1.VirtualMachineInstancePhase
	Deleting     bool // whether the VMI is being deleted
	HasFinalizer bool
	HadPod       bool           // whether the VMI had a pod, by its status
	Excluded     bool           // whether virtwright excludes the namespace, so that no pod is created
	Evicted      bool           // whether the pod was disrupted, now or before it was deleted
	Pod          podObservation // the pod with the name of the VMI's pod
}

// A podObservation holds the facts about the pod with the name of a VMI's pod.
type podObservation struct {
	Ownership ownership
	Deleting  bool
	// Late reports whether another deletion ends the pod earlier: its grace period is longer than
	// the VMI's is now, or it has none and no node. API servers keep such a pod if its deletion was
	// interrupted; a pod with a node is removed by its kubelet.
	Late    bool
	Bound   bool // whether the pod has a node
	Started bool
	Phase   corev1.PodPhase
	End     v1alpha1.GuestEnd // how the guest ended, once Phase is final
}

// final reports whether the containers of the pod have ended and are not restarted.
func (p *podObservation) final() bool {
	return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
}

// An ownership is the relation of a VMI to the pod of its name.
type ownership string

const (
	absent  ownership = ""        // there is no pod
	owned   ownership = "Owned"   // the pod that status names or, if it names none, one that the VMI controls
	foreign ownership = "Foreign" // any other pod
)

// An action changes the pod or the finalizer of a VMI, or reports why the pod cannot be created.
type action string

const (
	nothing          action = ""
	addFinalizer     action = "AddFinalizer"
	createPod        action = "CreatePod"
	deletePod        action = "DeletePod" // which shuts the guest down
	removeFinalizer  action = "RemoveFinalizer"
	reportForeignPod action = "ReportForeignPod"
	reportExcluded   action = "ReportExcluded"
)

// A decision holds the next action for a VMI, and its phase.
type decision struct {
	Action          action
	Phase           kubevirtv1.VirtualMachineInstancePhase // entered; empty keeps the phase
	Reason, Message string                                 // of a final phase
}

// decide returns the next action for a VMI. It is a pure function. Tests verify for all
// observations that
//
//   - a pod is created only for a VMI that has the finalizer, is not being deleted, has not started
//     and never had a pod;
//   - the finalizer is removed only when the VMI is being deleted and has no pod;
//   - a final phase never changes, and is entered only when the pod is final or does not exist;
//   - a foreign pod is never deleted and never changes the phase of the VMI.
func decide(o observation) decision {
	d := decidePhase(o)
	switch {
	case o.Deleting:
		d.Action = decideDeletion(o)
	case isFinal(o.Phase), isFinal(d.Phase):
	case o.Excluded && o.Pod.Ownership != owned:
		d.Action = reportExcluded
	case o.Pod.Ownership == foreign:
		d.Action = reportForeignPod
	case !o.HasFinalizer:
		d.Action = addFinalizer
	case o.Pod.Ownership == absent:
		d.Action = createPod
	}
	return d
}

func isFinal(phase kubevirtv1.VirtualMachineInstancePhase) bool {
	return phase == kubevirtv1.Succeeded || phase == kubevirtv1.Failed
}

func decideDeletion(o observation) action {
	switch {
	case o.Pod.Ownership == owned && (!o.Pod.Deleting || o.Pod.Late):
		return deletePod
	case o.Pod.Ownership != owned && o.HasFinalizer:
		return removeFinalizer
	}
	return nothing
}

// decidePhase returns the phase that follows from the pod, without an action.
func decidePhase(o observation) decision {
	switch {
	case isFinal(o.Phase):
		return decision{}
	case o.Pod.Ownership == owned && o.Pod.final():
		return decideFinalPhase(o)
	case o.Pod.Ownership == owned:
		return decision{Phase: activePhase(o)}
	case o.HadPod && o.Evicted:
		return failed(v1alpha1.ReasonEvicted, "the pod was evicted")
	case o.HadPod:
		return failed(v1alpha1.ReasonPodDeleted, "the pod does not exist any more; how the guest ended is unknown")
	}
	return decidePhaseWithoutPod(o)
}

// decidePhaseWithoutPod returns the phase of a VMI that never had a pod.
func decidePhaseWithoutPod(o observation) decision {
	switch {
	case o.Deleting:
		return failed(reasonNeverRan, "the VMI was deleted before it had a pod")
	case o.Phase == kubevirtv1.VmPhaseUnset:
		return decision{Phase: kubevirtv1.Pending}
	case o.Phase != kubevirtv1.Pending:
		return failed(reasonNoPod, "another program started the VMI, without a pod")
	}
	return decision{}
}

// decideFinalPhase returns the phase of a VMI after its pod ended. A guest that was stopped with
// its pod has failed, unless the VMI is being deleted.
func decideFinalPhase(o observation) decision {
	end := o.Pod.End
	stopped := end.Reason == v1alpha1.GuestStopped
	switch {
	case o.Evicted && !o.Deleting:
		return failed(v1alpha1.ReasonEvicted, "the pod was evicted: "+end.Message)
	case stopped && !o.Deleting && o.Pod.Deleting:
		return failed(v1alpha1.ReasonPodDeleted, "the pod was deleted: "+end.Message)
	case stopped && !o.Deleting:
		return failed(reasonNotLive, "the liveness probe failed: "+end.Message)
	case stopped:
		return decision{Phase: kubevirtv1.Succeeded, Reason: string(v1alpha1.GuestShutdown), Message: end.Message}
	case o.Pod.Phase == corev1.PodSucceeded:
		return decision{Phase: kubevirtv1.Succeeded, Reason: string(end.Reason), Message: end.Message}
	}
	return failed(string(end.Reason), end.Message)
}

func failed(reason, message string) decision {
	return decision{Phase: kubevirtv1.Failed, Reason: reason, Message: message}
}

// activePhase returns the phase of a VMI with a pod that has not ended; empty keeps the phase.
func activePhase(o observation) kubevirtv1.VirtualMachineInstancePhase {
	phase := kubevirtv1.Scheduling
	switch {
	case o.Pod.Started:
		phase = kubevirtv1.Running
	case o.Phase == kubevirtv1.Running:
		return "" // phases never go back
	case o.Pod.Bound:
		phase = kubevirtv1.Scheduled
	}
	if phase == o.Phase {
		return ""
	}
	return phase
}

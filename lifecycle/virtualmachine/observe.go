package virtualmachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

type (
	runStrategy  = kubevirtv1.VirtualMachineRunStrategy
	request      = kubevirtv1.VirtualMachineStateChangeRequest
	startFailure = kubevirtv1.VirtualMachineStartFailure
)

// An observation holds the facts about a VM that a decision depends on.
type observation struct {
	UID      types.UID
	Strategy runStrategy // empty if spec.running and spec.runStrategy are both set
	// LastStrategy is the strategy under which the last VMI existed, or none was allowed, or a stop
	// was requested before the first VMI; empty for a new VM.
	LastStrategy   runStrategy
	Deletion       deletion
	Requests       []request     // pending, oldest first
	StartFailure   *startFailure // counts consecutive VMIs that failed before they ran
	Volumes        volumesState
	MissingVolumes []string        // DataVolumes to be created
	Changes        string          // describes how the template differs from the running VMI; empty unless it was read
	Excluded       bool            // whether virtwright excludes the namespace, so that no VMI is created
	VMI            *vmiObservation // the VMI with the name of the VM; nil if there is none
	Now            time.Time
}

// A deletion is how a VM is being deleted.
type deletion int

const (
	notDeleted   deletion = iota
	withVMI               // the VMI is deleted, too
	orphaningVMI          // the VMI stays
)

// A volumesState is the state of the DataVolumes of a VM.
type volumesState int

const (
	volumesReady   volumesState = iota // a VMI can start
	volumesPending                     // they become ready without intervention
	volumesFailed                      // they need intervention
)

// A vmiObservation holds the facts about the VMI with the name of a VM.
type vmiObservation struct {
	UID       types.UID
	Ownership ownership
	Deleting  bool
	Phase     phase
	Ran       bool // whether the guest has ever run
	PodLost   bool // whether the VMI failed because its pod was evicted or deleted
}

// An ownership is the relation of a VM to the VMI with its name.
type ownership int

const (
	owned   ownership = iota // controlled by the VM
	orphan                   // without a controller, created for a VM with this name
	foreign                  // all others
)

type phase int

const (
	starting phase = iota
	running
	succeeded
	failed
)

func (p phase) final() bool { return p == succeeded || p == failed }

// active reports whether the VMI, which may be nil, runs or starts.
func (v *vmiObservation) active() bool { return v != nil && !v.Deleting && !v.Phase.final() }

// own returns the VMI if the VM owns it, or nil.
func (o *observation) own() *vmiObservation {
	if o.VMI != nil && o.VMI.Ownership == owned {
		return o.VMI
	}
	return nil
}

// observe returns the facts about a VM and the VMI of its name, which may be nil. It assumes that
// volumes are ready.
func observe(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, now time.Time) observation {
	o := observation{
		UID: vm.UID, Strategy: vm.RunStrategy(), LastStrategy: vm.Status.RunStrategy,
		Requests: vm.Status.StateChangeRequests, StartFailure: vm.Status.StartFailure, Now: now,
	}
	if vm.DeletionTimestamp != nil {
		o.Deletion = withVMI
		if slices.Contains(vm.Finalizers, metav1.FinalizerOrphanDependents) {
			o.Deletion = orphaningVMI
		}
	}
	if vmi != nil {
		o.VMI = &vmiObservation{
			UID: vmi.UID, Ownership: ownershipOf(vm, vmi), Deleting: vmi.DeletionTimestamp != nil,
			Phase: phaseOf(vmi.Status.Phase), Ran: hasRun(&vmi.Status),
			PodLost: slices.Contains(v1alpha1.PodLostReasons, vmi.Status.Reason),
		}
	}
	return o
}

func ownershipOf(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance) ownership {
	owner := metav1.GetControllerOfNoCopy(vmi)
	switch {
	case owner != nil && owner.UID == vm.UID:
		return owned
	case owner == nil && v1alpha1.CreatedByController(vmi):
		return orphan
	}
	return foreign
}

func phaseOf(p kubevirtv1.VirtualMachineInstancePhase) phase {
	switch p {
	case kubevirtv1.Running:
		return running
	case kubevirtv1.Succeeded:
		return succeeded
	case kubevirtv1.Failed:
		return failed
	}
	return starting
}

func hasRun(status *partialobject.VirtualMachineInstanceStatus) bool {
	return status.Phase == kubevirtv1.Running || slices.ContainsFunc(status.PhaseTransitionTimestamps,
		func(t kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool {
			return t.Phase == kubevirtv1.Running
		})
}

package virtualmachine

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// statusOf returns the status of a VM after a decision was carried out, or failed. If the decision
// deletes the VMI, the status already says so before.
func statusOf(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, o observation, d decision, failure *partialobject.Failure) partialobject.VirtualMachineStatus {
	if o.own() == nil {
		vmi = nil
	}
	created := vmiExists(o, d, failure)
	return partialobject.VirtualMachineStatus{
		Created: created, Ready: vmi != nil && vmi.Status.IsTrue(kubevirtv1.VirtualMachineInstanceReady),
		PrintableStatus: printableStatus(vmi, o, d, created), Conditions: conditions(vm, vmi, o, d, failure),
		StateChangeRequests: d.Requests, StartFailure: d.StartFailure, RunStrategy: lastStrategy(o, d, created),
		ObservedGeneration: vm.Generation, DesiredGeneration: vm.Generation,
	}
}

func vmiExists(o observation, d decision, failure *partialobject.Failure) bool {
	return o.own() != nil || d.Create && failure == nil
}

// lastStrategy returns observation.LastStrategy of the next reconciliation.
func lastStrategy(o observation, d decision, created bool) runStrategy {
	switch {
	case d.Strategy != "":
		return d.Strategy
	case o.Deletion != notDeleted, o.Strategy == "":
		return o.LastStrategy
	case !created && (o.Strategy == kubevirtv1.RunStrategyRerunOnFailure || o.Strategy == kubevirtv1.RunStrategyOnce):
		return o.LastStrategy
	}
	return o.Strategy
}

var printableStatusOfVolumes = map[volumesState]kubevirtv1.VirtualMachinePrintableStatus{
	volumesPending: kubevirtv1.VirtualMachineStatusProvisioning,
	volumesFailed:  kubevirtv1.VirtualMachineStatusDataVolumeError,
}

func printableStatus(vmi *partialobject.VirtualMachineInstance, o observation, d decision, created bool) kubevirtv1.VirtualMachinePrintableStatus {
	switch {
	case o.Deletion != notDeleted:
		return kubevirtv1.VirtualMachineStatusTerminating
	case vmi != nil && o.own().Phase.final() && inCrashLoop(o, d):
		return kubevirtv1.VirtualMachineStatusCrashLoopBackOff
	case vmi != nil:
		return printableStatusOfVMI(vmi, o.own(), d)
	case created:
		return kubevirtv1.VirtualMachineStatusStarting
	case o.Volumes != volumesReady:
		return printableStatusOfVolumes[o.Volumes]
	case inCrashLoop(o, d):
		return kubevirtv1.VirtualMachineStatusCrashLoopBackOff
	}
	return kubevirtv1.VirtualMachineStatusStopped
}

func inCrashLoop(o observation, d decision) bool {
	return d.StartFailure != nil && d.StartFailure.ConsecutiveFailCount > 0 &&
		(restartsVMI(o.Strategy) || o.Strategy == kubevirtv1.RunStrategyOnce)
}

func printableStatusOfVMI(vmi *partialobject.VirtualMachineInstance, seen *vmiObservation, d decision) kubevirtv1.VirtualMachinePrintableStatus {
	switch {
	case seen.Deleting || d.Delete != "":
		return kubevirtv1.VirtualMachineStatusStopping
	case seen.Phase == running && vmi.Status.IsTrue(kubevirtv1.VirtualMachineInstancePaused):
		return kubevirtv1.VirtualMachineStatusPaused
	case seen.Phase == running:
		return kubevirtv1.VirtualMachineStatusRunning
	case vmi.Status.Phase == kubevirtv1.Unknown:
		return kubevirtv1.VirtualMachineStatusUnknown
	case vmi.Status.Phase == kubevirtv1.WaitingForSync:
		return kubevirtv1.VirtualMachineStatusWaitingForReceiver
	case seen.Phase.final():
		return kubevirtv1.VirtualMachineStatusStopped
	}
	return printableStatusStarting(vmi.Status.Conditions)
}

// statusOfReason has the reasons of the condition Synchronized that status shows.
var statusOfReason = map[string]kubevirtv1.VirtualMachinePrintableStatus{
	"FailedPvcNotFound":   kubevirtv1.VirtualMachineStatusPvcNotFound,
	reasonVolumeNotFilled: kubevirtv1.VirtualMachineStatusDataVolumeError,
	"DataVolumesNotReady": kubevirtv1.VirtualMachineStatusProvisioning,
	"ErrImagePull":        kubevirtv1.VirtualMachineStatusErrImagePull,
	"ImagePullBackOff":    kubevirtv1.VirtualMachineStatusImagePullBackOff,
}

func printableStatusStarting(conditions []kubevirtv1.VirtualMachineInstanceCondition) kubevirtv1.VirtualMachinePrintableStatus {
	for _, c := range conditions {
		if c.Status != corev1.ConditionFalse {
			continue
		}
		switch {
		case c.Type == kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled) && c.Reason == corev1.PodReasonUnschedulable:
			return kubevirtv1.VirtualMachineStatusUnschedulable
		case c.Type == kubevirtv1.VirtualMachineInstanceSynchronized && statusOfReason[c.Reason] != "":
			return statusOfReason[c.Reason]
		}
	}
	return kubevirtv1.VirtualMachineStatusStarting
}

// needsChanges reports whether observation.Changes must be read: the running VMI differs from the
// template, and status does not describe the difference for this generation yet.
func needsChanges(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, o observation) bool {
	described := find(vm.Status.Conditions, kubevirtv1.VirtualMachineRestartRequired) != nil && vm.Status.ObservedGeneration == vm.Generation
	return !described && templateChanged(vm, vmi, o)
}

func templateChanged(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, o observation) bool {
	if !o.own().active() {
		return false
	}
	hash := vmi.Annotations[v1alpha1.AnnotationTemplateHash]
	if hash == "" || vm.Spec.Template == nil || hash == vm.Spec.Template.Hash {
		return false
	}
	values := vmi.Annotations[v1alpha1.AnnotationTemplateValues]
	return values == "" || values != vm.Spec.Template.Values
}

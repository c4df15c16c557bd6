package runstate

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/validation/names"
)

// Observe is the situation of a VirtualMachine and the instance of its name,
// which may be nil. Volumes are Filled unless the caller knows better.
func Observe(vm *machine.VirtualMachine, instance *machine.Instance, now time.Time) Situation {
	s := Situation{
		UID: vm.UID, Strategy: StrategyOf(vm), Before: vm.Status.RunStrategy,
		Requests: vm.Status.StateChangeRequests, Failure: vm.Status.StartFailure, Now: now,
	}
	if vm.DeletionTimestamp != nil {
		s.Deletion = WithInstance
		if slices.Contains(vm.Finalizers, metav1.FinalizerOrphanDependents) {
			s.Deletion = LeavingInstance
		}
	}
	if instance != nil {
		s.Instance = &Instance{
			UID: instance.UID, Whose: whose(vm, instance), Deleting: instance.DeletionTimestamp != nil,
			Phase: phaseOf(instance.Status.Phase), Ran: ran(&instance.Status),
		}
	}
	return s
}

// StrategyOf is the strategy that a spec means; empty where it contradicts itself.
func StrategyOf(vm *machine.VirtualMachine) Strategy {
	running, strategy := vm.Spec.Running, vm.Spec.RunStrategy
	switch {
	case running != nil && strategy != nil:
		return ""
	case strategy != nil:
		return *strategy
	case running != nil && *running:
		return kubevirtv1.RunStrategyAlways
	}
	return kubevirtv1.RunStrategyHalted
}

func whose(vm *machine.VirtualMachine, instance *machine.Instance) Whose {
	owner := metav1.GetControllerOfNoCopy(instance)
	switch {
	case owner != nil && owner.UID == vm.UID:
		return Own
	case owner == nil && names.Proven(instance):
		return Orphan
	}
	return Foreign
}

func phaseOf(phase kubevirtv1.VirtualMachineInstancePhase) Phase {
	switch phase {
	case kubevirtv1.Running:
		return Running
	case kubevirtv1.Succeeded:
		return Succeeded
	case kubevirtv1.Failed:
		return Failed
	}
	return Starting
}

// ran reports whether an instance has ever been running.
func ran(status *machine.InstanceStatus) bool {
	return status.Phase == kubevirtv1.Running || slices.ContainsFunc(status.PhaseTransitionTimestamps,
		func(t kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool {
			return t.Phase == kubevirtv1.Running
		})
}

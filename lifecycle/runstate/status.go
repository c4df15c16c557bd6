package runstate

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/machine"
)

// A Trouble is why something could not be done.
type Trouble struct{ Reason, Message string }

// Status is what status shall say of a VirtualMachine once the decision about
// its situation has been carried out, or could not be.
func Status(vm *machine.VirtualMachine, instance *machine.Instance, s Situation, d Decision, trouble *Trouble) machine.Status {
	i := s.own()
	if i == nil {
		instance = nil
	}
	created := made(s, d, trouble)
	out := machine.Status{
		Created:      created,
		StartFailure: d.Failure, RunStrategy: s.before(d, created),
	}
	out.StateChangeRequests = d.Requests
	out.Ready = i != nil && isTrue(instance.Status.Conditions, kubevirtv1.VirtualMachineInstanceReady)
	out.PrintableStatus = printable(instance, s, d, created)
	out.ObservedGeneration, out.DesiredGeneration = vm.Generation, vm.Generation
	out.Conditions = conditions(vm, instance, s, d, trouble)
	return out
}

// before is what Situation.Before is next time.
func (s *Situation) before(d Decision, created bool) Strategy {
	switch {
	case d.Strategy != "":
		return d.Strategy
	case s.Deletion != NotDeleted, s.Strategy == "":
		return s.Before
	case !created && (s.Strategy == kubevirtv1.RunStrategyRerunOnFailure || s.Strategy == kubevirtv1.RunStrategyOnce):
		return s.Before
	}
	return s.Strategy
}

// printable is the status in one word, as KubeVirt has them.
func printable(instance *machine.Instance, s Situation, d Decision, created bool) kubevirtv1.VirtualMachinePrintableStatus {
	crashing := s.crashing(d)
	switch {
	case s.Deletion != NotDeleted:
		return kubevirtv1.VirtualMachineStatusTerminating
	case instance != nil && s.own().Phase.Final() && crashing:
		return kubevirtv1.VirtualMachineStatusCrashLoopBackOff
	case instance != nil:
		return printableOf(instance, s.own(), d)
	case created:
		return kubevirtv1.VirtualMachineStatusStarting
	case s.Volumes != Filled:
		return map[Volumes]kubevirtv1.VirtualMachinePrintableStatus{
			Stuck: kubevirtv1.VirtualMachineStatusDataVolumeError, Filling: kubevirtv1.VirtualMachineStatusProvisioning,
		}[s.Volumes]
	case crashing:
		return kubevirtv1.VirtualMachineStatusCrashLoopBackOff
	case s.Strategy == kubevirtv1.RunStrategyWaitAsReceiver:
		return kubevirtv1.VirtualMachineStatusWaitingForReceiver
	}
	return kubevirtv1.VirtualMachineStatusStopped
}

// made reports whether there is an instance once a decision is carried out.
func made(s Situation, d Decision, trouble *Trouble) bool {
	return s.own() != nil || d.Create && trouble == nil
}

// crashing reports whether instances have ended before they ran.
func (s *Situation) crashing(d Decision) bool {
	return d.Failure != nil && d.Failure.ConsecutiveFailCount > 0 && (s.restarts() || s.Strategy == kubevirtv1.RunStrategyOnce)
}

// printableOf is the status of a machine that has an instance.
func printableOf(instance *machine.Instance, i *Instance, d Decision) kubevirtv1.VirtualMachinePrintableStatus {
	switch {
	case i.Deleting || d.Delete != "":
		return kubevirtv1.VirtualMachineStatusStopping
	case i.Phase == Running && isTrue(instance.Status.Conditions, kubevirtv1.VirtualMachineInstancePaused):
		return kubevirtv1.VirtualMachineStatusPaused
	case i.Phase == Running:
		return kubevirtv1.VirtualMachineStatusRunning
	case instance.Status.Phase == kubevirtv1.Unknown:
		return kubevirtv1.VirtualMachineStatusUnknown
	case instance.Status.Phase == kubevirtv1.WaitingForSync:
		return kubevirtv1.VirtualMachineStatusWaitingForReceiver
	case i.Phase.Final():
		return kubevirtv1.VirtualMachineStatusStopped
	}
	return starting(instance.Status.Conditions)
}

// starting says what keeps an instance from running, if anything does.
func starting(conditions []kubevirtv1.VirtualMachineInstanceCondition) kubevirtv1.VirtualMachinePrintableStatus {
	for _, c := range conditions {
		if c.Status != corev1.ConditionFalse {
			continue
		}
		switch {
		case c.Type == kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled) && c.Reason == corev1.PodReasonUnschedulable:
			return kubevirtv1.VirtualMachineStatusUnschedulable
		case c.Type != kubevirtv1.VirtualMachineInstanceSynchronized:
		case c.Reason == "FailedPvcNotFound":
			return kubevirtv1.VirtualMachineStatusPvcNotFound
		case c.Reason == "ErrImagePull":
			return kubevirtv1.VirtualMachineStatusErrImagePull
		case c.Reason == "ImagePullBackOff":
			return kubevirtv1.VirtualMachineStatusImagePullBackOff
		}
	}
	return kubevirtv1.VirtualMachineStatusStarting
}

// NeedsChanges reports whether Situation.Changes must be read: a running VMI differs from the
// template, and status does not name the fields yet, or names those of an earlier generation.
func NeedsChanges(vm *machine.VirtualMachine, instance *machine.Instance, s Situation) bool {
	known := find(vm.Status.Conditions, kubevirtv1.VirtualMachineRestartRequired) >= 0 && vm.Status.ObservedGeneration == vm.Generation
	return !known && s.differs(vm, instance)
}

// differs reports whether the template has changed since a VMI that runs was created.
func (s *Situation) differs(vm *machine.VirtualMachine, instance *machine.Instance) bool {
	if !s.own().active() {
		return false
	}
	made := instance.Annotations[v1alpha1.AnnotationTemplate]
	return made != "" && vm.Spec.Template != nil && made != vm.Spec.Template.Hash
}

func isTrue(conditions []kubevirtv1.VirtualMachineInstanceCondition, kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// observation is the state of a VM during a wait.
type observation struct {
	vm *kubevirtv1.VirtualMachine
	// vmi is nil if it does not exist.
	vmi *kubevirtv1.VirtualMachineInstance
	// before is the VMI that the request ends.
	before types.UID
}

// arrived reports whether the VMI is one that the request led to.
func (o observation) arrived() bool { return o.vmi != nil && o.vmi.UID != o.before }

// idle are the statuses of VMs without a VMI. Another status may stay for a moment.
var idle = []kubevirtv1.VirtualMachinePrintableStatus{
	kubevirtv1.VirtualMachineStatusStopped, kubevirtv1.VirtualMachineStatusProvisioning, kubevirtv1.VirtualMachineStatusDataVolumeError,
	kubevirtv1.VirtualMachineStatusWaitingForVolumeBinding, kubevirtv1.VirtualMachineStatusWaitingForReceiver,
}

// rests reports whether nothing runs, and nothing is about to run.
func (o observation) rests() bool {
	strategy, err := o.vm.RunStrategy()
	switch {
	case o.vmi != nil && !o.vmi.IsFinal(), len(o.vm.Status.StateChangeRequests) > 0:
		return false
	case err != nil: // no controller starts a VM whose run strategy is unknown
		return true
	}
	return !slices.Contains(going, strategy) && (o.vmi == nil || !revives(strategy, o.vmi.Status.Phase))
}

// going are the run strategies of VMs that were not stopped.
var going = []kubevirtv1.VirtualMachineRunStrategy{
	kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce, kubevirtv1.RunStrategyWaitAsReceiver,
}

// reached reports whether the VM has the state that the verb leads to.
func (p *power) reached(o observation) bool {
	status := o.vm.Status.PrintableStatus
	if p.verb == verbStop {
		return slices.Contains(idle, status) && o.rests()
	}
	running := status == kubevirtv1.VirtualMachineStatusRunning && !p.paused || status == kubevirtv1.VirtualMachineStatusPaused
	return running && o.arrived() && o.vmi.IsRunning() && o.vmi.DeletionTimestamp == nil
}

// hopeless says why the VM cannot reach that state by itself; empty if it can.
func (p *power) hopeless(o observation) string {
	strategy, err := o.vm.RunStrategy()
	switch {
	case o.vm.DeletionTimestamp != nil && p.verb != verbStop:
		return "the VM is being deleted"
	case err != nil, o.vm.DeletionTimestamp != nil:
		return ""
	case p.verb == verbStop:
		return notStopped(strategy)
	case o.arrived() && o.vmi.IsFinal() && !revives(strategy, o.vmi.Status.Phase) && len(o.vm.Status.StateChangeRequests) == 0:
		return fmt.Sprintf("VMI %s; run strategy %s does not restart it", o.ended(), strategy)
	case strategy == kubevirtv1.RunStrategyHalted && !p.paused && o.vmi == nil:
		return "the VM was stopped: its run strategy is Halted"
	}
	return ""
}

// notStopped says why a VM with a run strategy does not stop; empty if it does.
func notStopped(strategy kubevirtv1.VirtualMachineRunStrategy) string {
	switch {
	case strategy == kubevirtv1.RunStrategyWaitAsReceiver:
		return "a VM with run strategy WaitAsReceiver cannot be stopped"
	case slices.Contains(going, strategy):
		return fmt.Sprintf("the VM was started: its run strategy is %s", strategy)
	}
	return ""
}

// ended says how the VMI ended.
func (o observation) ended() string {
	ran := slices.ContainsFunc(o.vmi.Status.PhaseTransitionTimestamps, func(t kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool {
		return t.Phase == kubevirtv1.Running
	})
	switch {
	case o.vmi.Status.Phase == kubevirtv1.Succeeded:
		return "shut down"
	case ran:
		return "failed"
	}
	return "failed before it ran"
}

// revives reports whether another VMI follows one that has ended.
func revives(strategy kubevirtv1.VirtualMachineRunStrategy, end kubevirtv1.VirtualMachineInstancePhase) bool {
	return strategy == kubevirtv1.RunStrategyAlways || strategy == kubevirtv1.RunStrategyRerunOnFailure && end == kubevirtv1.Failed
}

// describe is the status and, until the wait is over, the reason for it.
func (o observation) describe(done bool) string {
	status := string(o.vm.Status.PrintableStatus)
	if status == "" {
		status = "unknown status (does a lifecycle controller run?)"
	}
	if done {
		return status
	}
	if why := o.why(); why != "" {
		status += " (" + why + ")"
	}
	return status
}

// reasons are the conditions, with the status that delays a VM. The first that a VM has is shown.
var reasons = []struct {
	of     kubevirtv1.VirtualMachineConditionType
	status corev1.ConditionStatus
}{
	{kubevirtv1.VirtualMachineFailure, corev1.ConditionTrue},
	{kubevirtv1.VirtualMachineConditionType(corev1.PodScheduled), corev1.ConditionFalse},
	{kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceSynchronized), corev1.ConditionFalse},
	{kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceDataVolumesReady), corev1.ConditionFalse},
	{kubevirtv1.VirtualMachineReady, corev1.ConditionFalse},
}

// obvious are messages that repeat the status.
var obvious = []string{"VMI does not exist", "VMI is missing the Ready condition"}

// why is the reason of the status, from the conditions.
func (o observation) why() string {
	if f := o.vm.Status.StartFailure; f != nil && f.ConsecutiveFailCount > 0 && !o.arrived() {
		text := fmt.Sprintf("starts that ended early: %d", f.ConsecutiveFailCount)
		if f.RetryAfterTimestamp != nil {
			text += ", next after " + f.RetryAfterTimestamp.UTC().Format(time.RFC3339)
		}
		return text
	}
	for _, reason := range reasons {
		i := slices.IndexFunc(o.vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool {
			return c.Type == reason.of && c.Status == reason.status && !slices.Contains(obvious, c.Message)
		})
		if i >= 0 {
			c := o.vm.Status.Conditions[i]
			return fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

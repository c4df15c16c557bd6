package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// sight is a machine as it was seen while waiting.
type sight struct {
	vm *kubevirtv1.VirtualMachine
	// vmi is nil where there is none.
	vmi *kubevirtv1.VirtualMachineInstance
	// before is the instance that the request does away with.
	before types.UID
}

// arrived tells whether there is an instance that the request led to.
func (s sight) arrived() bool { return s.vmi != nil && s.vmi.UID != s.before }

// idle are what status says of machines without an instance. It may say one of
// the others for a moment longer.
var idle = []kubevirtv1.VirtualMachinePrintableStatus{
	kubevirtv1.VirtualMachineStatusStopped, kubevirtv1.VirtualMachineStatusProvisioning, kubevirtv1.VirtualMachineStatusDataVolumeError,
	kubevirtv1.VirtualMachineStatusWaitingForVolumeBinding, kubevirtv1.VirtualMachineStatusWaitingForReceiver,
}

// rests tells whether nothing runs, and nothing is about to.
func (s sight) rests() bool {
	strategy, err := s.vm.RunStrategy()
	switch {
	case s.vmi != nil && !s.vmi.IsFinal(), len(s.vm.Status.StateChangeRequests) > 0:
		return false
	case err != nil: // nobody starts a machine of which nobody knows
		return true
	}
	return !slices.Contains(going, strategy) && (s.vmi == nil || !revives(strategy, s.vmi.Status.Phase))
}

// going are the strategies of machines that nobody has stopped.
var going = []kubevirtv1.VirtualMachineRunStrategy{
	kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce, kubevirtv1.RunStrategyWaitAsReceiver,
}

// there tells whether the machine is where the request shall bring it.
func (p *power) there(s sight) bool {
	status := s.vm.Status.PrintableStatus
	if p.verb == verbStop {
		return slices.Contains(idle, status) && s.rests()
	}
	running := status == kubevirtv1.VirtualMachineStatusRunning && !p.paused || status == kubevirtv1.VirtualMachineStatusPaused
	return running && s.arrived() && s.vmi.IsRunning() && s.vmi.DeletionTimestamp == nil
}

// hopeless says why the machine does not get there unless somebody does
// something, or nothing.
func (p *power) hopeless(s sight) string {
	strategy, err := s.vm.RunStrategy()
	switch {
	case s.vm.DeletionTimestamp != nil && p.verb != verbStop:
		return "it is being deleted"
	case err != nil, s.vm.DeletionTimestamp != nil:
		return ""
	case p.verb == verbStop:
		return notStopped(strategy)
	case s.arrived() && s.vmi.IsFinal() && !revives(strategy, s.vmi.Status.Phase) && len(s.vm.Status.StateChangeRequests) == 0:
		return fmt.Sprintf("its instance %s, and run strategy %s leaves it at that", s.ended(), strategy)
	case strategy == kubevirtv1.RunStrategyHalted && !p.paused && s.vmi == nil:
		return "somebody stopped it: its run strategy is Halted"
	}
	return ""
}

// notStopped says why a machine of a strategy does not stop, or nothing.
func notStopped(strategy kubevirtv1.VirtualMachineRunStrategy) string {
	switch {
	case strategy == kubevirtv1.RunStrategyWaitAsReceiver:
		return "run strategy WaitAsReceiver is not for stopping"
	case slices.Contains(going, strategy):
		return fmt.Sprintf("somebody started it: its run strategy is %s", strategy)
	}
	return ""
}

// ended says how the instance did.
func (s sight) ended() string {
	ran := slices.ContainsFunc(s.vmi.Status.PhaseTransitionTimestamps, func(t kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool {
		return t.Phase == kubevirtv1.Running
	})
	switch {
	case s.vmi.Status.Phase == kubevirtv1.Succeeded:
		return "shut down"
	case ran:
		return "failed"
	}
	return "failed before it ran"
}

// revives tells whether an instance is followed by another when it has ended.
func revives(strategy kubevirtv1.VirtualMachineRunStrategy, end kubevirtv1.VirtualMachineInstancePhase) bool {
	return strategy == kubevirtv1.RunStrategyAlways || strategy == kubevirtv1.RunStrategyRerunOnFailure && end == kubevirtv1.Failed
}

// describe is the status and, unless all is done, what is known of why it is no
// other.
func (s sight) describe(done bool) string {
	status := string(s.vm.Status.PrintableStatus)
	if status == "" {
		status = "of unknown status (does a lifecycle controller run?)"
	}
	if done {
		return status
	}
	if why := s.why(); why != "" {
		status += " (" + why + ")"
	}
	return status
}

// reasons are the conditions that say why a machine does not get on when they
// have this status, the telling ones first.
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

// obvious are messages that say no more than the status does.
var obvious = []string{"VMI does not exist", "VMI is missing the Ready condition"}

// why is what the conditions say.
func (s sight) why() string {
	if f := s.vm.Status.StartFailure; f != nil && f.ConsecutiveFailCount > 0 && !s.arrived() {
		text := fmt.Sprintf("starts that ended early: %d", f.ConsecutiveFailCount)
		if f.RetryAfterTimestamp != nil {
			text += ", next after " + f.RetryAfterTimestamp.UTC().Format(time.RFC3339)
		}
		return text
	}
	for _, reason := range reasons {
		i := slices.IndexFunc(s.vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool {
			return c.Type == reason.of && c.Status == reason.status && !slices.Contains(obvious, c.Message)
		})
		if i >= 0 {
			c := s.vm.Status.Conditions[i]
			return fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

package standin

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Reasons and messages are those of KubeVirt, where it has one.
const (
	reasonUnschedulable = "Unschedulable"
	reasonPaused        = "PausedByUser"

	// defaultGrace is KubeVirt's default of terminationGracePeriodSeconds.
	defaultGrace = 30
)

// seen is an instance and what one has to know beside it.
type seen struct {
	vmi       *kubevirtv1.VirtualMachineInstance
	behaviour Behaviour
	now       time.Time
	// since is when the phase began or, of an instance that is being deleted,
	// when the guest was asked to end.
	since time.Time
}

// plan is what is to be done about an instance.
type plan struct {
	// write is the instance as it shall be; nil to leave it as it is.
	write *kubevirtv1.VirtualMachineInstance
	// after is when to look again without being called; 0 is never.
	after time.Duration
}

// next is the phase that follows one in which a guest does not run yet.
var next = map[kubevirtv1.VirtualMachineInstancePhase]kubevirtv1.VirtualMachineInstancePhase{
	kubevirtv1.VmPhaseUnset: kubevirtv1.Pending,
	kubevirtv1.Pending:      kubevirtv1.Scheduling,
	kubevirtv1.Scheduling:   kubevirtv1.Scheduled,
	kubevirtv1.Scheduled:    kubevirtv1.Running,
}

// decide is the whole of what a node does, one step at a time.
func (o *Options) decide(s seen) plan {
	vmi := s.vmi
	final, deleting := vmi.IsFinal(), vmi.DeletionTimestamp != nil
	switch {
	case vmi.Status.NodeName != o.Node && vmi.Status.NodeName != "":
		return plan{} // another's
	case final || vmi.Status.NodeName == "" && deleting:
		return release(vmi)
	case vmi.Status.NodeName == "" && s.behaviour == Unschedulable:
		return s.refuse()
	case vmi.Status.NodeName == "":
		return s.claim(o.Node)
	case deleting:
		return o.end(s)
	default:
		return o.walk(s)
	}
}

// release lets go of an instance that has no guest, or none any more.
func release(vmi *kubevirtv1.VirtualMachineInstance) plan {
	out := vmi.DeepCopy()
	if !controllerutil.RemoveFinalizer(out, Finalizer) {
		return plan{}
	}
	return plan{write: out}
}

// refuse leaves an instance waiting for a node.
func (s seen) refuse() plan {
	if condition(s.vmi, podScheduled) != nil && s.vmi.Status.Phase == kubevirtv1.Scheduling {
		return plan{}
	}
	out := s.enter(kubevirtv1.Scheduling)
	s.set(out, podScheduled, corev1.ConditionFalse, reasonUnschedulable, "no node is available: the stand-in was told so")
	s.notReady(out, kubevirtv1.GuestNotRunningReason, "Guest VM is not reported as running")
	return plan{write: out}
}

// claim takes an instance that nobody runs.
func (s seen) claim(node string) plan {
	out := s.vmi.DeepCopy()
	if out.Status.Phase == kubevirtv1.VmPhaseUnset {
		out = s.enter(kubevirtv1.Pending)
	}
	out.Status.NodeName = node
	controllerutil.AddFinalizer(out, Finalizer)
	out.Status.Conditions = slices.DeleteFunc(out.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == podScheduled
	})
	s.notReady(out, kubevirtv1.GuestNotRunningReason, "Guest VM is not reported as running")
	return plan{write: out}
}

// walk takes an instance to the phase Running, and beyond where it is told to.
func (o *Options) walk(s seen) plan {
	phase := s.vmi.Status.Phase
	if wait := o.Delays.of(phase) - s.now.Sub(s.since); wait > 0 && s.moves() {
		return plan{after: wait}
	}
	switch {
	case phase == kubevirtv1.Scheduled && s.behaviour == CrashEarly, phase == kubevirtv1.Running && s.behaviour == Crash:
		return s.finish(kubevirtv1.Failed, "the guest crashed")
	case phase == kubevirtv1.Running && s.behaviour == Shutdown:
		return s.finish(kubevirtv1.Succeeded, "the guest shut down by itself")
	}
	to, known := next[phase]
	if !known {
		return plan{}
	}
	out := s.enter(to)
	if to == kubevirtv1.Running {
		s.set(out, kubevirtv1.VirtualMachineInstanceReady, corev1.ConditionTrue, "", "")
		if out.ShouldStartPaused() {
			s.set(out, kubevirtv1.VirtualMachineInstancePaused, corev1.ConditionTrue, reasonPaused, "VMI was paused by user")
		}
	}
	return plan{write: out}
}

// moves tells whether time alone changes the phase.
func (s seen) moves() bool {
	_, early := next[s.vmi.Status.Phase]
	return early || s.vmi.Status.Phase == kubevirtv1.Running && (s.behaviour == Crash || s.behaviour == Shutdown)
}

// end asks the guest to shut down and, when its grace is over, does not ask.
func (o *Options) end(s seen) plan {
	if s.vmi.Status.Phase != kubevirtv1.Running {
		return s.finish(kubevirtv1.Failed, "there was no guest yet")
	}
	grace, took := o.grace(s.vmi), s.now.Sub(s.since)
	willing := s.behaviour != Hang && o.Delays.Shutdown <= grace
	switch {
	case willing && took >= o.Delays.Shutdown:
		return s.finish(kubevirtv1.Succeeded, "the guest shut down")
	case !willing && took >= grace:
		return s.finish(kubevirtv1.Failed, "the guest was forced to end")
	}
	wait := grace - took
	if willing {
		wait = o.Delays.Shutdown - took
	}
	ready := condition(s.vmi, kubevirtv1.VirtualMachineInstanceReady)
	if ready != nil && ready.Reason == kubevirtv1.PodTerminatingReason {
		return plan{after: wait}
	}
	out := s.vmi.DeepCopy()
	s.notReady(out, kubevirtv1.PodTerminatingReason, "the guest shuts down")
	return plan{write: out, after: wait}
}

// grace is how long a guest may take to shut down.
func (o *Options) grace(vmi *kubevirtv1.VirtualMachineInstance) time.Duration {
	seconds := int64(defaultGrace)
	if given := vmi.Spec.TerminationGracePeriodSeconds; given != nil {
		seconds = *given
	}
	return time.Duration(seconds) * o.GraceSecond
}

func (s seen) finish(phase kubevirtv1.VirtualMachineInstancePhase, message string) plan {
	out := s.enter(phase)
	out.Status.Conditions = slices.DeleteFunc(out.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineInstancePaused
	})
	s.notReady(out, kubevirtv1.PodNotExistsReason, message)
	return plan{write: out}
}

// enter is a copy of the instance in a phase, with the time at which it got there.
func (s seen) enter(phase kubevirtv1.VirtualMachineInstancePhase) *kubevirtv1.VirtualMachineInstance {
	out := s.vmi.DeepCopy()
	if out.Status.Phase != phase {
		out.Status.Phase = phase
		out.Status.PhaseTransitionTimestamps = append(out.Status.PhaseTransitionTimestamps,
			kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: metav1.NewTime(s.now)})
	}
	return out
}

// podScheduled is a condition that KubeVirt copies from the pod.
const podScheduled = kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled)

func (s seen) notReady(out *kubevirtv1.VirtualMachineInstance, reason, message string) {
	s.set(out, kubevirtv1.VirtualMachineInstanceReady, corev1.ConditionFalse, reason, message)
}

func (s seen) set(out *kubevirtv1.VirtualMachineInstance, of kubevirtv1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, reason, message string) {
	c := condition(out, of)
	if c == nil {
		out.Status.Conditions = append(out.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: of})
		c = &out.Status.Conditions[len(out.Status.Conditions)-1]
	}
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(s.now)
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

func condition(vmi *kubevirtv1.VirtualMachineInstance, of kubevirtv1.VirtualMachineInstanceConditionType) *kubevirtv1.VirtualMachineInstanceCondition {
	for i := range vmi.Status.Conditions {
		if vmi.Status.Conditions[i].Type == of {
			return &vmi.Status.Conditions[i]
		}
	}
	return nil
}

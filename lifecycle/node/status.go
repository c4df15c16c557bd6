package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// stays is how long a message stays before another of the same reason comes in
// its place: one that is always different must not be written without end.
const stays = time.Minute

// Reasons of conditions. Those that KubeVirt has are KubeVirt's.
const (
	reasonPausedByUser  = "PausedByUser"
	reasonPausedByError = "PausedIOError"
	reasonEmulated      = "NoHardwareVirtualization"
	reasonNoAgent       = "GuestAgentNotConnected"
)

// tell writes what there is to say of an instance, in one write and only if it
// is new. That write is also what claims an instance and lets it go. It returns
// the instance as it is then.
func (c *Controller) tell(ctx context.Context, s *sight, d Decision, trouble *Trouble) (*kubevirtv1.VirtualMachineInstance, error) {
	if s.vmi == nil || s.Claim == Others || s.Claim == Nobodys && d.Do != Claim {
		return s.vmi, nil
	}
	out := s.vmi.DeepCopy()
	w := &writer{sight: s, out: out, now: metav1.NewTime(c.now().Truncate(time.Second))}
	w.claim(c.Node, d)
	w.enter(d)
	w.conditions(d, trouble)
	w.guestView()
	if apiequality.Semantic.DeepEqual(s.vmi.Status, out.Status) && slices.Equal(s.vmi.Finalizers, out.Finalizers) {
		return s.vmi, nil
	}
	err := c.Client.Patch(ctx, out, client.MergeFromWithOptions(s.vmi, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("cannot write VirtualMachineInstance %s: %w", s.key, errMoved)
	case err != nil:
		return nil, fmt.Errorf("cannot write VirtualMachineInstance %s: %w", s.key, err)
	}
	c.memory.note(s.key, out.ResourceVersion)
	return out, nil
}

// A writer writes status.
type writer struct {
	*sight
	out *kubevirtv1.VirtualMachineInstance
	now metav1.Time
}

func (w *writer) claim(node string, d Decision) {
	switch d.Do {
	case Claim:
		w.out.Status.NodeName = node
		controllerutil.AddFinalizer(w.out, v1alpha1.FinalizerNode)
	case Release:
		controllerutil.RemoveFinalizer(w.out, v1alpha1.FinalizerNode)
	}
}

// enter puts the instance in a phase, with the time at which it got there. A
// guest that has ended before anybody saw it run has run all the same.
func (w *writer) enter(d Decision) {
	status := &w.out.Status
	if d.Phase == "" || d.Phase == status.Phase {
		return
	}
	ended := d.Phase == kubevirtv1.Succeeded || d.Phase == kubevirtv1.Failed
	if ended && status.Phase != kubevirtv1.Running && w.Domain == Own && w.ended() {
		w.at(kubevirtv1.Running)
	}
	status.Phase = d.Phase
	if ended {
		status.Reason = d.Reason
	}
	w.at(d.Phase)
}

func (w *writer) at(phase kubevirtv1.VirtualMachineInstancePhase) {
	w.out.Status.PhaseTransitionTimestamps = append(w.out.Status.PhaseTransitionTimestamps,
		kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: w.now})
}

// active says whether there is a guest to tell of.
func (w *writer) active() bool { return w.Domain == Own && w.State.Active() }

func (w *writer) conditions(d Decision, trouble *Trouble) {
	w.ready()
	w.when(w.active() && w.State == libvirtd.Paused && !w.out.IsFinal(), kubevirtv1.VirtualMachineInstancePaused, w.pausedBy())
	w.when(w.active() && agentConnected(w.guest), kubevirtv1.VirtualMachineInstanceAgentConnected, said{})
	if w.active() {
		w.when(w.guest.XML.Type == "qemu", kubevirtv1.VirtualMachineInstanceSoftwareEmulation, said{reasonEmulated, degraded(&w.record)})
		w.set(kubevirtv1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse,
			said{kubevirtv1.VirtualMachineInstanceReasonNotMigratable, "this agent does not migrate guests"})
	}
	w.synchronized(d, trouble)
}

func (w *writer) pausedBy() said {
	if w.guest != nil && !w.guest.ByUser {
		return said{reasonPausedByError, "the guest was paused, as one of its disks cannot be written or read"}
	}
	return said{reasonPausedByUser, "VMI was paused by user"}
}

// ready is the condition Ready, which is always there.
func (w *writer) ready() {
	status, words := corev1.ConditionFalse, said{kubevirtv1.GuestNotRunningReason, "Guest VM is not reported as running"}
	probe := w.out.Spec.ReadinessProbe
	switch {
	case w.out.IsFinal():
		words = said{kubevirtv1.PodNotExistsReason, ending(w.out.Status.Reason)}
	case w.Deleting:
		words = said{kubevirtv1.PodTerminatingReason, "the guest shuts down"}
	case w.out.Status.Phase != kubevirtv1.Running:
	case probe != nil && probe.GuestAgentPing != nil && !agentConnected(w.guest):
		words = said{reasonNoAgent, "the guest's agent does not answer"}
	default:
		status, words = corev1.ConditionTrue, said{}
	}
	w.set(kubevirtv1.VirtualMachineInstanceReady, status, words)
}

// ending says how an instance ended.
func ending(reason string) string {
	text, known := map[string]string{
		ReasonShutdown:  "the guest shut down",
		ReasonCrashed:   "the guest, or its emulator, crashed",
		ReasonDestroyed: "the guest was ended by force",
		ReasonLost:      "the guest does not run any more, and nobody saw how it ended",
		ReasonNeverRan:  "there was no guest yet",
	}[reason]
	if !known {
		return "the guest has ended"
	}
	return text
}

// degraded says what a guest goes without.
func degraded(r *Record) string {
	var lost []string
	for _, d := range r.Decisions {
		if d.Degraded {
			lost = append(lost, d.String())
		}
	}
	if len(lost) == 0 {
		return "the guest is emulated, slowly"
	}
	return strings.Join(lost, "; ")
}

// synchronized says what keeps the instance from being as it shall be. While it
// is being tried again, what was wrong stands.
func (w *writer) synchronized(d Decision, trouble *Trouble) {
	const kind = kubevirtv1.VirtualMachineInstanceSynchronized
	switch {
	case trouble == nil && (d.Do == Start || d.Do == Restore || d.Do == Refuse || d.Do == Power):
	case trouble == nil:
		w.drop(kind)
	default:
		was := w.find(kind)
		if was != nil && was.Reason == trouble.Reason && was.Message != trouble.Error() && w.now.Sub(was.LastProbeTime.Time) < stays {
			return
		}
		if was == nil || was.Reason != trouble.Reason || was.Message != trouble.Error() {
			w.set(kind, corev1.ConditionFalse, said{trouble.Reason, trouble.Error()})
			w.find(kind).LastProbeTime = w.now
		}
	}
}

// said is what a condition says.
type said struct{ reason, message string }

// when has a condition be true, or not be there.
func (w *writer) when(holds bool, kind kubevirtv1.VirtualMachineInstanceConditionType, words said) {
	if holds {
		w.set(kind, corev1.ConditionTrue, words)
	} else {
		w.drop(kind)
	}
}

func (w *writer) set(kind kubevirtv1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, words said) {
	c := w.find(kind)
	if c == nil {
		w.out.Status.Conditions = append(w.out.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: kind})
		c = w.find(kind)
	}
	if c.Status != status {
		c.LastTransitionTime = w.now
	}
	c.Status, c.Reason, c.Message = status, words.reason, words.message
}

func (w *writer) find(kind kubevirtv1.VirtualMachineInstanceConditionType) *kubevirtv1.VirtualMachineInstanceCondition {
	for i := range w.out.Status.Conditions {
		if w.out.Status.Conditions[i].Type == kind {
			return &w.out.Status.Conditions[i]
		}
	}
	return nil
}

func (w *writer) drop(kind kubevirtv1.VirtualMachineInstanceConditionType) {
	w.out.Status.Conditions = slices.DeleteFunc(w.out.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
}

// synchronizedOf is what an instance's condition Synchronized says.
func synchronizedOf(vmi *kubevirtv1.VirtualMachineInstance) said {
	for i := range vmi.Status.Conditions {
		if c := &vmi.Status.Conditions[i]; c.Type == kubevirtv1.VirtualMachineInstanceSynchronized {
			return said{c.Reason, c.Message}
		}
	}
	return said{}
}

package standin

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// graceMargin is how much longer the grace period of a pod is than its guest's, in seconds.
const graceMargin = 15

// address is the IP of each pod: one that leads nowhere.
const address = "192.0.2.1"

// observation is a pod and the other inputs of a decision.
type observation struct {
	pod       *corev1.Pod
	behaviour Behaviour
	now       time.Time
	// since is when the pod got where it is or, of one that is being deleted, when its guest was
	// asked to end.
	since time.Time
}

// plan is the next step for a pod. At most one of its fields is set.
type plan struct {
	// bind gives the pod a node.
	bind bool
	// status is the new status; nil leaves it.
	status *corev1.PodStatus
	// remove deletes the object of a pod that has ended.
	remove bool
	// after is when to look again without an event; 0 is never.
	after time.Duration
}

// decide is the next step of scheduler and kubelet.
func (o *Options) decide(s observation) plan {
	pod := s.pod
	final := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	deleting := pod.DeletionTimestamp != nil
	switch {
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != o.Node:
		return plan{} // another's
	case final:
		return plan{remove: deleting}
	case pod.Spec.NodeName == "" && deleting:
		return plan{} // API servers delete it
	case pod.Spec.NodeName == "":
		return o.schedule(s)
	case deleting:
		return o.end(s)
	case pod.Status.Phase == corev1.PodRunning:
		return o.live(s)
	}
	return o.start(s)
}

// schedule finds the node, unless there is none.
func (o *Options) schedule(s observation) plan {
	if s.behaviour == Unschedulable {
		if len(s.pod.Status.Conditions) > 0 {
			return plan{}
		}
		status := s.pod.Status.DeepCopy()
		status.Conditions = []corev1.PodCondition{s.condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "no node is available: the behavior of this pod is Unschedulable")}
		return plan{status: status}
	}
	if wait := o.Delays.Scheduling - s.now.Sub(s.since); wait > 0 {
		return plan{after: wait}
	}
	return plan{bind: true}
}

// start starts the guest.
func (o *Options) start(s observation) plan {
	if wait := o.Delays.Scheduled - s.now.Sub(s.since); wait > 0 {
		return plan{after: wait}
	}
	if s.behaviour == CrashEarly {
		return s.finish(v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: "the behavior of this pod is to crash early"})
	}
	status := s.pod.Status.DeepCopy()
	status.Phase, status.PodIP, status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	status.Conditions = []corev1.PodCondition{
		s.condition(corev1.PodScheduled, corev1.ConditionTrue, "", ""), s.condition(corev1.PodReady, corev1.ConditionTrue, "", ""),
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: v1alpha1.ContainerLauncher, Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.now)}},
	}}
	return plan{status: status}
}

// live waits, and ends a guest whose behavior is to end by itself.
func (o *Options) live(s observation) plan {
	if s.behaviour != Crash && s.behaviour != Shutdown {
		return plan{}
	}
	if wait := o.Delays.Life - s.now.Sub(s.since); wait > 0 {
		return plan{after: wait}
	}
	if s.behaviour == Crash {
		return s.finish(v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed})
	}
	return s.finish(v1alpha1.GuestEnd{Reason: v1alpha1.GuestShutdown})
}

// end asks the guest to shut down and, when its grace period is over, destroys it.
func (o *Options) end(s observation) plan {
	if s.pod.Status.Phase != corev1.PodRunning {
		return s.finish(v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: "there was no guest yet"})
	}
	var seconds int64
	if given := s.pod.DeletionGracePeriodSeconds; given != nil {
		seconds = max(*given-graceMargin, 0)
	}
	grace, took := time.Duration(seconds)*o.GraceSecond, s.now.Sub(s.since)
	if s.behaviour != Hang && o.Delays.Shutdown <= grace {
		if took >= o.Delays.Shutdown {
			return s.finish(v1alpha1.GuestEnd{Reason: v1alpha1.GuestStopped})
		}
		return plan{after: o.Delays.Shutdown - took}
	}
	if took >= grace {
		return s.finish(v1alpha1.GuestEnd{Reason: v1alpha1.GuestDestroyed, Message: "the grace period is over"})
	}
	return plan{after: grace - took}
}

// finish is the end of a pod, with the message of its launcher.
func (s *observation) finish(end v1alpha1.GuestEnd) plan {
	status := s.pod.Status.DeepCopy()
	message, _ := json.Marshal(end) // of two texts
	terminated := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: string(message), FinishedAt: metav1.NewTime(s.now)}
	status.Phase = corev1.PodFailed
	if end.Reason == v1alpha1.GuestShutdown || end.Reason == v1alpha1.GuestStopped {
		status.Phase, terminated.ExitCode, terminated.Reason = corev1.PodSucceeded, 0, "Completed"
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: v1alpha1.ContainerLauncher, Started: new(false), State: corev1.ContainerState{Terminated: terminated},
	}}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodReady {
			*c = s.condition(corev1.PodReady, corev1.ConditionFalse, "PodCompleted", "")
		}
	}
	return plan{status: status}
}

func (s *observation) condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(s.now)}
}

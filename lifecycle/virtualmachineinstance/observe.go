package virtualmachineinstance

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

// observe returns the facts about a VMI and the pod of its name, which may be nil.
func observe(vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod) observation {
	o := observation{
		Phase: vmi.Status.Phase, Deleting: vmi.DeletionTimestamp != nil,
		HasFinalizer: slices.Contains(vmi.Finalizers, v1alpha1.FinalizerPod), HadPod: len(vmi.Status.ActivePods) > 0,
		Evicted: vmi.Status.IsTrue(kubevirtv1.VirtualMachineInstanceEvictionRequested),
	}
	if pod == nil {
		return o
	}
	o.Pod.Ownership = foreign
	// A pod that status names is the VMI's even if its owner reference was removed.
	_, named := vmi.Status.ActivePods[pod.UID]
	if named || !o.HadPod && metav1.IsControlledBy(pod, vmi) {
		o.Pod = observePod(pod)
		o.Pod.Late = isLate(vmi, pod)
		// A disruption that was cancelled does not count, unless the pod is being deleted.
		o.Evicted = disruption(pod) != nil || o.Evicted && o.Pod.Deleting
	}
	return o
}

// isLate reports whether another deletion ends a pod that is being deleted earlier.
func isLate(vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod) bool {
	left := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && left != nil &&
		(*left == 0 && pod.Spec.NodeName == "" || *left > gracePeriod(vmi, pod))
}

// gracePeriod returns the grace period of a VMI's pod in seconds. If the grace period of the VMI
// has become shorter, the pod's margin is dropped.
func gracePeriod(vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod) int64 {
	ofVMI := vmi.Spec.TerminationGracePeriodSeconds
	withMargin := podspec.Grace(ofVMI)
	if ofPod := pod.Spec.TerminationGracePeriodSeconds; ofVMI == nil || ofPod == nil || withMargin >= *ofPod {
		return withMargin
	}
	return max(*ofVMI, 1) // 0 would delete the pod before its guest has stopped
}

func observePod(pod *corev1.Pod) podObservation {
	out := podObservation{Ownership: owned, Deleting: pod.DeletionTimestamp != nil, Bound: pod.Spec.NodeName != "", Phase: pod.Status.Phase}
	if status := launcherStatus(pod); status != nil {
		out.Started = status.Started != nil && *status.Started && status.State.Running != nil
	}
	if out.final() {
		out.End = guestEnd(pod)
	}
	return out
}

func launcherStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	isLauncher := func(s *corev1.ContainerStatus) bool { return s.Name == v1alpha1.ContainerLauncher }
	return partialobject.Find(pod.Status.ContainerStatuses, isLauncher)
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	return partialobject.Find(pod.Status.Conditions, func(c *corev1.PodCondition) bool { return c.Type == kind })
}

// disruption returns the condition of a pod that is evicted or preempted, or nil.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	if c := podCondition(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	return nil
}

const exitCodeKilled = 128 + 9

// guestEnd returns how the guest of a pod ended, as reported by its launcher or else by the
// kubelet.
func guestEnd(pod *corev1.Pod) v1alpha1.GuestEnd {
	if status := launcherStatus(pod); status != nil && status.State.Terminated != nil {
		return launcherEnd(pod, status.State.Terminated)
	}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			return v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: describe("init container "+status.Name+" ended", t)}
		}
	}
	end := v1alpha1.GuestEnd{Reason: v1alpha1.GuestNotStarted, Message: strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)}
	if pod.Status.Phase == corev1.PodSucceeded {
		end.Reason = v1alpha1.GuestShutdown
	}
	return end
}

func launcherEnd(pod *corev1.Pod, launcher *corev1.ContainerStateTerminated) v1alpha1.GuestEnd {
	var end v1alpha1.GuestEnd
	switch {
	// For other exit codes, the message is the end of the log, where the guest may write.
	case (launcher.ExitCode == 0 || launcher.ExitCode == 1) && json.Unmarshal([]byte(launcher.Message), &end) == nil && end.Reason != "":
		return end
	case launcher.ExitCode == 0:
		return v1alpha1.GuestEnd{Reason: v1alpha1.GuestShutdown}
	case launcher.ExitCode == exitCodeKilled && pod.DeletionTimestamp != nil:
		return v1alpha1.GuestEnd{Reason: v1alpha1.GuestDestroyed, Message: "the guest did not shut down in its grace period"}
	}
	return v1alpha1.GuestEnd{Reason: v1alpha1.GuestCrashed, Message: describe("the launcher ended", launcher)}
}

func describe(event string, t *corev1.ContainerStateTerminated) string {
	out := event + ": " + t.Reason
	if text := strings.TrimSpace(t.Message); text != "" {
		out += ": " + text
	}
	return out
}

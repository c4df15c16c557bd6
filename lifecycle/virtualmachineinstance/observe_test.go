package virtualmachineinstance

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

func vmiWith(change func(*partialobject.VirtualMachineInstance)) *partialobject.VirtualMachineInstance {
	vmi := &partialobject.VirtualMachineInstance{}
	vmi.Namespace, vmi.Name, vmi.UID = "shop", "web", "vmi"
	change(vmi)
	return vmi
}

func podWith(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.UID = "pod"
	pod.OwnerReferences = []metav1.OwnerReference{{UID: "vmi", Controller: new(true)}}
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.TerminationGracePeriodSeconds = new(int64(45))
	change(pod)
	return pod
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: kind, Status: status}}
}

func TestObserve(t *testing.T) {
	names := func(uid types.UID) func(*partialobject.VirtualMachineInstance) {
		return func(vmi *partialobject.VirtualMachineInstance) {
			vmi.Status.ActivePods = map[types.UID]string{uid: "node"}
		}
	}
	evicted := func(vmi *partialobject.VirtualMachineInstance) {
		names("pod")(vmi)
		vmi.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{Type: kubevirtv1.VirtualMachineInstanceEvictionRequested, Status: corev1.ConditionTrue}}
	}
	dying := func(seconds int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(0, 0)}, &seconds
		}
	}
	for name, test := range map[string]struct {
		vmi  func(*partialobject.VirtualMachineInstance)
		pod  func(*corev1.Pod)
		want func(observation) bool
	}{
		"its own":                    {func(*partialobject.VirtualMachineInstance) {}, func(*corev1.Pod) {}, func(s observation) bool { return s.Pod.Ownership == owned && !s.HadPod }},
		"another's":                  {func(*partialobject.VirtualMachineInstance) {}, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, func(s observation) bool { return s.Pod.Ownership == foreign }},
		"without an owner":           {func(*partialobject.VirtualMachineInstance) {}, func(p *corev1.Pod) { p.OwnerReferences = nil }, func(s observation) bool { return s.Pod.Ownership == foreign }},
		"recorded, orphaned":         {names("pod"), func(p *corev1.Pod) { p.OwnerReferences = nil }, func(s observation) bool { return s.Pod.Ownership == owned }},
		"a second one":               {names("first"), func(*corev1.Pod) {}, func(s observation) bool { return s.Pod.Ownership == foreign && s.HadPod }},
		"disrupted":                  {names("pod"), func(p *corev1.Pod) { p.Status.Conditions = condition(corev1.DisruptionTarget, corev1.ConditionTrue) }, func(s observation) bool { return s.Evicted }},
		"not disrupted after all":    {evicted, func(p *corev1.Pod) { p.Status.Conditions = condition(corev1.DisruptionTarget, corev1.ConditionFalse) }, func(s observation) bool { return !s.Evicted }},
		"evicted, and being deleted": {evicted, dying(45), func(s observation) bool { return s.Evicted && s.Pod.Deleting && !s.Pod.Late }},
		"deleted, less grace since": {func(vmi *partialobject.VirtualMachineInstance) {
			names("pod")(vmi)
			vmi.Spec.TerminationGracePeriodSeconds = new(int64(0))
		}, dying(45), func(s observation) bool { return s.Pod.Late }},
		"deleted, of a pod with more time": {names("pod"), func(p *corev1.Pod) {
			dying(100)(p)
			p.Spec.TerminationGracePeriodSeconds = new(int64(100))
		}, func(s observation) bool { return s.Pod.Late }},
		"deleted, less grace already": {func(vmi *partialobject.VirtualMachineInstance) {
			names("pod")(vmi)
			vmi.Spec.TerminationGracePeriodSeconds = new(int64(0))
		}, dying(1), func(s observation) bool { return !s.Pod.Late }},
		"without a node, deleted, but not removed": {names("pod"), dying(0), func(s observation) bool { return s.Pod.Late }},
		"on a node, deleted, but not removed": {names("pod"), func(p *corev1.Pod) {
			dying(0)(p)
			p.Spec.NodeName = "node"
		}, func(s observation) bool { return !s.Pod.Late }},
	} {
		t.Run(name, func(t *testing.T) {
			if s := observe(vmiWith(test.vmi), podWith(test.pod)); !test.want(s) {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestGuestEnd(t *testing.T) {
	terminated := func(code int32, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name:  v1alpha1.ContainerLauncher,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: message}},
			}}
		}
	}
	for name, test := range map[string]struct {
		pod  func(*corev1.Pod)
		want v1alpha1.GuestEnd
	}{
		"reported by the launcher": {terminated(1, `{"reason":"GuestNotStarted","message":"no disk"}`), v1alpha1.GuestEnd{Reason: "GuestNotStarted", Message: "no disk"}},
		"not reported":             {terminated(0, ""), v1alpha1.GuestEnd{Reason: "GuestShutdown"}},
		"forged in its log":        {terminated(137, `{"reason":"GuestShutdown"}`), v1alpha1.GuestEnd{Reason: "GuestCrashed", Message: `the launcher ended: Error: {"reason":"GuestShutdown"}`}},
		"the launcher crashed":     {terminated(2, "panic"), v1alpha1.GuestEnd{Reason: "GuestCrashed", Message: "the launcher ended: Error: panic"}},
		"killed after its grace period": {func(p *corev1.Pod) {
			terminated(exitCodeKilled, "")(p)
			p.DeletionTimestamp = &metav1.Time{}
		}, v1alpha1.GuestEnd{Reason: "GuestDestroyed", Message: "the guest did not shut down in its grace period"}},
		"an init container failed": {func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "disk-root", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no disk in the image"}},
			}}
		}, v1alpha1.GuestEnd{Reason: "GuestNotStarted", Message: "init container disk-root ended: Error: no disk in the image"}},
		"the kubelet rejected it": {func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "OutOfmemory", "not enough" }, v1alpha1.GuestEnd{Reason: "GuestNotStarted", Message: "OutOfmemory not enough"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := guestEnd(podWith(test.pod)); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

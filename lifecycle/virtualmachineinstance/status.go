package virtualmachineinstance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
)

// messagePause is the minimum time between two messages of the condition Synchronized with the same
// reason, so that a message that always differs does not cause a write at each attempt.
const messagePause = time.Minute

const (
	podScheduled      = kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled)
	evictionRequested = kubevirtv1.VirtualMachineInstanceEvictionRequested
)

type outcome struct {
	decision decision
	guest    *domain.GuestDomain // nil unless it was rendered
	failure  error
}

// writeStatus writes the changes of status and finalizer, in one patch, if there are any. Then it
// records an event about a new phase.
func (c *Controller) writeStatus(ctx context.Context, vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod, result outcome) error {
	out := vmi.DeepCopyObject().(*partialobject.VirtualMachineInstance)
	w := &statusWriter{vmi: out, now: metav1.NewTime(c.Clock.Now().Truncate(time.Second)), kvm: c.Pods.KVMResource}
	if o := observe(vmi, pod); o.Pod.Ownership == owned {
		w.pod = pod
	}
	d := result.decision
	switch d.Action {
	case addFinalizer:
		controllerutil.AddFinalizer(out, v1alpha1.FinalizerPod)
	case removeFinalizer:
		controllerutil.RemoveFinalizer(out, v1alpha1.FinalizerPod)
	}
	w.setPhase(d)
	w.setPod(result.guest)
	w.setConditions(d, result.failure)
	if apiequality.Semantic.DeepEqual(vmi.Status, out.Status) && slices.Equal(vmi.Finalizers, out.Finalizers) {
		return nil
	}
	phase := out.Status.Phase
	err := c.Client.Patch(ctx, out, client.MergeFromWithOptions(vmi, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		return nil // deleted
	case err != nil:
		return fmt.Errorf("cannot write VirtualMachineInstance %s/%s: %w", vmi.Namespace, vmi.Name, err)
	case phase == vmi.Status.Phase:
		return nil
	}
	switch phase {
	case kubevirtv1.Running:
		c.event(vmi, corev1.EventTypeNormal, "Started", "The guest started")
	case kubevirtv1.Succeeded:
		c.event(vmi, corev1.EventTypeNormal, "Stopped", "The guest shut down")
	case kubevirtv1.Failed:
		c.event(vmi, corev1.EventTypeWarning, "Stopped", "The VMI failed: "+d.Message)
	}
	return nil
}

// A statusWriter changes the status of a VMI.
type statusWriter struct {
	vmi *partialobject.VirtualMachineInstance
	pod *corev1.Pod // the VMI's; nil if there is none
	now metav1.Time
	kvm corev1.ResourceName
}

// setPhase enters the phase of a decision and records when. A guest that ended before it was seen
// to run gets the time of Running, too.
func (w *statusWriter) setPhase(d decision) {
	status := &w.vmi.Status
	if d.Phase == "" || d.Phase == status.Phase {
		return
	}
	ended := isFinal(d.Phase)
	if ended && status.Phase != kubevirtv1.Running && w.pod != nil && hasRun(w.pod) {
		w.addTimestamp(kubevirtv1.Running)
	}
	status.Phase = d.Phase
	if s := w.vmi.Spec.StartStrategy; d.Phase == kubevirtv1.Running && s != nil && *s == kubevirtv1.StartStrategyPaused {
		w.set(kubevirtv1.VirtualMachineInstancePaused, corev1.ConditionTrue, "PausedByUser", "VMI was paused by user")
	}
	if ended {
		status.Reason = d.Reason
	}
	w.addTimestamp(d.Phase)
}

func hasRun(pod *corev1.Pod) bool {
	reason := guestEnd(pod).Reason
	return reason != "" && reason != v1alpha1.GuestNotStarted
}

func (w *statusWriter) addTimestamp(phase kubevirtv1.VirtualMachineInstancePhase) {
	w.vmi.Status.PhaseTransitionTimestamps = append(w.vmi.Status.PhaseTransitionTimestamps,
		kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: w.now})
}

// setPod copies facts about the pod and the guest, which may be nil.
func (w *statusWriter) setPod(guest *domain.GuestDomain) {
	status := &w.vmi.Status
	if w.pod == nil {
		return
	}
	if guest != nil {
		setGuest(status, guest)
	}
	if isFinal(status.Phase) {
		return
	}
	status.NodeName, status.QOSClass = w.pod.Spec.NodeName, w.pod.Status.QOSClass
	status.ActivePods = map[types.UID]string{w.pod.UID: w.pod.Spec.NodeName}
	w.setInterfaces()
}

func setGuest(status *partialobject.VirtualMachineInstanceStatus, guest *domain.GuestDomain) {
	d, spec := &guest.Domain, &guest.VMI.Spec
	if d.OS != nil && d.OS.Type != nil {
		status.Machine = &kubevirtv1.Machine{Type: d.OS.Type.Machine}
	}
	if m := spec.Domain.Memory; m != nil && m.Guest != nil {
		status.Memory = &kubevirtv1.MemoryStatus{GuestAtBoot: m.Guest, GuestCurrent: m.Guest, GuestRequested: m.Guest}
	}
	if c := spec.Domain.CPU; c != nil {
		status.CurrentCPUTopology = &kubevirtv1.CPUTopology{Cores: max(c.Cores, 1), Sockets: max(c.Sockets, 1), Threads: max(c.Threads, 1)}
	}
	targets := map[string]string{}
	for i := range d.Devices.Disks {
		if disk := &d.Devices.Disks[i]; disk.Alias != nil && disk.Target != nil {
			targets[strings.TrimPrefix(disk.Alias.Name, "ua-")] = disk.Target.Dev
		}
	}
	status.VolumeStatus = nil
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		target, known := targets[v.Name]
		if !known {
			continue
		}
		volume := kubevirtv1.VolumeStatus{Name: v.Name, Target: target}
		if v.PersistentVolumeClaim != nil {
			volume.PersistentVolumeClaimInfo = &kubevirtv1.PersistentVolumeClaimInfo{ClaimName: v.PersistentVolumeClaim.ClaimName}
		}
		status.VolumeStatus = append(status.VolumeStatus, volume)
	}
}

// setInterfaces lists the interfaces of the guest with the addresses of the pod.
func (w *statusWriter) setInterfaces() {
	if len(w.pod.Status.PodIPs) == 0 || len(w.vmi.Spec.Domain.Devices.Interfaces) == 0 {
		return
	}
	var out []kubevirtv1.VirtualMachineInstanceNetworkInterface
	for _, nic := range w.vmi.Spec.Domain.Devices.Interfaces {
		if nic.State == kubevirtv1.InterfaceStateAbsent {
			continue
		}
		status := kubevirtv1.VirtualMachineInstanceNetworkInterface{
			Name: nic.Name, MAC: nic.MacAddress, IP: w.pod.Status.PodIPs[0].IP, InfoSource: "domain",
			LinkState: string(cmp.Or(nic.State, kubevirtv1.InterfaceStateLinkUp)), QueueCount: 1,
		}
		for _, ip := range w.pod.Status.PodIPs {
			status.IPs = append(status.IPs, ip.IP)
		}
		out = append(out, status)
	}
	w.vmi.Status.Interfaces = out
}

func (w *statusWriter) setConditions(d decision, failure error) {
	w.setReady(d)
	w.setSynchronized(failure)
	if isFinal(w.vmi.Status.Phase) {
		w.drop(kubevirtv1.VirtualMachineInstancePaused)
		w.drop(podScheduled)
		return
	}
	if w.pod == nil {
		return
	}
	if c := podCondition(w.pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		w.set(podScheduled, corev1.ConditionFalse, c.Reason, c.Message)
	} else {
		w.drop(podScheduled)
	}
	if c := disruption(w.pod); c != nil {
		w.set(evictionRequested, corev1.ConditionTrue, kubevirtv1.VirtualMachineInstanceReasonEvictionRequested, c.Message)
	} else if w.pod.DeletionTimestamp == nil {
		w.drop(evictionRequested)
	}
	if w.vmi.Status.Phase != kubevirtv1.Running {
		return // each condition causes a write of the VM, too
	}
	if d.Phase == kubevirtv1.Running && w.emulated() { // decided once, because the KVM resource of the manager may change
		w.set(kubevirtv1.VirtualMachineInstanceSoftwareEmulation, corev1.ConditionTrue, "NoHardwareVirtualization", "the guest runs slowly in software emulation, which a BackendProfile allows")
	}
	w.set(kubevirtv1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse,
		kubevirtv1.VirtualMachineInstanceReasonNotMigratable, "live migration is not supported in standalone mode")
}

// emulated reports whether the launcher container has no KVM device.
func (w *statusWriter) emulated() bool {
	launcher := partialobject.Find(w.pod.Spec.Containers, func(c *corev1.Container) bool { return c.Name == v1alpha1.ContainerLauncher })
	if launcher == nil {
		return false
	}
	_, has := launcher.Resources.Limits[w.kvm]
	return !has
}

// setReady sets the condition Ready, which every VMI has.
func (w *statusWriter) setReady(d decision) {
	const kind = kubevirtv1.VirtualMachineInstanceReady
	switch {
	case isFinal(w.vmi.Status.Phase):
		if d.Phase == w.vmi.Status.Phase {
			w.set(kind, corev1.ConditionFalse, kubevirtv1.PodNotExistsReason, d.Message)
		}
	case w.vmi.DeletionTimestamp != nil, w.pod != nil && w.pod.DeletionTimestamp != nil:
		w.set(kind, corev1.ConditionFalse, kubevirtv1.PodTerminatingReason, "the guest is shutting down")
	case w.vmi.Status.Phase != kubevirtv1.Running || w.pod == nil:
		w.set(kind, corev1.ConditionFalse, kubevirtv1.GuestNotRunningReason, "Guest VM is not reported as running")
	default:
		if c := podCondition(w.pod, corev1.PodReady); c != nil {
			w.set(kind, c.Status, c.Reason, c.Message)
		} else {
			w.set(kind, corev1.ConditionFalse, kubevirtv1.PodConditionMissingReason, "the pod does not report readiness")
		}
	}
}

// setSynchronized reports why the VMI does not run, or drops the condition.
func (w *statusWriter) setSynchronized(failure error) {
	const kind = kubevirtv1.VirtualMachineInstanceSynchronized
	reason, message := "", ""
	if failure != nil {
		reason, message = reasonNotCreated, failure.Error()
		if f, is := errors.AsType[*partialobject.Failure](failure); is {
			reason = f.Reason
		}
	} else if w.pod != nil && !isFinal(w.vmi.Status.Phase) {
		reason, message = waitingContainer(w.pod)
	}
	was := w.vmi.Status.Condition(kind)
	switch {
	case reason == "":
		w.drop(kind)
	case was != nil && was.Reason == reason && (was.Message == message || w.now.Sub(was.LastProbeTime.Time) < messagePause):
	default:
		w.set(kind, corev1.ConditionFalse, reason, message).LastProbeTime = w.now
	}
}

// waitingContainer returns why the kubelet cannot start a container of a pod; empty if it can.
func waitingContainer(pod *corev1.Pod) (reason, message string) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := status.State.Waiting
		if w != nil && (strings.HasPrefix(w.Reason, "Err") || strings.HasSuffix(w.Reason, "Error") || strings.HasSuffix(w.Reason, "BackOff") || w.Reason == "InvalidImageName") {
			return w.Reason, fmt.Sprintf("container %s: %s", status.Name, w.Message)
		}
	}
	return "", ""
}

// set adds or changes a condition and returns it.
func (w *statusWriter) set(kind kubevirtv1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, reason, message string) *kubevirtv1.VirtualMachineInstanceCondition {
	c := w.vmi.Status.Condition(kind)
	if c == nil {
		w.vmi.Status.Conditions = append(w.vmi.Status.Conditions, kubevirtv1.VirtualMachineInstanceCondition{Type: kind})
		c = w.vmi.Status.Condition(kind)
	}
	if c.Status != status {
		c.LastTransitionTime = w.now
	}
	c.Status, c.Reason, c.Message = status, reason, presets.Escape(message)
	return c
}

func (w *statusWriter) drop(kind kubevirtv1.VirtualMachineInstanceConditionType) {
	w.vmi.Status.Conditions = slices.DeleteFunc(w.vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
}

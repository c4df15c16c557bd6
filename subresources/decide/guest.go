package decide

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// VMIResource is the resource of a VMI in errors, in the singular as in KubeVirt.
var VMIResource = schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachineinstance"}

const (
	conditionsPath = "/status/conditions"
	notRunning     = "VMI is not running"
)

// CheckGuest checks whether an action on the guest of a VMI may be tried. The condition Paused is
// checked only in a dry run, because the launcher knows the state of the guest. The error is an
// *apierrors.StatusError.
func CheckGuest(vmi *kubevirtv1.VirtualMachineInstance, action v1alpha1.LauncherAction, dry bool) error {
	switch action {
	case v1alpha1.LauncherConsole, v1alpha1.LauncherVNC:
		return checkDevice(vmi, action)
	case v1alpha1.LauncherPortForward:
		return checkPort(vmi)
	}
	return checkAction(vmi, action, dry)
}

func checkAction(vmi *kubevirtv1.VirtualMachineInstance, action v1alpha1.LauncherAction, dry bool) error {
	if err := checkPower(vmi, action); err != nil || !dry {
		return err
	}
	paused := conditionAt(vmi, kubevirtv1.VirtualMachineInstancePaused) >= 0
	switch {
	case action == v1alpha1.LauncherPause && paused:
		return VMIConflict(vmi, "VMI is already paused")
	case action == v1alpha1.LauncherUnpause && !paused:
		return VMIConflict(vmi, "VMI is not paused")
	case action == v1alpha1.LauncherSoftReboot && paused:
		return VMIConflict(vmi, "VMI is paused")
	}
	return nil
}

// checkDevice checks whether a client may connect to a device. After code 400, KubeVirt's clients
// retry until the VMI runs.
func checkDevice(vmi *kubevirtv1.VirtualMachineInstance, action v1alpha1.LauncherAction) error {
	devices, console := &vmi.Spec.Domain.Devices, action == v1alpha1.LauncherConsole
	switch {
	case console && !ptr.Deref(devices.AutoattachSerialConsole, true):
		return apierrors.NewBadRequest("No serial consoles are present.")
	case !console && !ptr.Deref(devices.AutoattachGraphicsDevice, true):
		return apierrors.NewBadRequest("No graphics devices are present.")
	case console && vmi.Status.Phase == kubevirtv1.Failed:
		return VMIConflict(vmi, "VMI is in failed status")
	case vmi.Status.Phase != kubevirtv1.Running:
		return apierrors.NewBadRequest(notRunning)
	}
	return nil
}

// checkPort checks whether a client may connect to a port of the guest.
func checkPort(vmi *kubevirtv1.VirtualMachineInstance) error {
	switch {
	case vmi.Status.Phase != kubevirtv1.Running:
		return VMIConflict(vmi, notRunning)
	case conditionAt(vmi, kubevirtv1.VirtualMachineInstancePaused) >= 0:
		return VMIConflict(vmi, "VMI is paused")
	}
	return nil
}

func checkPower(vmi *kubevirtv1.VirtualMachineInstance, action v1alpha1.LauncherAction) error {
	features := vmi.Spec.Domain.Features
	switch {
	case vmi.DeletionTimestamp != nil:
		return VMIConflict(vmi, "VMI is being deleted")
	case vmi.Status.Phase != kubevirtv1.Running:
		return VMIConflict(vmi, notRunning)
	case action == v1alpha1.LauncherPause && vmi.Spec.LivenessProbe != nil:
		// The kubelet would kill the pod, because a paused guest does not answer.
		return apierrors.NewForbidden(VMIResource, vmi.Name, errors.New("Pausing VMIs with LivenessProbe is currently not supported")) //nolint:staticcheck // KubeVirt's spelling
	case action == v1alpha1.LauncherSoftReboot && features != nil && !ptr.Deref(features.ACPI.Enabled, true) &&
		conditionAt(vmi, kubevirtv1.VirtualMachineInstanceAgentConnected) < 0:
		return VMIConflict(vmi, "VMI neither have the agent connected nor the ACPI feature enabled")
	}
	return nil
}

// CheckPod checks that a pod runs a VMI: the VMI's status has the pod's UID, and the VMI controls
// the pod. The error is an *apierrors.StatusError.
func CheckPod(vmi *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod) error {
	_, active := vmi.Status.ActivePods[pod.UID]
	switch {
	case !active || !metav1.IsControlledBy(pod, vmi):
		return VMIConflict(vmi, "pod "+pod.Name+" does not run this VMI")
	case pod.Status.Phase != corev1.PodRunning:
		return VMIConflict(vmi, notRunning)
	case pod.Annotations[v1alpha1.AnnotationNoGuest] != "":
		return VMIConflict(vmi, fmt.Sprintf("no guest runs in pod %s: %.200q", pod.Name, pod.Annotations[v1alpha1.AnnotationNoGuest]))
	}
	return nil
}

// SetPaused sets or removes the condition Paused of a VMI as KubeVirt does.
func SetPaused(vmi *kubevirtv1.VirtualMachineInstance, paused bool, at time.Time) *Changes {
	condition := map[string]any{
		"type": kubevirtv1.VirtualMachineInstancePaused, "status": corev1.ConditionTrue, "lastTransitionTime": metav1.NewTime(at),
		"reason": "PausedByUser", "message": "VMI was paused by user",
	}
	index := conditionAt(vmi, kubevirtv1.VirtualMachineInstancePaused)
	var change Operation
	switch {
	case paused == (index >= 0):
		return &Changes{}
	case !paused:
		change = Operation{Op: "remove", Path: fmt.Sprintf("%s/%d", conditionsPath, index)}
	case len(vmi.Status.Conditions) == 0:
		change = Operation{Op: "add", Path: conditionsPath, Value: []any{condition}}
	default:
		change = Operation{Op: "add", Path: conditionsPath + "/-", Value: condition}
	}
	return &Changes{VMI: []Operation{test("/metadata/uid", vmi.UID), test("/metadata/resourceVersion", vmi.ResourceVersion), change}}
}

// conditionAt returns the index of a condition that is true; -1 if there is none.
func conditionAt(vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) int {
	return slices.IndexFunc(vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// VMIConflict returns an error of code 409, as in KubeVirt.
func VMIConflict(vmi *kubevirtv1.VirtualMachineInstance, why string) error {
	return apierrors.NewConflict(VMIResource, vmi.Name, errors.New(why))
}

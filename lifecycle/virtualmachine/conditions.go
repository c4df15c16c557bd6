package virtualmachine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
)

type (
	condition     = kubevirtv1.VirtualMachineCondition
	conditionType = kubevirtv1.VirtualMachineConditionType
)

// instanceStopped is a condition that KubeVirt does not have. It describes how the last VMI ended,
// and stays when the next one starts.
const instanceStopped conditionType = "InstanceStopped"

// otherControllers write these conditions, which are kept.
var otherControllers = []conditionType{"NameConflict", kubevirtv1.VirtualMachineManualRecoveryRequired}

// messagePause is the minimum time between two messages of a Failure with the same reason, so that
// a message that always differs does not cause a write at each attempt.
const messagePause = time.Minute

// Reasons of the condition InstanceStopped, with the end of its message.
const (
	stoppedOnRequest = "Requested"
	stoppedByGuest   = "GuestShutdown"
	stoppedByCrash   = "Crashed"
	stoppedPodLost   = "PodLost"
	stoppedAtStart   = "StartFailed"
	stoppedDeleted   = "Deleted"
)

var stoppedMessages = map[string]string{
	stoppedOnRequest: "was stopped on request",
	stoppedByGuest:   "ended because its guest shut down",
	stoppedByCrash:   "failed while it ran",
	stoppedPodLost:   "failed because its pod was evicted or deleted",
	stoppedAtStart:   "failed before it ran",
	stoppedDeleted:   "was deleted",
}

// conditions returns all conditions of a VM: ours, those of its VMI, and those of other
// controllers.
func conditions(vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, o observation, d decision, failure *partialobject.Failure) []condition {
	was := vm.Status.Conditions
	var out []condition
	if created := vmiExists(o, d, failure); !restsStopped(o, d, created) {
		out = append(out, ready(was, vmi, o, d, created))
	}
	out = append(out, vmiConditions(was, vmi)...)
	if failure == nil {
		failure = strategyProblem(o.Strategy)
	}
	if failure != nil {
		out = append(out, failureCondition(was, o.Now, failure))
	}
	if d.Delete == "" && templateChanged(vm, vmi, o) {
		out = append(out, restartRequired(vm, o))
	}
	if stopped := stopped(vm, o, d); stopped != nil {
		out = append(out, *stopped)
	}
	for _, kind := range otherControllers {
		if c := find(was, kind); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// failureCondition returns the condition Failure. LastProbeTime is when its message was written.
func failureCondition(was []condition, now time.Time, failure *partialobject.Failure) condition {
	out := withTimes(was, now, condition{
		Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: failure.Reason, Message: presets.Escape(failure.Error()),
	})
	last := find(was, kubevirtv1.VirtualMachineFailure)
	if last != nil && last.Reason == out.Reason && (last.Message == out.Message || now.Sub(last.LastProbeTime.Time) < messagePause) {
		out.Message = last.Message
	} else {
		out.LastProbeTime = metav1.NewTime(now.Truncate(time.Second))
	}
	return out
}

func failureIn(status *partialobject.VirtualMachineStatus) *partialobject.Failure {
	if c := find(status.Conditions, kubevirtv1.VirtualMachineFailure); c != nil {
		return &partialobject.Failure{Reason: c.Reason, Err: errors.New(c.Message)}
	}
	return nil
}

// vmiConditions copies the conditions of a VMI except Ready.
func vmiConditions(was []condition, vmi *partialobject.VirtualMachineInstance) []condition {
	if vmi == nil {
		return nil
	}
	var out []condition
	for _, c := range vmi.Status.Conditions {
		if c.Type != kubevirtv1.VirtualMachineInstanceReady {
			out = append(out, copied(was, c))
		}
	}
	return out
}

// runStrategies are those of VMs that do not migrate.
var runStrategies = []runStrategy{
	kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyOnce,
	kubevirtv1.RunStrategyRerunOnFailure,
}

// strategyProblem returns why a run strategy is invalid, or nil.
func strategyProblem(strategy runStrategy) *partialobject.Failure {
	var problem *field.Error
	switch {
	case slices.Contains(runStrategies, strategy):
		return nil
	case strategy == "":
		problem = field.Forbidden(field.NewPath("spec", "running"), "may not be set together with spec.runStrategy; remove one of them")
	default:
		problem = field.NotSupported(field.NewPath("spec", "runStrategy"), strategy, runStrategies)
	}
	return &partialobject.Failure{Reason: "InvalidRunStrategy", Err: problem}
}

// restartRequired returns the condition of a running VMI that differs from the template. It keeps
// its message until the VM changes.
func restartRequired(vm *partialobject.VirtualMachine, o observation) condition {
	message := "spec.template has changed since the VMI was created"
	if o.Changes != "" {
		message = "changed since the VMI was created: " + o.Changes
	}
	was := vm.Status.Conditions
	out := withTimes(was, o.Now, condition{
		Type: kubevirtv1.VirtualMachineRestartRequired, Status: corev1.ConditionTrue, Reason: "TemplateChanged",
		Message: message + "; the changes apply from the next start",
	})
	if last := find(was, out.Type); last != nil && o.Changes == "" && vm.Status.ObservedGeneration == vm.Generation {
		out.Message = last.Message
	}
	return out
}

// restsStopped reports whether the run strategy leaves the VM stopped. Such a VM has no condition
// Ready, because clients that wait for it to match its spec would wait for Ready=True.
func restsStopped(o observation, d decision, created bool) bool {
	switch vmi := o.own(); {
	case o.Deletion != notDeleted, strategyProblem(o.Strategy) != nil, d.Delete != "", d.Adopt != "":
		return false
	case vmi != nil:
		return vmi.Phase.final() && !vmi.Deleting
	}
	return !created && !wantsVMI(o)
}

// ready returns the condition Ready of a VM that runs or waits for its start.
func ready(was []condition, vmi *partialobject.VirtualMachineInstance, o observation, d decision, created bool) condition {
	out := condition{Type: kubevirtv1.VirtualMachineReady, Status: corev1.ConditionFalse}
	if vmi != nil {
		if c := vmi.Status.Condition(kubevirtv1.VirtualMachineInstanceReady); c != nil {
			return copied(was, *c)
		}
	}
	if vmi == nil && !created {
		out.Reason, out.Message = absence(d)
	} else { // the first condition of each VMI, so that it causes no write of the VM
		out.Reason, out.Message = kubevirtv1.GuestNotRunningReason, "Guest VM is not reported as running"
	}
	return withTimes(was, o.Now, out)
}

func absence(d decision) (reason, message string) {
	const none = "VMI does not exist"
	switch reason = "VMINotExists"; d.Blocked {
	case blockedByNamespace:
		return d.Blocked, none + ": virtwright excludes this namespace, so no preset applies and no VM starts; create the VM in another namespace"
	case blockedByBackOff:
		return reason, fmt.Sprintf("%s: %d VMIs in a row failed before they ran; the next start is at %s", none, d.StartFailure.ConsecutiveFailCount, d.StartFailure.RetryAfterTimestamp.UTC().Format(time.RFC3339))
	case blockedByVolumes:
		return reason, none + ": its DataVolumes are not ready yet"
	case blockedByOtherVMI:
		return reason, "VMI of this VirtualMachine does not exist: another VMI has its name, or is still being deleted"
	}
	return reason, none
}

// copied returns a condition of a VMI as a condition of its VM. If only times differ, it returns
// the old one.
func copied(was []condition, c kubevirtv1.VirtualMachineInstanceCondition) condition {
	out := condition{
		Type: conditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message,
		LastProbeTime: c.LastProbeTime, LastTransitionTime: c.LastTransitionTime,
	}
	if last := find(was, out.Type); last != nil {
		same := *last
		same.LastProbeTime, same.LastTransitionTime = out.LastProbeTime, out.LastTransitionTime
		if apiequality.Semantic.DeepEqual(same, out) {
			return *last
		}
	}
	return out
}

// stopped returns the condition InstanceStopped, or nil before the first VMI has ended. The first
// reason that is found for a VMI stays.
func stopped(vm *partialobject.VirtualMachine, o observation, d decision) *condition {
	was := recordedStop(vm, o, d)
	reason, uid := stopReason(o, d)
	if o.own() == nil && d.Adopt == "" && vanished(&vm.Status) {
		reason, uid = stoppedDeleted, ""
	}
	if reason == "" || was != nil && uid != "" && strings.Contains(was.Message, string(uid)) {
		return was
	}
	name := "VMI"
	if uid != "" {
		name += " " + string(uid)
	}
	return &condition{
		Type: instanceStopped, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(o.Now.Truncate(time.Second)),
		Message: name + " " + stoppedMessages[reason],
	}
}

// recordedStop returns the condition InstanceStopped in status; nil if it is about a VMI that was
// not deleted after all.
func recordedStop(vm *partialobject.VirtualMachine, o observation, d decision) *condition {
	was := find(vm.Status.Conditions, instanceStopped)
	if vmi := o.own(); was != nil && vmi.active() && d.Delete == "" && strings.Contains(was.Message, string(vmi.UID)) {
		return nil
	}
	return was
}

// vanished reports whether status has a VMI that was not seen to end.
func vanished(was *partialobject.VirtualMachineStatus) bool {
	switch was.PrintableStatus {
	case kubevirtv1.VirtualMachineStatusStopping, kubevirtv1.VirtualMachineStatusStopped, kubevirtv1.VirtualMachineStatusCrashLoopBackOff:
		return false
	}
	return was.Created
}

// stopReason returns why the VMI ends, and its UID; empty if it does not.
func stopReason(o observation, d decision) (reason string, uid types.UID) {
	vmi := o.own()
	switch {
	case vmi == nil || vmi.active() && d.Delete == "":
		return "", ""
	case vmi.Phase.final() && !vmi.Deleting:
		return endOf(vmi), vmi.UID
	case o.Strategy == kubevirtv1.RunStrategyHalted, stopRequested(o), d.Delete != "":
		return stoppedOnRequest, vmi.UID
	}
	return stoppedDeleted, vmi.UID
}

func endOf(vmi *vmiObservation) string {
	switch {
	case vmi.Phase == succeeded:
		return stoppedByGuest
	case vmi.PodLost:
		return stoppedPodLost
	case vmi.Ran:
		return stoppedByCrash
	}
	return stoppedAtStart
}

// withTimes keeps the times of the last condition of this type if its status is the same.
func withTimes(was []condition, now time.Time, c condition) condition {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if last := find(was, c.Type); last != nil && last.Status == c.Status {
		c.LastTransitionTime, c.LastProbeTime = last.LastTransitionTime, last.LastProbeTime
	}
	return c
}

func find(list []condition, kind conditionType) *condition {
	return partialobject.Find(list, func(c *condition) bool { return c.Type == kind })
}

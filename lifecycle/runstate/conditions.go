package runstate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/machine"
)

// Conditions that virtwright writes besides KubeVirt's.
const (
	// InstanceStopped tells how and when the last instance stopped, also after
	// the next one has started.
	InstanceStopped kubevirtv1.VirtualMachineConditionType = "InstanceStopped"
	// NameConflict is another controller's and stays.
	NameConflict kubevirtv1.VirtualMachineConditionType = "NameConflict"
)

// foreign are the conditions that others write.
var foreign = []kubevirtv1.VirtualMachineConditionType{NameConflict, kubevirtv1.VirtualMachineManualRecoveryRequired}

// stays is how long a message stays before another of the same reason comes in
// its place: one that is always different must not be written without end.
const stays = time.Minute

// Reasons of InstanceStopped.
const (
	StoppedOnRequest   = "Requested"
	StoppedByGuest     = "GuestShutdown"
	StoppedByCrash     = "Crashed"
	StoppedBeforeItRan = "StartFailed"
	StoppedByDeletion  = "Deleted"
)

// conditions are those of a VirtualMachine: ours, and those of its instance.
func conditions(vm *machine.VirtualMachine, instance *machine.Instance, s Situation, d Decision, trouble *Trouble) []kubevirtv1.VirtualMachineCondition {
	was := vm.Status.Conditions
	var out []kubevirtv1.VirtualMachineCondition
	if created := made(s, d, trouble); !s.rests(d, created) {
		out = append(out, ready(was, instance, s, d, created))
	}
	out = append(out, instanceConditions(was, instance)...)
	if trouble == nil {
		trouble = contradiction(s)
	}
	if trouble != nil {
		out = append(out, failure(was, s.Now, trouble))
	}
	if d.Delete == "" && s.differs(vm, instance) {
		out = append(out, restartRequired(vm, s))
	}
	if stopped := stopped(vm, s, d); stopped != nil {
		out = append(out, *stopped)
	}
	for _, kind := range foreign {
		if i := find(was, kind); i >= 0 {
			out = append(out, was[i])
		}
	}
	return out
}

// failure is the condition Failure. When its message was written is its time of
// probing.
func failure(was []kubevirtv1.VirtualMachineCondition, now time.Time, trouble *Trouble) kubevirtv1.VirtualMachineCondition {
	out := since(was, now, kubevirtv1.VirtualMachineCondition{
		Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: trouble.Reason, Message: trouble.Message,
	})
	i := find(was, kubevirtv1.VirtualMachineFailure)
	switch {
	case i >= 0 && was[i].Reason == out.Reason && (was[i].Message == out.Message || now.Sub(was[i].LastProbeTime.Time) < stays):
		out.Message = was[i].Message
	default:
		out.LastProbeTime = metav1.NewTime(now.Truncate(time.Second))
	}
	return out
}

// TroubleOf is the trouble that a status tells of; nil for none.
func TroubleOf(status *machine.Status) *Trouble {
	if i := find(status.Conditions, kubevirtv1.VirtualMachineFailure); i >= 0 {
		return &Trouble{status.Conditions[i].Reason, status.Conditions[i].Message}
	}
	return nil
}

// instanceConditions are the conditions of an instance but Ready.
func instanceConditions(was []kubevirtv1.VirtualMachineCondition, instance *machine.Instance) []kubevirtv1.VirtualMachineCondition {
	var out []kubevirtv1.VirtualMachineCondition
	if instance == nil {
		return nil
	}
	for _, c := range instance.Status.Conditions {
		if c.Type != kubevirtv1.VirtualMachineInstanceReady {
			out = append(out, copied(was, c))
		}
	}
	return out
}

// contradiction is what is wrong with the strategy.
func contradiction(s Situation) *Trouble {
	switch s.Strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyOnce,
		kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyWaitAsReceiver:
		return nil
	case "":
		return &Trouble{"InvalidRunStrategy", "spec.running and spec.runStrategy are both set: take one of them out"}
	}
	return &Trouble{"InvalidRunStrategy", fmt.Sprintf("spec.runStrategy is %q: want Always, Halted, Manual, Once, RerunOnFailure or WaitAsReceiver", s.Strategy)}
}

// restartRequired is the condition of a running VMI that differs from the template. Its message
// stays until the VM changes, and the fields that differ are read again.
func restartRequired(vm *machine.VirtualMachine, s Situation) kubevirtv1.VirtualMachineCondition {
	was := vm.Status.Conditions
	message := "spec.template has changed since the VMI was created"
	if s.Changes != "" {
		message = "changed since the VMI was created: " + s.Changes
	}
	out := since(was, s.Now, kubevirtv1.VirtualMachineCondition{
		Type: kubevirtv1.VirtualMachineRestartRequired, Status: corev1.ConditionTrue, Reason: "TemplateChanged",
		Message: message + "; the changes apply from the next start",
	})
	if i := find(was, out.Type); i >= 0 && s.Changes == "" && vm.Status.ObservedGeneration == vm.Generation {
		out.Message = was[i].Message
	}
	return out
}

// rests reports whether the run strategy leaves the VM stopped. Such a VM has no condition Ready:
// clients that wait for a VM to be as its spec says would wait for Ready=True.
func (s *Situation) rests(d Decision, created bool) bool {
	switch i := s.own(); {
	case s.Deletion != NotDeleted, contradiction(*s) != nil, d.Delete != "", d.Adopt != "":
		return false
	case i != nil:
		return i.Phase.Final() && !i.Deleting
	}
	return !created && !Wanted(*s)
}

// ready is the condition Ready of a VM that runs, or that its run strategy starts.
func ready(was []kubevirtv1.VirtualMachineCondition, instance *machine.Instance, s Situation, d Decision, created bool) kubevirtv1.VirtualMachineCondition {
	switch {
	case instance != nil:
		for _, c := range instance.Status.Conditions {
			if c.Type == kubevirtv1.VirtualMachineInstanceReady {
				return copied(was, c)
			}
		}
	case !created: // a new one has said nothing yet
		return since(was, s.Now, notReady(absence(d)))
	}
	return since(was, s.Now, notReady("VMIConditionMissing", "VMI is missing the Ready condition"))
}

// absence returns the reason and the message for a VMI that does not exist.
func absence(d Decision) (reason, message string) {
	const none = "VMI does not exist"
	switch reason = "VMINotExists"; d.Waits {
	case WaitsInExcludedNamespace:
		return d.Waits, none + ": virtwright excludes this namespace, so no preset applies and no VM starts; create the VM in another namespace"
	case WaitsForBackOff:
		return reason, fmt.Sprintf("%s: %d instances in a row ended before they ran; the next start is at %s", none, d.Failure.ConsecutiveFailCount, d.Failure.RetryAfterTimestamp.UTC().Format(time.RFC3339))
	case WaitsForVolumes:
		return reason, none + ": its data volumes are not filled yet"
	case WaitsForInstance:
		return reason, "VMI of this VirtualMachine does not exist: another of its name is there, or is still going"
	}
	return reason, none
}

// copied is a condition of an instance. That it was probed again alone is no news.
func copied(was []kubevirtv1.VirtualMachineCondition, c kubevirtv1.VirtualMachineInstanceCondition) kubevirtv1.VirtualMachineCondition {
	out := kubevirtv1.VirtualMachineCondition{
		Type: kubevirtv1.VirtualMachineConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message,
		LastProbeTime: c.LastProbeTime, LastTransitionTime: c.LastTransitionTime,
	}
	if i := find(was, out.Type); i >= 0 {
		same := was[i]
		same.LastProbeTime = out.LastProbeTime
		if apiequality.Semantic.DeepEqual(same, out) {
			return was[i]
		}
	}
	return out
}

// stopped says how the last instance stopped; nil where none has. What is said
// of an instance once stays.
func stopped(vm *machine.VirtualMachine, s Situation, d Decision) *kubevirtv1.VirtualMachineCondition {
	var was *kubevirtv1.VirtualMachineCondition
	if i := find(vm.Status.Conditions, InstanceStopped); i >= 0 {
		was = &vm.Status.Conditions[i]
	}
	reason, uid := s.ending(d)
	if s.own() == nil && d.Adopt == "" && vanished(&vm.Status) {
		reason, uid = StoppedByDeletion, ""
	}
	if reason == "" || was != nil && uid != "" && strings.Contains(was.Message, string(uid)) {
		return was
	}
	message := "the instance"
	if uid != "" {
		message += " " + string(uid)
	}
	return &kubevirtv1.VirtualMachineCondition{
		Type: InstanceStopped, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(s.Now.Truncate(time.Second)),
		Message: message + " " + map[string]string{
			StoppedOnRequest: "was stopped on request", StoppedByGuest: "ended as its guest shut down", StoppedByCrash: "failed while it ran",
			StoppedBeforeItRan: "failed before it ran", StoppedByDeletion: "was deleted",
		}[reason],
	}
}

// vanished reports whether there was an instance of which nobody saw that it
// would end.
func vanished(was *machine.Status) bool {
	switch was.PrintableStatus {
	case kubevirtv1.VirtualMachineStatusStopping, kubevirtv1.VirtualMachineStatusStopped, kubevirtv1.VirtualMachineStatusCrashLoopBackOff:
		return false
	}
	return was.Created
}

// ending says why an instance ends, if one does.
func (s *Situation) ending(d Decision) (reason string, uid types.UID) {
	i := s.own()
	switch {
	case i == nil || i.active() && d.Delete == "":
		return "", ""
	case i.Phase.Final() && !i.Deleting:
		return i.ended(), i.UID
	case s.Strategy == kubevirtv1.RunStrategyHalted, s.stops(i), d.Delete != "":
		return StoppedOnRequest, i.UID
	}
	return StoppedByDeletion, i.UID
}

// ended says how a guest ended.
func (i *Instance) ended() string {
	switch {
	case i.Phase == Succeeded:
		return StoppedByGuest
	case i.Ran:
		return StoppedByCrash
	}
	return StoppedBeforeItRan
}

// since is a condition with the time of the one there was, if its status is the same.
func since(was []kubevirtv1.VirtualMachineCondition, now time.Time, c kubevirtv1.VirtualMachineCondition) kubevirtv1.VirtualMachineCondition {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if i := find(was, c.Type); i >= 0 && was[i].Status == c.Status {
		c.LastTransitionTime, c.LastProbeTime = was[i].LastTransitionTime, was[i].LastProbeTime
	}
	return c
}

// notReady is the condition Ready of what is not.
func notReady(reason, message string) kubevirtv1.VirtualMachineCondition {
	return kubevirtv1.VirtualMachineCondition{Type: kubevirtv1.VirtualMachineReady, Status: corev1.ConditionFalse, Reason: reason, Message: message}
}

func find(list []kubevirtv1.VirtualMachineCondition, kind kubevirtv1.VirtualMachineConditionType) int {
	return slices.IndexFunc(list, func(c kubevirtv1.VirtualMachineCondition) bool { return c.Type == kind })
}

package virtualmachine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/runstate"
)

// Reasons of the condition Failure and of events.
const (
	reasonCreated      = "SuccessfulCreate"
	reasonNotCreated   = "FailedCreate"
	reasonDeleted      = "SuccessfulDelete"
	reasonNotDeleted   = "FailedDelete"
	reasonAdopted      = "SuccessfulAdoption"
	reasonNotAdopted   = "FailedAdoption"
	reasonNotRewritten = "FailedUpdate"
)

// Reasons of events about a guest that ended by itself, and not by a shutdown.
const (
	reasonCrashed     = "GuestCrashed"
	reasonStartFailed = "GuestStartFailed"
)

// tellCrash says that the guest of a VMI crashed, or failed to start, once status says so. The event
// does not have the VMI's UID: events of different objects are not counted as one.
func (c *Controller) tellCrash(vm *machine.VirtualMachine, instance *machine.Instance, before *machine.Status) {
	was, is := stopped(before), stopped(&vm.Status)
	if instance == nil || is == nil || was != nil && was.Message == is.Message {
		return
	}
	var reason, note string
	switch is.Reason {
	case runstate.StoppedByCrash:
		reason, note = reasonCrashed, "The guest crashed: the VMI failed while it ran"
	case runstate.StoppedBeforeItRan:
		reason, note = reasonStartFailed, "The guest did not start: the VMI failed before it ran"
	default:
		return
	}
	related := &unstructured.Unstructured{}
	related.SetGroupVersionKind(instances)
	related.SetName(instance.Name)
	c.tellEvent(vm, related, reason, "%s", note+detailOf(instance))
}

// detailOf is what the runtime says about the end of a VMI.
func detailOf(instance *machine.Instance) string {
	var message string
	for _, condition := range instance.Status.Conditions {
		if condition.Type == kubevirtv1.VirtualMachineInstanceReady {
			message = condition.Message
		}
	}
	if text := cmp.Or(instance.Status.Reason, message); text != "" {
		return ": " + text
	}
	return ""
}

// stopped is the condition InstanceStopped; nil where there is none.
func stopped(status *machine.Status) *kubevirtv1.VirtualMachineCondition {
	i := slices.IndexFunc(status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool { return c.Type == runstate.InstanceStopped })
	if i < 0 {
		return nil
	}
	return &status.Conditions[i]
}

// tellEvent says to people what happened to a machine, and with which instance;
// nil where it is with none. Events of different instances are not counted as one.
func (c *Controller) tellEvent(vm *machine.VirtualMachine, with *unstructured.Unstructured, reason, note string, args ...any) {
	if c.Events == nil {
		return
	}
	kind, action := corev1.EventTypeNormal, strings.TrimPrefix(reason, "Successful")
	if failed, ok := strings.CutPrefix(reason, "Failed"); ok {
		kind, action = corev1.EventTypeWarning, failed
	} else if reason == reasonCrashed || reason == reasonStartFailed {
		kind, action = corev1.EventTypeWarning, "Watch"
	}
	regarding := &corev1.ObjectReference{APIVersion: machines.GroupVersion().String(), Kind: machines.Kind, Namespace: vm.Namespace, Name: vm.Name, UID: vm.UID}
	var related runtime.Object
	if with != nil {
		related = &corev1.ObjectReference{APIVersion: with.GetAPIVersion(), Kind: with.GetKind(), Namespace: vm.Namespace, Name: with.GetName(), UID: with.GetUID()}
	}
	c.Events.Eventf(regarding, related, kind, reason, action, "%s", machine.Note(fmt.Sprintf(note, args...)))
}

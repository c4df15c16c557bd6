package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	watchtools "k8s.io/client-go/tools/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

type observation struct {
	vm  *kubevirtv1.VirtualMachine
	vmi *kubevirtv1.VirtualMachineInstance
	// before is the UID of the VMI that the request stops.
	before types.UID
}

func (o observation) hasNewVMI() bool { return o.vmi != nil && o.vmi.UID != o.before }

// idle are the statuses of VMs without a VMI. Other statuses may be outdated.
var idle = []kubevirtv1.VirtualMachinePrintableStatus{
	kubevirtv1.VirtualMachineStatusStopped, kubevirtv1.VirtualMachineStatusProvisioning, kubevirtv1.VirtualMachineStatusDataVolumeError,
	kubevirtv1.VirtualMachineStatusWaitingForVolumeBinding, kubevirtv1.VirtualMachineStatusWaitingForReceiver,
}

func (o observation) isStopped() bool {
	strategy, err := o.vm.RunStrategy()
	switch {
	case o.vmi != nil && !o.vmi.IsFinal(), len(o.vm.Status.StateChangeRequests) > 0:
		return false
	case err != nil: // controllers do not start a VM with an invalid run strategy
		return true
	}
	return notStopped(strategy) == "" && (o.vmi == nil || !restarts(strategy, o.vmi.Status.Phase))
}

func (p *power) reached(o observation) bool {
	status := o.vm.Status.PrintableStatus
	if p.verb == verbStop {
		return slices.Contains(idle, status) && o.isStopped()
	}
	running := status == kubevirtv1.VirtualMachineStatusRunning && !p.paused || status == kubevirtv1.VirtualMachineStatusPaused
	return running && o.hasNewVMI() && o.vmi.IsRunning() && o.vmi.DeletionTimestamp == nil
}

func (p *power) blocked(o observation) string {
	strategy, err := o.vm.RunStrategy()
	switch {
	case o.vm.DeletionTimestamp != nil && p.verb != verbStop:
		return "the VM is being deleted"
	case err != nil, o.vm.DeletionTimestamp != nil:
		return ""
	case p.verb == verbStop:
		return notStopped(strategy)
	case o.hasNewVMI() && o.vmi.IsFinal() && !restarts(strategy, o.vmi.Status.Phase) && len(o.vm.Status.StateChangeRequests) == 0:
		return fmt.Sprintf("VMI %s; run strategy %s does not restart it", o.ended(), strategy)
	case strategy == kubevirtv1.RunStrategyHalted && !p.paused && o.vmi == nil:
		return "the VM was stopped: its run strategy is Halted"
	}
	return ""
}

// notStopped returns why a VM with a run strategy does not stop; empty if it does.
func notStopped(strategy kubevirtv1.VirtualMachineRunStrategy) string {
	switch strategy {
	case kubevirtv1.RunStrategyWaitAsReceiver:
		return "a VM with run strategy WaitAsReceiver cannot be stopped"
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyOnce:
		return fmt.Sprintf("the VM was started: its run strategy is %s", strategy)
	}
	return ""
}

func (o observation) ended() string {
	ran := slices.ContainsFunc(o.vmi.Status.PhaseTransitionTimestamps, func(t kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool {
		return t.Phase == kubevirtv1.Running
	})
	switch {
	case o.vmi.Status.Phase == kubevirtv1.Succeeded:
		return "shut down"
	case ran:
		return "failed"
	}
	return "failed before it ran"
}

// restarts reports whether a new VMI follows one that has ended.
func restarts(strategy kubevirtv1.VirtualMachineRunStrategy, end kubevirtv1.VirtualMachineInstancePhase) bool {
	return strategy == kubevirtv1.RunStrategyAlways || strategy == kubevirtv1.RunStrategyRerunOnFailure && end == kubevirtv1.Failed
}

func (o observation) describe(done bool) string {
	status := string(o.vm.Status.PrintableStatus)
	if status == "" {
		status = "unknown status (does a lifecycle controller run?)"
	}
	if done {
		return status
	}
	if why := o.why(); why != "" {
		status += " (" + why + ")"
	}
	return status
}

// reasons are the conditions that explain a delay. The first that matches is shown.
var reasons = []struct {
	of     kubevirtv1.VirtualMachineConditionType
	status corev1.ConditionStatus
}{
	{kubevirtv1.VirtualMachineFailure, corev1.ConditionTrue},
	{kubevirtv1.VirtualMachineConditionType(corev1.PodScheduled), corev1.ConditionFalse},
	{kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceSynchronized), corev1.ConditionFalse},
	{kubevirtv1.VirtualMachineConditionType(kubevirtv1.VirtualMachineInstanceDataVolumesReady), corev1.ConditionFalse},
	{kubevirtv1.VirtualMachineReady, corev1.ConditionFalse},
}

// obvious are messages that only repeat the status.
var obvious = []string{"VMI does not exist", "VMI is missing the Ready condition"}

func (o observation) why() string {
	if f := o.vm.Status.StartFailure; f != nil && f.ConsecutiveFailCount > 0 && !o.hasNewVMI() {
		text := fmt.Sprintf("starts that ended early: %d", f.ConsecutiveFailCount)
		if f.RetryAfterTimestamp != nil {
			text += ", next after " + f.RetryAfterTimestamp.UTC().Format(time.RFC3339)
		}
		return text
	}
	for _, reason := range reasons {
		i := slices.IndexFunc(o.vm.Status.Conditions, func(c kubevirtv1.VirtualMachineCondition) bool {
			return c.Type == reason.of && c.Status == reason.status && !slices.Contains(obvious, c.Message)
		})
		if i >= 0 {
			c := o.vm.Status.Conditions[i]
			text := fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Reason)
			if c.Message != "" {
				text += ": " + c.Message
			}
			return text
		}
	}
	return ""
}

// observeBefore returns the state before the request. The field before is empty if a new VMI needs
// no comparison. A VM that does not exist is an error of the request.
func (p *power) observeBefore(ctx context.Context, c *clusterClient, vm types.NamespacedName) (o observation, err error) {
	if o.vmi, err = c.vmi(ctx, vm); err == nil {
		o.vm, err = c.vm(ctx, vm)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return o, p.rejected(vm, fmt.Errorf("cannot wait: %w", err))
	}
	if o.vmi != nil && (p.verb != verbStart || o.vmi.IsFinal()) {
		o.before = o.vmi.UID
	}
	return o, nil
}

// await calls tell with each change of the status, and with the last status.
func (p *power) await(ctx context.Context, c *clusterClient, vm types.NamespacedName, start observation, tell func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	w := &objectWait{objects: c.vms.Namespace(vm.Namespace), name: vm.Name, shown: "VM " + vm.String(), tell: tell}
	if start.vm != nil && start.vm.Status.PrintableStatus != "" {
		w.last = start.describe(false)
	}
	w.reached = func(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
		o := observation{before: start.before}
		var err error
		if o.vm, err = decoded[kubevirtv1.VirtualMachine](object); err != nil {
			return false, err
		}
		if o.vmi, err = c.vmi(ctx, vm); err != nil {
			return false, err
		}
		done := p.reached(o)
		if done {
			w.last = ""
		}
		w.news(o.describe(done))
		if why := p.blocked(o); !done && why != "" {
			return false, unfinished(fmt.Errorf("cannot %s VM %s: %s", p.verb, vm, why))
		}
		return done, nil
	}
	err := w.until(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return unfinished(fmt.Errorf("timed out after %s waiting for VM %s to %s: %s", p.timeout, vm, p.verb, w.last))
	}
	return err
}

const (
	// round is the duration of a watch, after which the object is read again.
	round      = 10 * time.Second
	retryDelay = time.Second
)

// objectWait is like kubectl wait, and survives restarts of the API server.
type objectWait struct {
	objects dynamic.ResourceInterface
	name    string
	shown   string
	// version is the resourceVersion of the first watch; empty to read the object first.
	version string
	// reached reports whether the object has the state. An exitError ends the wait.
	reached func(context.Context, *unstructured.Unstructured) (bool, error)
	tell    func(state string)
	last    string
}

// until returns nil when the object has the state, or the error of the context.
func (w *objectWait) until(ctx context.Context) error {
	for {
		err := w.round(ctx)
		_, ended := errors.AsType[exitError](err)
		switch {
		case err == nil, ended:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, watchtools.ErrWatchClosed), wait.Interrupted(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		case isRejection(err) && !apierrors.IsNotFound(err): // a starting server may not serve all kinds yet
			return unfinished(fmt.Errorf("cannot wait for %s: %w", w.shown, err))
		default:
			w.news(fmt.Sprintf("unknown (%s)", err))
			select {
			case <-time.After(retryDelay):
			case <-ctx.Done():
			}
		}
	}
}

// round reads the object, unless version is set, and watches it for a while.
func (w *objectWait) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()}
	if w.version == "" {
		list, err := w.objects.List(ctx, options)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return w.deleted()
		}
		if done, err := w.reached(ctx, &list.Items[0]); done || err != nil {
			return err
		}
		w.version = list.GetResourceVersion()
	}
	options.ResourceVersion, w.version = w.version, ""
	watching, err := w.objects.Watch(ctx, options)
	if err != nil {
		return err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, watching, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		done, err := w.reached(ctx, object) // the last state of a deleted object counts
		if !done && err == nil && event.Type == watch.Deleted {
			err = w.deleted()
		}
		return done, err
	})
	return err
}

func (w *objectWait) deleted() error {
	return unfinished(fmt.Errorf("cannot wait for %s: it was deleted", w.shown))
}

func (w *objectWait) news(state string) {
	if state != w.last {
		w.last = state
		w.tell(state)
	}
}

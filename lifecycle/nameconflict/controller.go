// Package nameconflict reports machines that collide although each of them was
// admitted: two that are created at once are more than any cache can see.
//
// The loop, for one VirtualMachine: see what is around it in the index; if
// anything collides, look again, live; say so in an event on both and, where
// virtwright owns the status of VirtualMachines, in the condition NameConflict;
// take the condition away when it is over. It changes nothing else: which of
// two shall go is for people to say.
package nameconflict

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/nameindex"
	"github.com/virtwright/virtwright/validation/names"
)

// Condition is the type of the condition on a VirtualMachine, and the reason of events.
const Condition = "NameConflict"

// workers is how many machines are looked at in parallel.
const workers = 4

// A Controller reports collisions of names. It alone writes the condition
// NameConflict.
type Controller struct {
	Client client.Client
	// Live reads from API servers, not from the cache.
	Live  client.Reader
	Index *nameindex.Index
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock
	// Conditions says that status is virtwright's to write: there is no KubeVirt.
	Conditions bool
	// Metrics may be nil.
	Metrics *Metrics
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// SetupWithManager runs the controller in the leader.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	sameName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, vmi client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(vmi)}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("name-conflict").
		For(&machine.VirtualMachine{}).
		Watches(&machine.VirtualMachine{}, handler.EnqueueRequestsFromMapFunc(c.sharing)).
		Watches(&machine.Instance{}, sameName).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c.Lock.While(c))
	if err != nil {
		return fmt.Errorf("cannot set up the reporting of name conflicts: %w", err)
	}
	return nil
}

// sharing are the machines with which one shares a disk: they are free once it goes.
func (c *Controller) sharing(ctx context.Context, object client.Object) []reconcile.Request {
	vm, ok := object.(*machine.VirtualMachine)
	if !ok || len(vm.Spec.DataVolumeTemplates) == 0 {
		return nil
	}
	keys, err := c.Index.Sharing(ctx, vm)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot tell with whom a VirtualMachine shares disks", "namespace", vm.Namespace, "name", vm.Name)
	}
	var requests []reconcile.Request
	for _, key := range keys {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// Reconcile looks at one VirtualMachine.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cached machine.VirtualMachine
	if err := c.Client.Get(ctx, req.NamespacedName, &cached); err != nil {
		c.Metrics.set(req.NamespacedName, false)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	seen, conflicts, err := c.observe(ctx, &cached)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot look around VirtualMachine %s: %w", req.NamespacedName, err)
	}
	c.Metrics.set(req.NamespacedName, len(conflicts) > 0)
	if len(conflicts) == 0 && find(cached.Status.Conditions) < 0 {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.report(ctx, req.NamespacedName, seen, conflicts)
}

// observe says what collides with a VM, after a second, live look.
func (c *Controller) observe(ctx context.Context, vm *machine.VirtualMachine) (names.Surroundings, []string, error) {
	m := vm.Machine()
	m.Identifiers = nil
	if m.Deleting {
		return names.Surroundings{}, nil, nil
	}
	seen, err := c.Index.Around(ctx, &m)
	if err != nil || len(names.Conflicts(&m, seen)) == 0 {
		return seen, nil, err
	}
	if seen, err = c.Index.Confirm(ctx, &m, seen); err != nil {
		return seen, nil, err
	}
	return seen, names.Conflicts(&m, seen), nil
}

// report writes what changed and then says it.
func (c *Controller) report(ctx context.Context, key types.NamespacedName, seen names.Surroundings, conflicts []string) error {
	var vm machine.VirtualMachine
	if err := c.Live.Get(ctx, key, &vm); err != nil {
		return client.IgnoreNotFound(err)
	}
	message := strings.Join(conflicts, "\n")
	if c.Conditions {
		changed, err := c.condition(ctx, &vm, message)
		if err != nil || !changed {
			return err
		}
	}
	if message == "" {
		return nil
	}
	events := []*eventsv1.Event{c.event(reference("VirtualMachine", &vm), nil, message)}
	if i := seen.Instance; i != nil && !i.BelongsTo(&names.Machine{Namespace: key.Namespace, Name: key.Name, UID: vm.UID}) {
		instance := &machine.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name, UID: i.UID}}
		events = append(events, c.event(reference("VirtualMachineInstance", instance), reference("VirtualMachine", &vm), fmt.Sprintf(
			"VirtualMachine %s has the name of this instance, which is not its own, and cannot start until the instance is gone", vm.Name)))
	}
	for _, event := range events {
		if err := c.Client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cannot write an event: %w", err)
		}
	}
	return nil
}

// condition sets the condition to message, none where that is empty, and
// reports whether it was another before.
func (c *Controller) condition(ctx context.Context, vm *machine.VirtualMachine, message string) (bool, error) {
	before := vm.DeepCopyObject().(client.Object)
	i := find(vm.Status.Conditions)
	switch {
	case i >= 0 && vm.Status.Conditions[i].Message == message, i < 0 && message == "":
		return false, nil
	case i >= 0:
		vm.Status.Conditions = append(vm.Status.Conditions[:i:i], vm.Status.Conditions[i+1:]...)
	}
	if message != "" {
		vm.Status.Conditions = append(vm.Status.Conditions, kubevirtv1.VirtualMachineCondition{
			Type: Condition, Status: corev1.ConditionTrue, Reason: Condition, Message: message,
			LastTransitionTime: metav1.NewTime(c.now()),
		})
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Status().Patch(ctx, vm, patch); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("cannot write the condition %s: %w", Condition, err)
	}
	return true, nil
}

func (c *Controller) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// find is the index of our condition, or -1.
func find(conditions []kubevirtv1.VirtualMachineCondition) int {
	for i := range conditions {
		if conditions[i].Type == Condition {
			return i
		}
	}
	return -1
}

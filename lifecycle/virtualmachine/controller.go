// Package virtualmachine keeps the running state of VirtualMachines.
//
// The loop, for one VirtualMachine: observe it, the instance of its name and its
// volumes in the caches; let runstate decide; do the one thing that it says, with
// preconditions that make it harmless to do twice; write what there is to say to
// status, in one patch and only if it is new. Reading this file, apply.go and
// runstate/decide.go is reading all of it.
//
// Two writes start a machine (instance, status) and two stop it. There are no
// finalizers: owner references let the garbage collector do what deletion
// takes, and names let nobody make a second instance.
package virtualmachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/runstate"
)

// workers is how many machines are looked at in parallel.
const workers = 16

// lag is how long to wait for a cache before looking again.
const lag = time.Second

// retry is how long to wait for what nobody tells of.
const retry = 15 * time.Second

// When what failed is tried again: each time later.
const (
	soonest = 20 * time.Millisecond
	latest  = time.Minute
)

// A Controller keeps the running state of VirtualMachines. It alone writes
// their status, but for the condition NameConflict and new requests.
type Controller struct {
	// Client reads from caches, and writes.
	Client client.Client
	// Live reads from API servers.
	Live client.Reader
	// Events tells people.
	Events events.EventRecorder
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock
	// Excluded are the namespaces in which no VMI is created.
	Excluded []string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	machines, instances freshness
	volumes             volumes
}

// SetupWithManager runs the controller in the leader.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	sameName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, vmi client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(vmi)}}
	})
	built, err := ctrl.NewControllerManagedBy(mgr).Named("virtual-machine").
		For(&machine.VirtualMachine{}, builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&machine.Instance{}, sameName, builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](soonest, latest),
		}).
		Build(c.Lock.While(c))
	if err != nil {
		return fmt.Errorf("cannot set up the keeping of running state: %w", err)
	}
	c.volumes = volumes{manager: mgr, controller: built}
	return c.volumes.index(mgr.GetFieldIndexer())
}

// Reconcile looks at one VirtualMachine.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vm := &machine.VirtualMachine{}
	if err := c.Client.Get(ctx, req.NamespacedName, vm); err != nil {
		if apierrors.IsNotFound(err) {
			c.machines.forget(req.NamespacedName)
			c.instances.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.machines.stale(req.NamespacedName, vm.ResourceVersion) {
		return reconcile.Result{RequeueAfter: lag}, nil
	}
	instance, err := c.instance(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := c.keep(ctx, vm, instance)
	if errors.Is(err, errMoved) || apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: lag}, nil // unless its event comes before
	}
	return result, err
}

// instance is the instance of a name, read live where the cache cannot know yet
// what this controller has done.
func (c *Controller) instance(ctx context.Context, key types.NamespacedName) (*machine.Instance, error) {
	instance, err := get(ctx, c.Client, key)
	if err != nil {
		return nil, err
	}
	goes := instance != nil && instance.DeletionTimestamp == nil && c.instances.told(key, instance.UID)
	if !goes && !c.instances.stale(key, versionOf(instance)) {
		return instance, nil
	}
	if instance, err = get(ctx, c.Live, key); instance == nil && err == nil {
		c.instances.forget(key)
	}
	return instance, err
}

// keep does for a machine what there is to do. Whatever goes wrong is told in
// status, and holds up nothing that it has nothing to do with.
func (c *Controller) keep(ctx context.Context, vm *machine.VirtualMachine, instance *machine.Instance) (reconcile.Result, error) {
	s := runstate.Observe(vm, instance, c.now())
	s.Excluded = slices.Contains(c.Excluded, vm.Namespace)
	var trouble *runstate.Trouble
	s.Volumes, trouble = c.fill(ctx, vm, s)
	d := runstate.Decide(s)
	if s.Deletion == runstate.NotDeleted && !d.Acts() && runstate.NeedsChanges(vm, instance, s) {
		var err error
		if s.Changes, err = c.changes(ctx, vm); err != nil {
			return reconcile.Result{}, err // nothing waits but status
		}
	}
	if d.First { // what was the matter may still be
		if err := c.tell(ctx, vm, instance, runstate.Status(vm, instance, s, d, cmp.Or(trouble, runstate.TroubleOf(&vm.Status)))); err != nil {
			return reconcile.Result{}, err
		}
	}
	failure, err := c.apply(ctx, vm, instance, d)
	switch {
	case err != nil && failure == nil:
		return reconcile.Result{}, err
	case failure != nil:
		trouble, d = failure, runstate.Undone(s, d)
	case d.First || d.Adopt != "":
		return reconcile.Result{RequeueAfter: d.After}, nil // an event of the instance comes
	}
	if problem := c.tell(ctx, vm, instance, runstate.Status(vm, instance, s, d, trouble)); problem != nil {
		return reconcile.Result{}, errors.Join(err, problem)
	}
	if s.Volumes != runstate.Filled || trouble != nil {
		d.After = min(cmp.Or(d.After, retry), retry)
	}
	return reconcile.Result{RequeueAfter: d.After}, err
}

// get is the instance of a name; nil for none.
func get(ctx context.Context, from client.Reader, key types.NamespacedName) (*machine.Instance, error) {
	instance := &machine.Instance{}
	switch err := from.Get(ctx, key, instance); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("cannot read VirtualMachineInstance %s: %w", key, err)
	}
	return instance, nil
}

func versionOf(instance *machine.Instance) string {
	if instance == nil {
		return ""
	}
	return instance.ResourceVersion
}

func (c *Controller) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

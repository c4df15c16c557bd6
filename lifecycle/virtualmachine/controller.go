// Package virtualmachine starts and stops VMs: it creates, adopts and deletes their VMIs.
//
// Each reconciliation of a VM
//
//  1. observes the VM, its volumes and the VMI of its name, from caches (observe.go, volumes.go);
//  2. decides, by a pure function of the observation (decide.go);
//  3. applies the decision: at most one change of the VMI or the spec (apply.go);
//  4. writes the changes of status, in one patch (status.go, conditions.go).
//
// Before a VMI is deleted, step 4 comes before step 3: the next start depends on facts about that
// VMI, which status keeps.
//
// Each write has preconditions, so a write that is repeated, or based on a stale cache, does no
// harm. A start is two writes (VMI, status), and so is a stop (status, VMI). After that, each
// visible change is one write. There are no finalizers: the garbage collector deletes the VMI of a
// deleted VM. A VM cannot have two VMIs, because they have its name.
//
// Tests run the decision for every possible observation, more than a million. They verify:
//
//   - A VM never gets a second VMI.
//   - A VMI that is being deleted or belongs to another object is never changed.
//   - A halted VM never starts.
//   - Each VM reaches the state that its spec asks for.
package virtualmachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

const (
	cacheLag   = time.Second
	pollPeriod = 15 * time.Second // the time between two reconciliations of a VM that waits without events
)

// A Controller starts and stops VMs. It is the only writer of their status, except for the
// condition NameConflict and new requests.
type Controller struct {
	Client   client.Client // reads from caches and writes to the API server
	Live     client.Reader
	Events   events.EventRecorder
	Lock     *leadership.Lock // held by the leader; nil without leader election
	Excluded []string         // the namespaces in which no VMI is created
	Clock    clock.PassiveClock

	vmWrites, vmiWrites recentWrites
	volumes             volumeWatch
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &partialobject.VirtualMachine{}, volumeIndex, func(vm client.Object) []string {
		return vm.(*partialobject.VirtualMachine).Names().DataVolumes
	})
	if err != nil {
		return fmt.Errorf("cannot index VMs by their DataVolumes: %w", err)
	}
	built, err := ctrl.NewControllerManagedBy(mgr).Named("virtual-machine").
		For(&partialobject.VirtualMachine{}, changed).
		Watches(&partialobject.VirtualMachineInstance{}, &handler.EnqueueRequestForObject{}, changed).
		WithOptions(leadership.ManyObjects()).
		Build(c.Lock.While(c))
	if err != nil {
		return fmt.Errorf("cannot set up the controller of VMs: %w", err)
	}
	c.volumes = volumeWatch{manager: mgr, controller: built}
	return nil
}

// Reconcile starts or stops one VM as its spec and its requests demand.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vm := &partialobject.VirtualMachine{}
	if err := c.Client.Get(ctx, req.NamespacedName, vm); err != nil {
		if apierrors.IsNotFound(err) {
			c.vmWrites.forget(req.NamespacedName)
			c.vmiWrites.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.vmWrites.missing(req.NamespacedName, vm.ResourceVersion, c.Clock.Now()) {
		return reconcile.Result{RequeueAfter: cacheLag}, nil
	}
	vmi, err := c.readVMI(ctx, vm)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := c.reconcile(ctx, vm, vmi)
	if isStale(err) {
		return reconcile.Result{RequeueAfter: cacheLag}, nil // an event may come before
	}
	return result, err
}

func (c *Controller) reconcile(ctx context.Context, vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance) (reconcile.Result, error) {
	o := observe(vm, vmi, c.Clock.Now())
	o.Excluded = slices.Contains(c.Excluded, vm.Namespace)
	volumesFailure := c.observeVolumes(ctx, vm, &o)
	d := decide(o)
	if err := c.createVolumes(ctx, vm, d.CreateVolumes); err != nil {
		o.Volumes, volumesFailure = volumesFailed, err
	}
	if o.Deletion == notDeleted && !d.changesObjects() && needsChanges(vm, vmi, o) {
		var err error
		if o.Changes, err = c.readChanges(ctx, vm); err != nil {
			return reconcile.Result{}, err // only status waits for the next attempt
		}
	}
	if d.Delete != "" {
		return reconcile.Result{}, c.recordAndDelete(ctx, vm, vmi, o, d)
	}
	err := c.apply(ctx, vm, vmi, d)
	failure, failed := errors.AsType[*partialobject.Failure](err)
	switch {
	case failed:
		d.Requests, d.Strategy = o.Requests, "" // they are tried again
	case err != nil:
		return reconcile.Result{}, err
	case d.Adopt != "":
		return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil // the event of the VMI continues
	default:
		failure = volumesFailure
	}
	if statusErr := c.writeStatus(ctx, vm, vmi, statusOf(vm, vmi, o, d, failure)); statusErr != nil {
		return reconcile.Result{}, errors.Join(err, statusErr)
	}
	if o.Volumes != volumesReady || failure != nil {
		d.RequeueAfter = min(cmp.Or(d.RequeueAfter, pollPeriod), pollPeriod)
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, err
}

// recordAndDelete writes status and deletes the VMI, whose event continues. If the deletion fails,
// it writes why.
func (c *Controller) recordAndDelete(
	ctx context.Context, vm *partialobject.VirtualMachine, vmi *partialobject.VirtualMachineInstance, o observation, d decision,
) error {
	unresolved := failureIn(&vm.Status)
	if err := c.writeStatus(ctx, vm, vmi, statusOf(vm, vmi, o, d, unresolved)); err != nil {
		return err
	}
	err := c.apply(ctx, vm, vmi, d)
	if failure, failed := errors.AsType[*partialobject.Failure](err); failed {
		return errors.Join(err, c.writeStatus(ctx, vm, vmi, statusOf(vm, vmi, o, d, failure)))
	}
	return err
}

// readVMI returns the VMI of a VM, or nil. It reads from the API server if the cache misses a write
// of this controller, or if requests are pending: a request that a late cache seems to have served
// would be lost.
func (c *Controller) readVMI(ctx context.Context, vm *partialobject.VirtualMachine) (*partialobject.VirtualMachineInstance, error) {
	key := client.ObjectKeyFromObject(vm)
	if len(vm.Status.StateChangeRequests) > 0 {
		return getVMI(ctx, c.Live, key)
	}
	vmi, err := getVMI(ctx, c.Client, key)
	if err != nil {
		return nil, err
	}
	version, deletionMissing := "", false
	if vmi != nil {
		version, deletionMissing = vmi.ResourceVersion, vmi.DeletionTimestamp == nil && c.vmiWrites.deleted(key, vmi.UID)
	}
	if deletionMissing || c.vmiWrites.missing(key, version, c.Clock.Now()) {
		return getVMI(ctx, c.Live, key)
	}
	return vmi, nil
}

func getVMI(ctx context.Context, from client.Reader, key types.NamespacedName) (*partialobject.VirtualMachineInstance, error) {
	vmi := &partialobject.VirtualMachineInstance{}
	switch err := from.Get(ctx, key, vmi); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("cannot read VirtualMachineInstance %s: %w", key, err)
	}
	return vmi, nil
}

// recentWrites remembers the writes of this controller until caches have them, and the last
// deletion of each name, so that no decision is based on an older state.
type recentWrites struct {
	mu        sync.Mutex
	versions  map[types.NamespacedName]writtenVersion
	deletions map[types.NamespacedName]types.UID
}

type writtenVersion struct {
	version string
	at      time.Time
}

// maxCacheLag is the time after which a write is forgotten. A cache that still misses it watches a
// different history, for example because etcd was restored from a backup.
const maxCacheLag = time.Minute

func (w *recentWrites) record(key types.NamespacedName, version string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.NamespacedName]writtenVersion{}
	}
	w.versions[key] = writtenVersion{version, now}
}

// missing reports whether a cached resource version, empty for no object, is older than the last
// write.
func (w *recentWrites) missing(key types.NamespacedName, cached string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.versions[key]
	switch {
	case !ok:
		return false
	case now.Sub(last.at) > maxCacheLag:
	case cached == "":
		return true
	default:
		if order, err := resourceversion.CompareResourceVersion(cached, last.version); err == nil && order < 0 {
			return true
		}
	}
	delete(w.versions, key)
	return false
}

func (w *recentWrites) recordDeletion(key types.NamespacedName, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deletions == nil {
		w.deletions = map[types.NamespacedName]types.UID{}
	}
	w.deletions[key] = uid
}

func (w *recentWrites) deleted(key types.NamespacedName, uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deletions[key] == uid
}

func (w *recentWrites) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, key)
	delete(w.deletions, key)
}

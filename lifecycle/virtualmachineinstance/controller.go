// Package virtualmachineinstance runs each VMI in a pod.
//
// Each reconciliation of a VMI
//
//  1. observes the VMI and the pod of its name, from caches (observe.go);
//  2. decides, by a pure function of the observation (decide.go);
//  3. creates or deletes the pod (apply.go);
//  4. writes the changes of status and finalizer, in one patch (status.go).
//
// Kubernetes does the rest: it schedules the pod, mounts its volumes and drains its node.
//
// A VMI never has two pods that run its guest. The name of the pod is derived from the name of the
// VMI, so API servers reject a second one. The finalizer keeps the VMI until its pod is gone, so
// that a new VMI of the same name cannot create a pod before. A pod of that name that another
// object controls is never used.
package virtualmachineinstance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/presets"
)

const (
	cacheLag   = time.Second
	pollPeriod = 15 * time.Second // the time between two reconciliations of a VMI with a pod that causes no events
)

// A Controller creates and deletes the pods of VMIs, and writes their status.
type Controller struct {
	Client   client.Client // reads from caches and writes to the API server
	Live     client.Reader
	Events   events.EventRecorder
	Lock     *leadership.Lock // held by the leader; nil without leader election
	Pods     podspec.Settings
	Profiles interface{ Snapshot() *domain.Profiles } // returns the profiles in use, or nil before they are loaded
	// Namespaces returns the labels of namespaces.
	Namespaces interface {
		Get(ctx context.Context, name string) (presets.Namespace, error)
	}
	Excluded []string // the namespaces in which no pod is created
	Clock    clock.PassiveClock
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	vmiOfPod := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, pod client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: vmiName(pod)}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("virtual-machine-instance").
		For(&partialobject.VirtualMachineInstance{}, changed).
		Watches(&corev1.Pod{}, vmiOfPod, changed).
		WithOptions(leadership.ManyObjects()).
		Complete(c.Lock.While(c))
	if err != nil {
		return fmt.Errorf("cannot set up the controller of VMIs: %w", err)
	}
	return nil
}

// vmiName returns the name of the VMI of a pod. A pod without an owner has it in its own name.
func vmiName(pod client.Object) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Name
	}
	return strings.TrimPrefix(pod.GetName(), v1alpha1.PodPrefix)
}

// Reconcile creates or deletes the pod of one VMI and writes its status.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vmi := &partialobject.VirtualMachineInstance{}
	if err := c.Client.Get(ctx, req.NamespacedName, vmi); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var result reconcile.Result
	pod, err := readPod(ctx, c.Client, vmi)
	if err == nil && pod == nil && (vmi.DeletionTimestamp != nil || len(vmi.Status.ActivePods) > 0) {
		// The cache may lag, and it misses a pod that has lost its label.
		if pod, err = readPod(ctx, c.Live, vmi); pod != nil {
			result.RequeueAfter = pollPeriod
		}
	}
	if err == nil {
		err = c.reconcile(ctx, vmi, pod)
	}
	if errors.Is(err, partialobject.ErrStale) || apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: cacheLag}, nil // an event may come before
	}
	if errors.Is(err, errNotFilled) {
		return reconcile.Result{RequeueAfter: pollPeriod}, nil
	}
	return result, err
}

// reconcile reports an error in status, too, and returns it so that the operation is retried.
func (c *Controller) reconcile(ctx context.Context, vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod) error {
	d := c.decide(vmi, pod)
	var guest *domain.GuestDomain
	var failure error
	switch d.Action {
	case createPod:
		var created *corev1.Pod
		if created, guest, failure = c.create(ctx, vmi); created != nil {
			pod, d = created, c.decide(vmi, created)
		}
	case deletePod:
		failure = c.delete(ctx, vmi, pod)
	}
	switch d.Action {
	case reportExcluded:
		failure = &partialobject.Failure{Reason: reasonExcluded, Err: errors.New("virtwright excludes this namespace and creates no pods in it; create the VMI in another namespace")}
	case reportForeignPod:
		failure = &partialobject.Failure{Reason: reasonNameTaken, Err: fmt.Errorf("pod %s exists and does not belong to this VMI; delete it", podspec.Name(vmi.Name))}
	}
	if errors.Is(failure, partialobject.ErrStale) {
		return failure
	}
	if o := observe(vmi, pod); guest == nil && vmi.Status.Memory == nil && o.Pod.Ownership == owned && !o.Pod.final() {
		guest = c.readGuest(ctx, vmi) // the status after the creation of the pod was not written
	}
	err := c.writeStatus(ctx, vmi, pod, outcome{d, guest, failure})
	if d.Action == reportExcluded || err != nil && errors.Is(failure, errNotFilled) {
		return err // a retry would fail in the same way
	}
	return errors.Join(err, failure)
}

func (c *Controller) decide(vmi *partialobject.VirtualMachineInstance, pod *corev1.Pod) decision {
	o := observe(vmi, pod)
	o.Excluded = slices.Contains(c.Excluded, vmi.Namespace)
	return decide(o)
}

func readPod(ctx context.Context, from client.Reader, vmi *partialobject.VirtualMachineInstance) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: vmi.Namespace, Name: podspec.Name(vmi.Name)}
	switch err := from.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("cannot read Pod %s: %w", key, err)
	}
	return pod, nil
}

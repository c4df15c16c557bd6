// Package templates creates templates of VirtualMachines for VirtualMachineTemplateRequests.
//
// The loop for one request is observe → decide → apply:
//
//   - observe reads, from API servers and in this order: the requester's permissions, whether the
//     template's API is served, the object with the template's name, and the VM. It stops at the
//     first obstacle.
//   - decide is pure. It generates the template, processes it and compares the result with the VM.
//   - apply writes the hash of the template to status, creates the template, and writes that it
//     exists. After an interruption the next loop recognizes the template by this hash.
//
// Nothing is ever overwritten. For the annotation that asks for a template, [Trigger] creates a
// request with the author of the annotation as requester.
package templates

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
)

const workers = 4

// Delays of the exponential backoff after errors.
const (
	minErrorDelay = 100 * time.Millisecond
	maxErrorDelay = time.Minute
)

const bySource = "source"

// authority reports whether a user has a permission.
type authority interface {
	Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// discovery returns the API of a format if API servers do not serve it.
type discovery interface {
	Find(ctx context.Context, format sspv1alpha1.Format) (found sspv1alpha1.Format, missing string, err error)
}

// A Controller reconciles requests for templates. No other code writes their status.
type Controller struct {
	Client    client.Client // reads from caches, and writes
	Live      client.Reader // reads from API servers
	Authority authority     // reviews the requester's permissions before anything is read for the requester
	Discovery discovery
	Formats   []string // the names of the enabled formats
	Events    events.EventRecorder
	// WhileLeading wraps the reconciler so that only the leader reconciles.
	WhileLeading func(reconcile.Reconciler) reconcile.Reconciler
	Metrics      *Metrics // may be nil
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &sspv1alpha1.VirtualMachineTemplateRequest{}, bySource, func(object client.Object) []string {
		if isFinished(object) {
			return nil
		}
		source := object.(*sspv1alpha1.VirtualMachineTemplateRequest).Spec.Source
		return []string{sourceKey(source.VMNamespace, source.VMName)}
	})
	if err != nil {
		return fmt.Errorf("cannot index requests for templates: %w", err)
	}
	// The controller's own writes of status are no reason to reconcile, but clearing the status of
	// a finished request is.
	reopened := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return isFinished(e.ObjectOld) && !isFinished(e.ObjectNew) }}
	created := predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("template-request").
		For(&sspv1alpha1.VirtualMachineTemplateRequest{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, reopened))).
		Watches(&partialobject.VirtualMachine{}, handler.EnqueueRequestsFromMapFunc(c.requestsFor), builder.WithPredicates(created)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minErrorDelay, maxErrorDelay),
		}).
		Complete(c.WhileLeading(c))
	if err != nil {
		return fmt.Errorf("cannot set up the controller of template requests: %w", err)
	}
	return nil
}

func isFinished(object client.Object) bool {
	request, ok := object.(*sspv1alpha1.VirtualMachineTemplateRequest)
	return ok && finished(&request.Status)
}

func sourceKey(namespace, name string) string { return namespace + "/" + name }

func (c *Controller) requestsFor(ctx context.Context, vm client.Object) []reconcile.Request {
	var requests sspv1alpha1.VirtualMachineTemplateRequestList
	err := c.Client.List(ctx, &requests, client.MatchingFields{bySource: sourceKey(vm.GetNamespace(), vm.GetName())})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the template requests that wait for a VirtualMachine", "namespace", vm.GetNamespace(), "name", vm.GetName())
	}
	var out []reconcile.Request
	for i := range requests.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&requests.Items[i])})
	}
	return out
}

// Reconcile reconciles one request. It reads the request from the API server: a cache that lags
// would repeat the previous step, and there are few requests.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := &sspv1alpha1.VirtualMachineTemplateRequest{}
	if err := c.Live.Get(ctx, req.NamespacedName, request); err != nil || request.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	seen, err := c.observe(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := decide(seen)
	if d.panicErr != nil {
		ctrl.LoggerFrom(ctx).Error(d.panicErr, "Template generation panicked", "namespace", req.Namespace, "name", req.Name)
	}
	result, err := c.apply(ctx, seen, &d)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the request changed since it was read
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return result, err
}

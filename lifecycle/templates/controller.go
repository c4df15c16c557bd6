// Package templates makes templates of VirtualMachines, for those who ask by a
// VirtualMachineTemplateRequest or by an annotation of the VM.
//
// The loop, for one request: observe, in this order and no further than there is
// reason to: what the requester may do now, whether the API of the template is
// served, what has the template's name, and the VM, all of it live; decide, which
// is pure: generation, and processing what was generated to compare it with the
// VM, belong to it; apply: write to status what will be made, make it, write that
// it is there. Whatever is interrupted begins anew, and knows its own by the hash
// that it wrote before. Nothing is ever overwritten.
//
// The annotation has no path of its own: [Trigger] makes a request of it, in the
// name of who wrote it.
package templates

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/machine"
)

// workers is how many requests are looked at in parallel.
const workers = 4

// When what failed is tried again: each time later.
const (
	soonest = 100 * time.Millisecond
	latest  = time.Minute
)

// bySource is the index of requests by the VM that they name.
const bySource = "source"

// Authority says what users may do.
type Authority interface {
	// Allowed reports whether a user may do something.
	Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// Serving says what API servers serve.
type Serving interface {
	// Serves is empty where API servers serve a format, and says otherwise what they lack.
	Serves(ctx context.Context, format sspv1alpha1.Format) (lack string, err error)
}

// A Controller serves requests for templates. It alone writes their status.
type Controller struct {
	// Client reads from caches, and writes.
	Client client.Client
	// Live reads from API servers.
	Live client.Reader
	// Authority is asked before anything is read for a requester.
	Authority Authority
	Serving   Serving
	// Formats are the names of those in which templates may be made.
	Formats []string
	// Events tells people.
	Events events.EventRecorder
	// Lock is held by the replica that acts; nil where there is one only.
	Lock *leadership.Lock
	// Metrics may be nil.
	Metrics *Metrics
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// SetupWithManager runs the controller in the leader.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &sspv1alpha1.VirtualMachineTemplateRequest{}, bySource, func(object client.Object) []string {
		request, ok := object.(*sspv1alpha1.VirtualMachineTemplateRequest)
		if !ok || finished(&request.Status) {
			return nil
		}
		return []string{sourceKey(request.Spec.Source.VMNamespace, request.Spec.Source.VMName)}
	})
	if err != nil {
		return fmt.Errorf("cannot index requests for templates: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("template-request").
		For(&sspv1alpha1.VirtualMachineTemplateRequest{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, reopened))). // not for our own status
		Watches(&machine.VirtualMachine{}, handler.EnqueueRequestsFromMapFunc(c.waiting), builder.WithPredicates(created)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](soonest, latest),
		}).
		Complete(c.Lock.While(c))
	if err != nil {
		return fmt.Errorf("cannot set up the making of templates: %w", err)
	}
	return nil
}

// reopened passes requests that had ended, and whose status was cleared.
var reopened = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(e event.UpdateEvent) bool { return isFinished(e.ObjectOld) && !isFinished(e.ObjectNew) },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func isFinished(object client.Object) bool {
	request, ok := object.(*sspv1alpha1.VirtualMachineTemplateRequest)
	return ok && finished(&request.Status)
}

// created passes VMs that come.
var created = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return true },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

func sourceKey(namespace, name string) string { return namespace + "/" + name }

// waiting are the requests that wait for a VM.
func (c *Controller) waiting(ctx context.Context, vm client.Object) []reconcile.Request {
	var requests sspv1alpha1.VirtualMachineTemplateRequestList
	err := c.Client.List(ctx, &requests, client.MatchingFields{bySource: sourceKey(vm.GetNamespace(), vm.GetName())})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot tell which requests for templates wait for a VirtualMachine", "namespace", vm.GetNamespace(), "name", vm.GetName())
	}
	var out []reconcile.Request
	for i := range requests.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&requests.Items[i])})
	}
	return out
}

// Reconcile looks at one request, read live: there are few, and what was done
// for one must not be done again because a cache does not know it yet.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := &sspv1alpha1.VirtualMachineTemplateRequest{}
	if err := c.Live.Get(ctx, req.NamespacedName, request); err != nil || request.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	seen, err := c.observe(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := decide(seen)
	if p.panicked != nil {
		ctrl.LoggerFrom(ctx).Error(p.panicked, "Making a template panicked", "namespace", req.Namespace, "name", req.Name)
	}
	result, err := c.apply(ctx, request, p)
	if errors.Is(err, errMoved) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return result, err
}

func (c *Controller) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func keyOf(request *sspv1alpha1.VirtualMachineTemplateRequest) types.NamespacedName {
	return types.NamespacedName{Namespace: request.Namespace, Name: request.Name}
}

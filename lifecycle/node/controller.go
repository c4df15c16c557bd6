// Package node is the node agent: it claims instances for its node, runs them
// through libvirt, and tells how they are.
//
// The loop, for one instance: observe it, the domain of its name and its files;
// let Decide say the one thing to do; write what there is to say to status, if
// it is new; do that one thing; and again, until there is nothing to do. Events
// of libvirt and of API servers only say where to look. So it does not matter
// when the agent, libvirtd or QEMU was killed: what is found is what counts.
//
// A domain is the agent's if its metadata name an instance and this node; others
// are never touched, nor is anything of an instance that another node has
// claimed. It is made once for an instance, and keeps in its metadata what was
// decided about it (Record). A VirtualMachineInstance is one run of a guest:
// one that has ended never runs again, and its finalizer holds it until its
// domain and its files are gone.
//
// Reading this file, decide.go and apply.go is reading all of it.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/files"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

const (
	// workers is how many instances are looked at in parallel.
	workers = 4
	// steps bounds what is done in one go: from a domain that is in the way to a
	// guest that runs it takes eight.
	steps = 12
	// lag is how long to wait for a cache before looking again.
	lag = time.Second
)

// errLeftAlone says that what went wrong is not tried again yet.
var errLeftAlone = errors.New("it is too early to try again")

// errMoved says that something is not as it was when it was decided about.
var errMoved = errors.New("changed meanwhile")

// A Controller is the agent of one node.
type Controller struct {
	// Node is the name of the node.
	Node string
	// Client reads from caches, and writes.
	Client client.Client
	// Live reads from API servers.
	Live client.Reader
	// Events tells people.
	Events events.EventRecorder
	// Libvirt leads to the host's domains. SetupWithManager runs it.
	Libvirt *libvirtd.Connection
	// Files makes what domains need.
	Files *files.Store
	// Look says what the host can do; it is called once there is a connection.
	Look func(context.Context) (*domain.HostFacts, error)
	// Defaults are what this host decides where no profile does.
	Defaults v1alpha1.BackendSettings
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	memory memory
	facts  atomic.Pointer[domain.HostFacts]
	wake   chan event.TypedGenericEvent[client.Object]
}

// SetupWithManager runs the agent, and its connection to libvirtd.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.wake = make(chan event.TypedGenericEvent[client.Object], 1024)
	looks := make(chan struct{}, 1)
	c.Libvirt.Happened = func(name string) { c.enqueue(keyOf(name)) }
	c.Libvirt.Look = func() {
		select {
		case looks <- struct{}{}:
		default: // it is looked at anyway
		}
	}
	for _, runnable := range []runnable{c.Libvirt.Start, c.lookAround(looks), c.boundLogs} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("cannot add a part of the agent: %w", err)
		}
	}
	waiting := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return c.waiting(ctx) })
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&kubevirtv1.VirtualMachineInstance{}).
		Watches(&corev1.Node{}, waiting, builder.WithPredicates(c.placing())).
		Watches(&v1alpha1.FrontendProfile{}, waiting).
		Watches(&v1alpha1.BackendProfile{}, waiting).
		WatchesRawSource(source.Channel(c.wake, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: new(true)}).
		Complete(c)
}

// placing is what matters of Nodes: our own, and where what it takes was
// changed. Its heartbeats must not have everything tried again at once.
func (c *Controller) placing() predicate.Predicate {
	return predicate.And(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == c.Node }),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			was, ok := e.ObjectOld.(*corev1.Node)
			is, too := e.ObjectNew.(*corev1.Node)
			return !ok || !too || was.Spec.Unschedulable != is.Spec.Unschedulable || !was.DeletionTimestamp.Equal(is.DeletionTimestamp) ||
				!maps.Equal(was.Labels, is.Labels) || !apiequality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints)
		}})
}

// runnable is something that runs beside the controller on every node.
type runnable func(context.Context) error

// Start calls the function.
func (f runnable) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (runnable) NeedLeaderElection() bool { return false }

// enqueue has a name looked at.
func (c *Controller) enqueue(key types.NamespacedName, known bool) {
	if !known {
		return
	}
	c.wake <- event.TypedGenericEvent[client.Object]{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}
}

// waiting are the instances that do not run yet and may now: claimed or not.
func (c *Controller) waiting(ctx context.Context) []reconcile.Request {
	var all kubevirtv1.VirtualMachineInstanceList
	if err := c.Client.List(ctx, &all); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		vmi := &all.Items[i]
		ours := vmi.Status.NodeName == c.Node && vmi.Status.Phase == kubevirtv1.Scheduled
		if ours || vmi.Status.NodeName == "" {
			c.memory.hurry(client.ObjectKeyFromObject(vmi))
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(vmi)})
		}
	}
	return out
}

// Reconcile looks at one name, and does what there is to do.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	vmi, err := c.instance(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	after, err := c.keep(ctx, req.NamespacedName, vmi)
	switch {
	case errors.Is(err, errLeftAlone):
		return reconcile.Result{RequeueAfter: after}, nil
	case errors.Is(err, errMoved), apierrors.IsConflict(err), libvirtd.Moved(err):
		return reconcile.Result{RequeueAfter: lag}, nil // unless its event comes before
	case err != nil && ctx.Err() != nil:
		return reconcile.Result{}, nil //nolint:nilerr // the agent ends
	case errors.Is(err, libvirtd.ErrNotConnected):
		return reconcile.Result{RequeueAfter: latest}, nil // everything is looked at once there is a connection
	case err != nil:
		ctrl.LoggerFrom(ctx).Info("Cannot go on; trying again", "reason", err.Error())
		return reconcile.Result{RequeueAfter: c.memory.fail(req.NamespacedName, c.now())}, nil
	}
	c.memory.succeed(req.NamespacedName)
	return reconcile.Result{RequeueAfter: after}, nil
}

// keep does for an instance what there is to do, one thing after the other. It
// returns when to look again.
func (c *Controller) keep(ctx context.Context, key types.NamespacedName, vmi *kubevirtv1.VirtualMachineInstance) (time.Duration, error) {
	for range steps {
		s, err := c.observe(ctx, key, vmi)
		if err != nil {
			return 0, c.complain(ctx, s, Decision{Do: Start}, err)
		}
		d := Decide(s.Situation)
		if !quick(s, d) {
			ctrl.LoggerFrom(ctx).V(1).Info("Decided", "do", d.Do, "phase", d.Phase, "domain", s.Domain, "state", s.State)
		}
		if vmi, err = c.tell(ctx, s, d, nil); err != nil {
			return 0, err
		}
		if wait := c.memory.wait(key, c.now()); d.waits() && wait > 0 {
			return wait, errLeftAlone
		}
		if err := c.act(ctx, s, d); err != nil {
			return 0, c.complain(ctx, s, d, err)
		}
		switch d.Do {
		case Release:
			c.memory.forgetUID(s.vmi.UID)
			return 0, c.sweep(ctx, key, nil)
		case Nothing, Ask, Warn:
			if d.Phase == "" || d.Do == Ask {
				return d.After, c.sweep(ctx, key, vmi)
			}
		}
	}
	return lag, nil
}

// quick says whether there is nothing worth a line in the log.
func quick(s *sight, d Decision) bool { return d.Do == Nothing && d.Phase == "" || s.Claim == Others }

// complain tells of what went wrong, and returns it.
func (c *Controller) complain(ctx context.Context, s *sight, d Decision, err error) error {
	trouble := troubleOf(err)
	// A guest that runs goes on without libvirtd.
	passing := trouble.Reason == ReasonNoLibvirt && s.Phase != kubevirtv1.Scheduled
	if passing || errors.Is(err, errMoved) || libvirtd.Moved(err) || ctx.Err() != nil || s.vmi == nil || s.Claim != Ours || d.Do == Release {
		return err
	}
	was := synchronizedOf(s.vmi)
	vmi, problem := c.tell(ctx, s, Decision{}, trouble)
	if problem != nil && !apierrors.IsConflict(problem) {
		return errors.Join(err, problem)
	}
	if problem == nil && synchronizedOf(vmi) != was {
		c.announceTrouble(s.vmi, trouble)
	}
	return err
}

// sweep removes the files of instances that had a name before.
func (c *Controller) sweep(ctx context.Context, key types.NamespacedName, vmi *kubevirtv1.VirtualMachineInstance) error {
	left := c.memory.leftOf(key)
	if len(left) == 0 {
		if vmi == nil {
			c.memory.forget(key)
		}
		return nil
	}
	live, err := c.live(ctx, key)
	if err != nil {
		return err
	}
	for _, uid := range left {
		if live == nil || live.UID != uid {
			if err := c.Files.Remove(uid); err != nil {
				return err
			}
		}
	}
	if live == nil {
		c.memory.forget(key)
	}
	return nil
}

func (c *Controller) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

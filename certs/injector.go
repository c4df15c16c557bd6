package certs

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Permissions of this package, from which the chart's roles are generated.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=admission.virtwright.dev,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=virtualmachines.kubevirt.io,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1.subresources.kubevirt.io;v1alpha3.subresources.kubevirt.io;v1alpha1.subresources.virtwright.dev,verbs=patch

// An Injector writes a CA bundle into its targets, when the bundle changes and when another program
// changes a target.
type Injector struct {
	Targets
	Cache  client.Reader // watches the targets
	Client client.Client
	Bundle func() []byte // returns the bundle in PEM; nil as long as there is none
	// Refresh reads the newest bundle. It is called before another bundle is replaced, which may be
	// a newer one of another replica. It may fail: the known bundle is then used.
	Refresh func(context.Context) error
	// Interval is how often to check the bundle for changes. It must be well below the overlap of
	// old and new certificates.
	Interval time.Duration
}

// SetupWithManager runs the Injector in every replica, so that none depends on another one to be
// reachable.
func (i *Injector) SetupWithManager(mgr ctrl.Manager) error {
	for name, c := range map[string]struct {
		kind  schema.GroupVersionKind
		names []string
	}{
		"inject-mutating":    {mutatingKind, i.Webhooks},
		"inject-validating":  {validatingKind, i.Webhooks},
		"inject-conversion":  {crdKind, i.CRDs},
		"inject-aggregation": {apiServiceKind, i.APIServices},
	} {
		if len(c.names) == 0 {
			continue
		}
		named := predicate.NewPredicateFuncs(func(o client.Object) bool { return slices.Contains(c.names, o.GetName()) })
		err := ctrl.NewControllerManagedBy(mgr).Named(name).
			For(newObject(c.kind), builder.WithPredicates(named)).
			WithOptions(controller.Options{NeedLeaderElection: new(false)}).
			Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				return i.inject(ctx, req, c.kind)
			}))
		if err != nil {
			return fmt.Errorf("cannot set up the injection of CA bundles: %w", err)
		}
	}
	return nil
}

// inject updates one object, and requeues it to check for the next bundle.
func (i *Injector) inject(ctx context.Context, req reconcile.Request, kind schema.GroupVersionKind) (reconcile.Result, error) {
	if i.Bundle() == nil {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	object := newObject(kind)
	if err := i.Cache.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	changed := object.DeepCopy()
	if setBundles(changed, i.Hosts, i.Bundle()) {
		_ = i.Refresh(ctx) // the regular reading reports problems
		changed = object.DeepCopy()
	}
	if !setBundles(changed, i.Hosts, i.Bundle()) {
		return reconcile.Result{RequeueAfter: i.Interval}, nil
	}
	// The patch replaces the whole list of webhooks, so it must not meet another change of it.
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	err := i.Client.Patch(ctx, changed, patch)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("cannot inject the CA bundle: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Injected the CA bundle")
	return reconcile.Result{RequeueAfter: i.Interval}, nil
}

package certs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An Injector writes a CA bundle into webhook configurations, when the bundle
// changes and when somebody else changed the configuration. A configuration that
// does not exist is left to who installs it.
type Injector struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Names of MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
	Names []string
	// CRDs are names of CustomResourceDefinitions of which a webhook converts the
	// objects; those that are converted otherwise are left alone.
	CRDs []string
	// Bundle returns what to write, in PEM; nil as long as there is nothing.
	Bundle func() []byte
	// Interval between two looks at Bundle; one minute by default. It must be
	// well below the overlap of old and new certificates.
	Interval time.Duration
}

// SetupWithManager makes the Injector run in every replica of a manager: a
// replica must not depend on another one to be reached.
func (i *Injector) SetupWithManager(mgr ctrl.Manager) error {
	everywhere := false
	named := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return slices.Contains(i.Names, o.GetName()) || slices.Contains(i.CRDs, o.GetName())
	})
	kinds := map[string]func() client.Object{
		"inject-mutating":   func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
		"inject-validating": func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
	}
	if len(i.CRDs) > 0 {
		kinds["inject-conversion"] = func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} }
	}
	for name, empty := range kinds {
		err := ctrl.NewControllerManagedBy(mgr).Named(name).
			For(empty(), builder.WithPredicates(named)).
			WithOptions(controller.Options{NeedLeaderElection: &everywhere}).
			Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				return i.inject(ctx, req, empty())
			}))
		if err != nil {
			return fmt.Errorf("cannot set up the injection of CA bundles: %w", err)
		}
	}
	return nil
}

// inject brings one configuration up to date and comes back for the next bundle.
func (i *Injector) inject(ctx context.Context, req reconcile.Request, into client.Object) (reconcile.Result, error) {
	bundle := i.Bundle()
	if bundle == nil {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err := i.Client.Get(ctx, req.NamespacedName, into); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	changed, differs := into.DeepCopyObject().(client.Object), false
	for _, trusted := range bundles(changed) {
		if !bytes.Equal(*trusted, bundle) {
			*trusted, differs = bundle, true
		}
	}
	if differs {
		// The list of webhooks is written whole, so nobody may have changed it meanwhile.
		patch := client.MergeFromWithOptions(into, client.MergeFromWithOptimisticLock{})
		err := i.Client.Patch(ctx, changed, patch)
		switch {
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil // the cache is behind
		case apierrors.IsNotFound(err):
			return reconcile.Result{}, nil
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("cannot inject the CA bundle: %w", err)
		}
		ctrl.LoggerFrom(ctx).Info("Injected the CA bundle")
	}
	return reconcile.Result{RequeueAfter: i.interval()}, nil
}

func (i *Injector) interval() time.Duration {
	if i.Interval == 0 {
		return time.Minute
	}
	return i.Interval
}

// bundles are what API servers trust for each webhook of a configuration.
func bundles(of client.Object) []*[]byte {
	var out []*[]byte
	switch of := of.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for at := range of.Webhooks {
			out = append(out, &of.Webhooks[at].ClientConfig.CABundle)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for at := range of.Webhooks {
			out = append(out, &of.Webhooks[at].ClientConfig.CABundle)
		}
	case *apiextensionsv1.CustomResourceDefinition:
		if c := of.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			out = append(out, &c.Webhook.ClientConfig.CABundle)
		}
	}
	return out
}

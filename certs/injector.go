package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An Injector writes a CA bundle into webhook configurations and APIServices, when the bundle
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
	// APIServices are names of APIServices that this process serves.
	APIServices []string
	// Hosts are the names by which API servers call this process: what leads
	// elsewhere is left alone.
	Hosts []string
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
		return slices.Contains(slices.Concat(i.Names, i.CRDs, i.APIServices), o.GetName())
	})
	kinds := map[string]func() client.Object{
		"inject-mutating":   func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
		"inject-validating": func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
	}
	if len(i.CRDs) > 0 {
		kinds["inject-conversion"] = func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} }
	}
	if len(i.APIServices) > 0 {
		kinds["inject-aggregation"] = func() client.Object { return APIService() }
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
	changed := into.DeepCopyObject().(client.Object)
	if trust(changed, i.Hosts, bundle) {
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

// APIService is an empty APIService of the form in which they are read.
func APIService() *unstructured.Unstructured {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	return empty
}

// trust writes a bundle into what leads to hosts, and reports whether it had
// another there.
func trust(of client.Object, hosts []string, bundle []byte) bool {
	if service, ok := of.(*unstructured.Unstructured); ok {
		encoded := base64.StdEncoding.EncodeToString(bundle)
		if is, _, err := unstructured.NestedString(service.Object, "spec", "caBundle"); !slices.Contains(hosts, aggregated(service)) || err == nil && is == encoded {
			return false
		}
		return unstructured.SetNestedField(service.Object, encoded, "spec", "caBundle") == nil
	}
	differs := false
	for _, trusted := range bundles(of, hosts) {
		if !bytes.Equal(*trusted, bundle) {
			*trusted, differs = bundle, true
		}
	}
	return differs
}

// bundles are what API servers trust for each webhook of a configuration that
// leads to one of hosts. Others are somebody else's, as when KubeVirt has been
// installed since.
func bundles(of client.Object, hosts []string) []*[]byte {
	var out []*[]byte
	add := func(bundle *[]byte, service types.NamespacedName, at *string) {
		if slices.Contains(hosts, host(service, at)) {
			out = append(out, bundle)
		}
	}
	webhook := func(to *admissionregistrationv1.WebhookClientConfig) {
		var service types.NamespacedName
		if to.Service != nil {
			service = types.NamespacedName{Namespace: to.Service.Namespace, Name: to.Service.Name}
		}
		add(&to.CABundle, service, to.URL)
	}
	switch of := of.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for at := range of.Webhooks {
			webhook(&of.Webhooks[at].ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for at := range of.Webhooks {
			webhook(&of.Webhooks[at].ClientConfig)
		}
	case *apiextensionsv1.CustomResourceDefinition:
		if c := of.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			var service types.NamespacedName
			to := c.Webhook.ClientConfig
			if to.Service != nil {
				service = types.NamespacedName{Namespace: to.Service.Namespace, Name: to.Service.Name}
			}
			add(&to.CABundle, service, to.URL)
		}
	}
	return out
}

// host is the name by which API servers call a Service, or a URL.
func host(service types.NamespacedName, at *string) string {
	if service.Name != "" {
		return service.Name + "." + service.Namespace + ".svc"
	}
	if at == nil {
		return ""
	}
	parsed, err := url.Parse(*at)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// aggregated is the name by which API servers call what an APIService leads to.
func aggregated(service *unstructured.Unstructured) string {
	namespace, _, _ := unstructured.NestedString(service.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(service.Object, "spec", "service", "name")
	return host(types.NamespacedName{Namespace: namespace, Name: name}, nil)
}

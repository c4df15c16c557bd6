package main

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/util"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// injected are the kinds that CA bundles are written into.
var injected = map[string]bool{
	cainjector.MutatingWebhookConfigurationName:   true,
	cainjector.ValidatingWebhookConfigurationName: true,
	cainjector.APIServiceName:                     true,
	cainjector.CustomResourceDefinitionName:       true,
}

// inject writes CA bundles where annotations ask for them.
func inject(ctx context.Context, _ options) error {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(corev1.AddToScheme, cmv1.AddToScheme, admissionv1.AddToScheme,
		apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return fmt.Errorf("cannot register the kinds: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot find the cluster: %w", err)
	}
	// The user agent names the field manager, too: without it every apply is rejected.
	config = util.RestConfigWithUserAgent(config, "cainjector")
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return fmt.Errorf("cannot set up the manager: %w", err)
	}
	setup := cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: injected}
	if err := cainjector.RegisterAllInjectors(ctx, manager, setup); err != nil {
		return fmt.Errorf("cannot set up the injectors: %w", err)
	}
	return manager.Start(ctx)
}

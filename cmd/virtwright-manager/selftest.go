package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/subresources"
)

// noPreset is one that nobody has: a webhook that is called says so.
const noPreset = "there-is-no-such-preset"

// selfTest asks an installation, from outside, whether it does its work: nothing
// is left behind.
func selfTest(ctx context.Context, o *options, output io.Writer) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot find the cluster: %w", err)
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := asksWebhooks(ctx, config); err != nil {
		return err
	}
	fmt.Fprintln(output, "API servers call the webhooks.")
	if o.mode != modeStandalone || !o.subresources.on() {
		return nil
	}
	clients, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	if err := clients.RESTClient().Get().AbsPath("/apis/" + subresources.Group + "/v1/version").Do(ctx).Error(); err != nil {
		return fmt.Errorf("API servers do not reach start, stop and restart: %w", err)
	}
	fmt.Fprintln(output, "API servers reach start, stop and restart.")
	return nil
}

// asksWebhooks is nil when a webhook refuses, in a dry run, what only it can refuse.
func asksWebhooks(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	vm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}},
	}}
	vm.SetNamespace(metav1.NamespaceDefault) // not the manager's own, which is spared
	vm.SetGenerateName("virtwright-self-test-")
	vm.SetAnnotations(map[string]string{v1alpha1.AnnotationPresets: noPreset})
	err = c.Create(ctx, vm, client.DryRunAll)
	switch {
	case err == nil:
		return errors.New("API servers do not call the webhooks: a VM that asks for a preset that is not there was admitted")
	case strings.Contains(err.Error(), noPreset) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)):
		return nil
	}
	return fmt.Errorf("API servers cannot call the webhooks: %w", err)
}

package main

import (
	"context"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// requestsIn are the requests for templates in a namespace. What the cluster
// warns of goes to warnings.
func requestsIn(namespace string, config *rest.Config, warnings io.Writer) (dynamic.ResourceInterface, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client of %s: %w", config.Host, err)
	}
	requests := sspv1alpha1.GroupVersion.WithResource(sspv1alpha1.ResourceVirtualMachineTemplateRequests)
	return objects.Resource(requests).Namespace(namespace), nil
}

// ask makes a request, which the waiting is for.
func (w *makingWait) ask(ctx context.Context, r *sspv1alpha1.VirtualMachineTemplateRequest, dryRun bool) error {
	object, err := encoded(r)
	if err != nil {
		return err
	}
	options := metav1.CreateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	made, err := w.requests.Create(ctx, object, options)
	switch {
	case err == nil:
		w.name, w.namespace, w.version = made.GetName(), made.GetNamespace(), made.GetResourceVersion()
		return nil
	case unknownPath(err):
		return fmt.Errorf("cannot make a template of VM %s: %s is not served by this cluster: virtwright's chart installs it (%w)", w.source, sspv1alpha1.GroupVersion, err)
	}
	said := fmt.Errorf("cannot make a template of VM %s: %w", w.source, err)
	if judged(err) {
		return declined{said}
	}
	return said
}

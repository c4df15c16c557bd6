package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/lifecycle/templates"
	"github.com/virtwright/virtwright/webhooks"
)

// completeTemplates checks the formats of templates.
func (o *options) completeTemplates() error {
	known := sspv1alpha1.FormatNames()
	if len(o.templateFormats) == 0 {
		o.templateFormats = known
	}
	for i, name := range o.templateFormats {
		if err := oneOf("--template-formats", name, known...); err != nil {
			return err
		}
		if slices.Contains(o.templateFormats[:i], name) {
			return fmt.Errorf("--template-formats has %s twice", name)
		}
	}
	return nil
}

// forwarder is the user who may ask for templates in the name of others: the
// manager, if it runs as one that people do not.
func forwarder(self string, trusted []string) string {
	if slices.Contains(trusted, self) {
		return self
	}
	return ""
}

// makeTemplates has the controllers that make templates added once the kind of
// requests is served. Nothing else waits for it.
func (p *process) makeTemplates(writer client.Client, recorder events.EventRecorder) error {
	err := p.manager.Add(onEveryReplica(func(ctx context.Context) error {
		const note = "No templates are made until the API server serves the kind of requests; is its CRD installed?"
		if !p.awaitKind(ctx, &sspv1alpha1.VirtualMachineTemplateRequest{}, 5*time.Second, note, sspv1alpha1.KindVirtualMachineTemplateRequest) {
			return nil // told to stop before
		}
		return p.addTemplates(ctx, writer, recorder)
	}))
	if err != nil {
		return fmt.Errorf("cannot add the making of templates: %w", err)
	}
	return nil
}

func (p *process) addTemplates(ctx context.Context, writer client.Client, recorder events.EventRecorder) error {
	clients, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	authority := &webhooks.ReviewedAuthority{Client: p.live}
	requests := &templates.Controller{
		Client: writer, Live: p.live, Events: recorder, Lock: p.lock, Formats: p.options.templateFormats,
		Authority: authority, Serving: templates.Discovery{Client: clients.Discovery().RESTClient()},
		Metrics: templates.NewMetrics(metrics.Registry),
	}
	if err := requests.SetupWithManager(ctx, p.manager); err != nil {
		return err
	}
	if forwarder(p.user, trustedUsers(p.user, p.options)) == "" {
		logr.FromContextOrDiscard(ctx).Info("The annotation that asks for templates is not served: the manager runs as somebody who is not trusted; "+
			"run it as a service account, or give --trusted-user", "user", p.user)
		return nil
	}
	trigger := &templates.Trigger{
		Client: writer, Live: p.live, Authority: authority, Formats: p.options.templateFormats, Events: recorder, Lock: p.lock,
		Excluded: webhooks.ExcludedNamespaces(p.options.namespace),
	}
	return trigger.SetupWithManager(p.manager)
}

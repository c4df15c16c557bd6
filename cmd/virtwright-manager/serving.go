package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtwright/virtwright/lifecycle/instancetypes"
	"github.com/virtwright/virtwright/lifecycle/templates"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/limits"
)

// serve adds the role serving and what must hold before it is ready.
func (p *process) serve(ctx context.Context, checks map[string]healthz.Checker) error {
	trusted := trustedUsers(p.user, p.options)
	guard := protection.Guard{
		Trusted: trusted, Manager: forwarder(p.user, trusted), Addon: p.options.mode == modeAddon, NodeAgent: p.options.nodeAgent,
	}
	around, err := p.report(checks)
	if err != nil {
		return err
	}
	if err := p.handle(ctx, guard, around); err != nil {
		return err
	}
	checks["names"] = func(*http.Request) error { return p.names.Ready() }
	if err := p.certify(ctx, checks, guard.Addon); err != nil {
		return err
	}
	if err := p.serveSubresources(checks); err != nil {
		return err
	}
	if !p.options.registerWebhooks {
		return nil
	}
	err = p.manager.Add(&webhooks.Registrar{
		Client: p.live, Registration: p.registration(guard), Bundle: p.authority.Bundle,
		Ready: func() error { return firstError(checks) }, SeedVersion: p.options.serveV1alpha2,
	})
	if err != nil {
		return fmt.Errorf("cannot add the registration of webhooks: %w", err)
	}
	return nil
}

// handle puts the handlers under their paths.
func (p *process) handle(ctx context.Context, guard protection.Guard, around func(http.Handler) http.Handler) error {
	clients, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	// The informer must have synced before the first request.
	if _, err := p.manager.GetCache().GetInformer(ctx, webhooks.NamespaceMetadata()); err != nil {
		return fmt.Errorf("cannot watch namespaces: %w", err)
	}
	recorder, err := p.newRecorder(ctx, p.config)
	if err != nil {
		return err
	}
	server := &webhooks.Server{
		Events: &webhooks.Events{Recorder: recorder, Presets: p.manager.GetCache()},
		Engine: p.options.engine(), Snapshots: p.presets,
		Namespaces: &webhooks.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live},
		Owners:     &webhooks.LiveOwners{Client: clients.Discovery().RESTClient()},
		Guard:      guard, Rules: &p.options.rules, Names: p.names, Stored: p.stored,
		Authority: &webhooks.ReviewedAuthority{Client: p.live},
		Metrics:   webhooks.NewMetrics(metrics.Registry), MaxExceptionDuration: p.options.maxExceptionDuration, TemplateFormats: p.options.templateFormats,
		TemplateFormat: templates.Choice{Serving: templates.Discovery{Client: clients.Discovery().RESTClient()}, Formats: p.options.templateFormats},
	}
	if p.profiles != nil {
		server.Profiles = p.profiles
	}
	if p.instancetypes != nil {
		server.Instancetypes = p.instancetypes
		if err := p.manager.Add(onEveryReplica(p.watchInstancetypes)); err != nil {
			return fmt.Errorf("cannot add the watching of instancetypes: %w", err)
		}
	}
	mux := http.NewServeMux()
	for path, handler := range server.Handlers() {
		within := reviewTime
		if path == webhooks.PathConvertVirtualMachine {
			within = requestTime // of a whole list
		}
		mux.Handle(path, limits.Deadline(within, p.budget.Handler(within, p.stop.handler(around(handler)))))
	}
	return p.addWebhooks(ctx, mux)
}

// watchInstancetypes watches instancetypes and preferences, once KubeVirt serves them. Until then,
// and where that fails, they are read when they are needed.
func (p *process) watchInstancetypes(ctx context.Context) error {
	const note = "Waiting for a kind that KubeVirt does not serve yet"
	for _, kind := range instancetypes.Kinds() {
		name := kind.GetObjectKind().GroupVersionKind().Kind
		if !p.awaitKind(ctx, kind, 5*time.Second, note, name) {
			return nil
		}
		if err := p.instancetypes.Watch(ctx, kind); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Instancetypes are not cached", "kind", name)
		}
	}
	logr.FromContextOrDiscard(ctx).Info("Watching instancetypes and preferences")
	return nil
}

func (p *process) registration(guard protection.Guard) webhooks.Registration {
	r := webhooks.Registration{URL: p.options.webhookURL, Namespace: p.options.namespace, Guard: guard}
	if s := p.options.webhookService; r.URL == "" && s.Name != "" {
		r.Service = &admissionregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name}
	}
	return r
}

// tls is how the webhook server speaks. API servers are its only clients; they
// use HTTP/1.1 so that requests spread over replicas.
func (p *process) tls(c *tls.Config) {
	c.MinVersion = tls.VersionTLS13
	c.NextProtos = []string{"http/1.1"}
	c.GetCertificate = p.authority.GetCertificate
}

func firstError(checks map[string]healthz.Checker) error {
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](nil); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtwright/virtwright/webhooks/limits"
)

const (
	// reviewTime is how long the body of an AdmissionReview may take to arrive.
	// API servers wait five seconds for the answer.
	reviewTime = 3 * time.Second
	// requestTime is how long any other request may take to arrive.
	requestTime = 10 * time.Second
	// maxConnections and maxHeaderBytes bound what clients take before they have sent
	// a request. An API server has a connection for each admission under way.
	maxConnections, maxHeaderBytes = 2000, 8 << 10
	// shutdownTime is how long requests may take that are being answered when the
	// process stops.
	shutdownTime = 20 * time.Second
)

// addServer adds an HTTP server whose clients must send each request in time,
// whatever its path. controller-runtime's own servers wait for bodies forever.
func (p *process) addServer(ctx context.Context, name string, listener net.Listener, handler http.Handler) error {
	server := &manager.Server{
		Name: name, Listener: netutil.LimitListener(listener, maxConnections), ShutdownTimeout: new(shutdownTime),
		Server: &http.Server{
			Handler: handler, ReadTimeout: requestTime, IdleTimeout: 90 * time.Second, MaxHeaderBytes: maxHeaderBytes,
			BaseContext: func(net.Listener) context.Context {
				return logr.NewContext(context.Background(), logr.FromContextOrDiscard(ctx))
			},
		},
	}
	if err := p.manager.Add(server); err != nil {
		return fmt.Errorf("cannot add the server of %s: %w", name, err)
	}
	return nil
}

// addPlainServer adds a server without TLS; an empty address or 0 means none.
func (p *process) addPlainServer(ctx context.Context, name, address string, handler http.Handler) error {
	if address == "" || address == "0" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot serve %s: %w", name, err)
	}
	return p.addServer(ctx, name, listener, handler)
}

// addProbes serves metrics, liveness and readiness.
func (p *process) addProbes(ctx context.Context, checks map[string]healthz.Checker) error {
	scrape := http.NewServeMux()
	scrape.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	if err := p.addPlainServer(ctx, "metrics", p.options.metricsAddress, scrape); err != nil {
		return err
	}
	probes := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": checks} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		probes.Handle(path, handler)
		probes.Handle(path+"/", handler)
	}
	return p.addPlainServer(ctx, "probes", p.options.healthAddress, probes)
}

// addWebhooks serves the webhooks.
func (p *process) addWebhooks(ctx context.Context, handler http.Handler) error {
	config := &tls.Config{}
	p.tls(config)
	listener, err := tls.Listen("tcp", p.options.webhookAddress, config)
	if err != nil {
		return fmt.Errorf("cannot serve the webhooks: %w", err)
	}
	return p.addServer(ctx, "webhooks", listener, handler)
}

// newBudget makes the budget of memory that the requests of this process share.
func newBudget(size int64) *limits.Budget {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "virtwright_requests_over_budget_total",
		Help: "Requests refused with 429 or 503 because other requests used all of --request-memory for 3 seconds (aggregated API: 10 seconds).",
	})
	metrics.Registry.MustRegister(refused)
	budget := limits.NewBudget(size)
	budget.Refused = refused.Inc
	return budget
}

// memoryFlag sets an amount of memory in bytes, as Kubernetes writes it.
func memoryFlag(into *int64, least int64) func(string) error {
	return func(text string) error {
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("must be an amount of memory such as 96Mi: %w", err)
		}
		if *into = amount.Value(); *into < least {
			return fmt.Errorf("must be at least %s", resource.NewQuantity(least, resource.BinarySI))
		}
		return nil
	}
}

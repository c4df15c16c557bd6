package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtwright/virtwright/certs"
	"github.com/virtwright/virtwright/lifecycle/instancetypes"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/presetrevision"
	"github.com/virtwright/virtwright/templates"
	"github.com/virtwright/virtwright/validation"
	"github.com/virtwright/virtwright/validation/protection"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/clients"
	"github.com/virtwright/virtwright/webhooks/limits"
)

func (p *process) serve(ctx context.Context, checks map[string]healthz.Checker) error {
	guard := p.guard()
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
	registrar := &clients.Registrar{
		Client: p.live, Registration: p.registration(guard), Bundle: p.authority.Bundle,
		Ready: func() error { return firstError(checks) }, ServeV1Alpha2: p.options.serveV1alpha2,
	}
	return p.add("the registration of webhooks", onEveryReplica(registrar.Start))
}

func (p *process) guard() protection.Guard {
	trusted := trustedUsers(p.user, p.options)
	return protection.Guard{
		Trusted: trusted, Controllers: controllers(p.user, p.options), Manager: forwarder(p.user, trusted), Addon: p.options.mode == modeAddon,
		HostDisk: strconv.FormatBool(p.options.rules.Enabled(validation.GateHostDisk)),
	}
}

// admission returns a server that decides about VMs, and reports nothing.
func (p *process) admission(guard protection.Guard) *webhooks.Server {
	server := &webhooks.Server{
		Engine: p.options.engine(), Snapshots: p.presets, Rollouts: p.presets,
		Namespaces: &clients.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live},
		Owners:     &clients.LiveOwners{Client: p.rest},
		Guard:      guard, Rules: &p.options.rules, Names: p.names,
		Revisions:       &presetrevision.Finder{Presets: p.presets, Live: p.live, Namespace: p.options.namespace},
		TemplateFormats: p.options.templateFormats,
		TemplateFormat:  templates.FormatChooser{Discovery: templates.Discovery{Client: p.rest}, Formats: p.options.templateFormats},
	}
	if p.profiles != nil {
		server.Profiles = p.profiles
	}
	if p.instancetypes != nil {
		server.Instancetypes = p.instancetypes
	}
	return server
}

func (p *process) handle(ctx context.Context, guard protection.Guard, around func(http.Handler) http.Handler) error {
	// The informer must have synced before the first request.
	if _, err := p.manager.GetCache().GetInformer(ctx, clients.NamespaceMetadata()); err != nil {
		return fmt.Errorf("cannot watch namespaces: %w", err)
	}
	recorder, err := p.newRecorder(ctx, p.config)
	if err != nil {
		return err
	}
	server := p.admission(guard)
	server.Events = &clients.Events{Recorder: recorder, Presets: p.manager.GetCache()}
	server.Authorizer = &clients.AccessReviewer{Client: p.live}
	server.Metrics, server.MaxExceptionDuration = webhooks.NewMetrics(metrics.Registry), p.options.maxExceptionDuration
	if p.profiles != nil {
		server.Evictions = clients.Evictions{Client: p.live, Authenticated: p.options.webhookClients.authorities != nil}
	}
	if p.instancetypes != nil {
		if err := p.add("the watch of instancetypes", onEveryReplica(p.watchInstancetypes)); err != nil {
			return err
		}
	}
	mux, turns := http.NewServeMux(), turnsOf()
	for path, handler := range server.Handlers() {
		mux.Handle(path, p.budget.Handler(bodyTime(path), turns(path), p.stop.handler(around(handler))))
	}
	return p.addWebhooks(ctx, mux)
}

// Until instancetypes are watched, and if that fails, they are read for each request.
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

func firstError(checks map[string]healthz.Checker) error {
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](nil); err != nil {
			return err
		}
	}
	return nil
}

// certificates is implemented by certs.Authority and certs.Provided.
type certificates interface {
	manager.Runnable
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Bundle() []byte
	Refresh(context.Context) error
	Ready() error
	Collectors() []prometheus.Collector
}

func (p *process) newAuthority() certificates {
	o := p.options
	if o.certMode != certSelfSigned {
		provided := &certs.Provided{Client: p.live, Secret: o.certSecret, Names: o.calledNames()}
		if o.certMode == certManager {
			provided.Explain = (&certs.CertManager{Client: p.live, Certificate: o.certificate}).Explain
		}
		return provided
	}
	a := &certs.Authority{Store: &certs.Memory{}, Names: o.certificateNames(), Lifetimes: o.lifetimes}
	switch {
	case o.certDir != "":
		a.Store = certs.Directory(o.certDir)
	case o.certSecret.Name != "":
		a.Store = &certs.Secret{Client: p.live, Name: o.certSecret}
	}
	return a
}

// cert-manager injects its own CA bundle.
func (p *process) certify(ctx context.Context, checks map[string]healthz.Checker, addon bool) error {
	targets := certs.Targets{Webhooks: []string{webhooks.ConfigurationName}, Hosts: p.options.calledNames()}
	if !addon {
		targets.CRDs, targets.APIServices = []string{webhooks.ConvertedCRD}, p.options.subresources.services()
	}
	if p.options.certMode != certManager {
		injector := &certs.Injector{
			Targets: targets, Cache: p.manager.GetCache(), Client: p.manager.GetClient(),
			Bundle: p.authority.Bundle, Refresh: p.authority.Refresh, Interval: p.options.lifetimes.Interval(),
		}
		if err := injector.SetupWithManager(p.manager); err != nil {
			return err
		}
	}
	check := func(context.Context) error { return p.authority.Ready() }
	if provided, ok := p.authority.(*certs.Provided); ok {
		check = provided.Check
	}
	inspector := &certs.Inspector{
		Certificate: check, Report: p.podEvents(logr.FromContextOrDiscard(ctx)),
		Trust: &certs.TrustChecker{Targets: targets, Client: p.live, Certificate: p.authority.GetCertificate},
	}
	for _, collector := range append(p.authority.Collectors(), inspector.Collectors()...) {
		metrics.Registry.MustRegister(collector)
	}
	checks["certificate"] = func(*http.Request) error { return p.authority.Ready() }
	checks["trust"] = func(*http.Request) error { return inspector.Ready() }
	for _, runnable := range []manager.Runnable{p.authority, inspector} {
		if err := p.add(fmt.Sprintf("%T", runnable), onEveryReplica(runnable.Start)); err != nil {
			return err
		}
	}
	return nil
}

// Environment variables with the identity of the pod.
const (
	podName = "POD_NAME"
	podUID  = "POD_UID"
)

// podEvents returns a function that writes a problem as an event of this pod; nil outside a
// cluster. It does not use a recorder, which merges events of one reason and keeps the first
// message.
func (p *process) podEvents(log logr.Logger) func(reason, message string) {
	name := os.Getenv(podName)
	if name == "" {
		return nil
	}
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.options.namespace, Name: name, UID: types.UID(os.Getenv(podUID))}
	return func(reason, message string) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		event := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: name + "-"},
			EventTime:  metav1.NowMicro(), ReportingController: "virtwright-manager", ReportingInstance: name,
			Type: corev1.EventTypeWarning, Reason: reason, Action: "Serving", Regarding: pod, Note: partialobject.EventNote(message),
		}
		if err := p.live.Create(ctx, event); err != nil {
			log.Error(err, "Cannot write an event about a problem")
		}
	}
}

const (
	// reviewTime bounds the arrival of an AdmissionReview; API servers wait five seconds.
	reviewTime = 3 * time.Second
	// requestTime bounds the arrival of the body of any other request.
	requestTime = 10 * time.Second
	// answerTime bounds a handshake, and an answer with its writing. API servers wait no longer.
	answerTime = 30 * time.Second
	// idleTime is longer than the 90 s after which API servers close an idle or unused connection.
	// If this server closed it first, a request that is sent at that moment would fail.
	idleTime = 2 * time.Minute
	// maxConnections and maxHeaderBytes bound the resources of clients that have not sent a request
	// yet. An API server has a connection for each pending admission request.
	maxConnections, maxHeaderBytes = 2000, 8 << 10
	// shutdownTime bounds the answers that are pending when the process stops.
	shutdownTime = 20 * time.Second
)

// bodyTime bounds the arrival of a body that is sent to a webhook.
func bodyTime(path string) time.Duration {
	if path == webhooks.PathConvertVirtualMachine {
		return requestTime // a review may hold a list of objects
	}
	return reviewTime
}

// addServer adds a server whose handler limits the arrival of bodies, unlike the servers of
// controller-runtime.
func (p *process) addServer(ctx context.Context, name string, listener net.Listener, handler http.Handler) error {
	server := &manager.Server{
		Name: name, Listener: netutil.LimitListener(listener, maxConnections), ShutdownTimeout: new(shutdownTime),
		Server: &http.Server{
			Handler: handler, ReadTimeout: idleTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes,
			BaseContext: func(net.Listener) context.Context {
				return logr.NewContext(context.Background(), logr.FromContextOrDiscard(ctx))
			},
		},
	}
	return p.add("the server of "+name, server)
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
	return p.addServer(ctx, name, listener, limits.Deadline(requestTime, handler))
}

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

func (p *process) addWebhooks(ctx context.Context, handler http.Handler) error {
	// API servers are the only clients; HTTP/1.1 spreads their requests over replicas.
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, GetCertificate: p.authority.GetCertificate}
	p.options.webhookClients.require(config)
	listener, err := tls.Listen("tcp", p.options.webhookAddress, config)
	if err != nil {
		return fmt.Errorf("cannot serve the webhooks: %w", err)
	}
	return p.addServer(ctx, "webhooks", listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limits.Deadline(bodyTime(r.URL.Path), handler).ServeHTTP(w, r)
	}))
}

// threads is the number of threads that run Go code for each processor, and maxThreads bounds them.
// Several requests compute at the same time, and Go lets a short one wait 10 ms for each of them.
// With more threads than processors, the operating system divides processors among requests, and a
// short request waits for a millisecond. Each thread takes memory, and many processors need no
// help.
const threads, maxThreads = 4, 16

// processors returns the number of processors, and starts the threads unless the environment sets
// their number.
var processors = sync.OnceValue(func() int {
	n := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(n, min(threads*n, maxThreads)))
	}
	return n
})

const (
	// smallTurns and largeTurns are how many bodies are reviewed at the same time for each
	// processor.
	smallTurns, largeTurns = 2, 1
	// launchTurns is how many more VMIs are: each waits for an API server to read its VM.
	launchTurns = 4
	// presetTurns is how many presets are. The memory of each is bounded, and VMs need processors,
	// too.
	presetTurns = 2
)

// turnsOf returns a function that returns the turns of a webhook by its path.
func turnsOf() func(path string) *limits.Turns {
	reviews := limits.NewTurns(smallTurns*processors(), largeTurns*processors())
	launches := limits.NewTurns(launchTurns*smallTurns*processors(), launchTurns*largeTurns*processors())
	presets := limits.NewTurns(presetTurns, presetTurns)
	return func(path string) *limits.Turns {
		switch {
		case strings.HasSuffix(path, "preset"):
			return presets
		case strings.HasSuffix(path, "virtualmachineinstance"):
			return launches
		}
		return reviews
	}
}

func newBudget(size int64) *limits.Budget {
	rejected := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "virtwright_requests_over_budget_total",
		Help: "Requests rejected with 429 or 503 because others used the memory or the processors of a replica for 3 seconds (aggregated API: 10 seconds).",
	})
	metrics.Registry.MustRegister(rejected)
	budget := limits.NewBudget(size)
	budget.Rejected = rejected.Inc
	return budget
}

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

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/certs"
	"github.com/virtwright/virtwright/lifecycle/instancetypes"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/nameconflict"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetrevision"
	"github.com/virtwright/virtwright/lifecycle/presetrollout"
	"github.com/virtwright/virtwright/lifecycle/presetstatus"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/lifecycle/profilecache"
	"github.com/virtwright/virtwright/lifecycle/replicastatus"
	"github.com/virtwright/virtwright/lifecycle/virtualmachine"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/clients"
	"github.com/virtwright/virtwright/webhooks/limits"
)

type process struct {
	options *options
	stop    *shutdown
	config  *rest.Config
	manager ctrl.Manager
	// live reads from API servers, not from the cache.
	live    client.Client
	rest    rest.Interface
	fenced  rest.Interface // used by the leader alone
	user    string
	presets *presetcache.Cache
	// profiles is nil alongside KubeVirt.
	profiles *profilecache.Cache
	// instancetypes are KubeVirt's; nil in standalone mode.
	instancetypes *instancetypes.Reader
	// stored reads complete VMs, page by page.
	stored *presetstatus.VMReader
	names  *nameconflict.Index
	// replicas are the live replicas; nil if there is only this one.
	replicas *replicastatus.Replicas
	// lock is held by the leader; nil without leader election.
	lock      *leadership.Lock
	campaign  atomic.Pointer[leadership.Campaign]
	authority certificates
	budget    *limits.Budget
}

func start(ctx context.Context, o *options, stop *shutdown) error {
	p, err := newProcess(ctx, o, stop)
	if err != nil {
		return err
	}
	checks := map[string]healthz.Checker{
		"shutdown": stop.check,
		"presets":  func(*http.Request) error { return p.presets.Ready() },
	}
	if p.profiles != nil {
		checks["profiles"] = func(*http.Request) error { return p.profiles.Ready() }
	}
	if err := p.observeReplicas(); err != nil {
		return err
	}
	if o.has(roleServing) {
		if err := p.serve(ctx, checks); err != nil {
			return err
		}
	}
	metrics.Registry.MustRegister(buildInfo(p.options.mode))
	if err := p.addProbes(ctx, checks); err != nil {
		return err
	}
	if err := p.add("the watch of presets", onEveryReplica(p.watch)); err != nil {
		return err
	}
	err = p.manager.Start(ctx)
	if campaign := p.campaign.Load(); campaign != nil {
		campaign.End() // before the process ends
	}
	return err
}

func (p *process) add(what string, runnable manager.Runnable) error {
	if err := p.manager.Add(runnable); err != nil {
		return fmt.Errorf("cannot add %s: %w", what, err)
	}
	return nil
}

// onEveryReplica is a runnable that needs no leader election.
type onEveryReplica func(context.Context) error

// Start calls the function.
func (f onEveryReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (onEveryReplica) NeedLeaderElection() bool { return false }

// watch adds everything that watches custom resources, once their CRDs are installed.
func (p *process) watch(ctx context.Context) error {
	if !p.awaitKinds(ctx) {
		return nil // the process stops
	}
	if err := p.add("the preset cache", onEveryReplica(p.presets.Start)); err != nil {
		return err
	}
	if p.profiles != nil {
		if err := p.add("the profile cache", onEveryReplica(p.profiles.Start)); err != nil {
			return err
		}
	}
	if err := p.add("the index of names", onEveryReplica(p.names.Start)); err != nil || !p.options.has(roleControllers) {
		return err
	}
	return p.lead(ctx)
}

// lead waits for the lease, if leader election is enabled, and adds the controllers. If the lease
// is lost, they pause until it is held again, and the replica keeps serving. A replica that drains
// releases the lease immediately.
func (p *process) lead(ctx context.Context) error {
	if p.lock == nil {
		return p.control(ctx)
	}
	campaign, err := p.lock.Campaign(ctx)
	if err != nil {
		return err
	}
	p.campaign.Store(campaign)
	context.AfterFunc(p.stop.draining, campaign.End)
	select {
	case <-p.stop.draining.Done():
		return nil
	case <-campaign.Elected():
		return p.control(ctx)
	}
}

func (p *process) control(ctx context.Context) error {
	writer, recorder, err := p.writers(ctx)
	if err != nil {
		return err
	}
	if err := p.keepPresetStatus(writer, recorder); err != nil {
		return err
	}
	conflicts := &nameconflict.Controller{
		Client: writer, Live: p.live, Index: p.names, Lock: p.lock,
		Conditions: p.options.mode == modeStandalone, Clock: clock.RealClock{},
	}
	conflicts.RegisterMetrics(metrics.Registry)
	if err := conflicts.SetupWithManager(p.manager); err != nil {
		return err
	}
	if err := p.makeTemplates(writer, recorder); err != nil || p.options.mode != modeStandalone {
		return err // alongside KubeVirt, KubeVirt's controllers run VMs
	}
	if err := mayLaunch(p.user, p.options); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "VMs will not start")
	}
	vms := &virtualmachine.Controller{
		Client: writer, Live: p.live, Events: recorder, Lock: p.lock, Excluded: webhooks.ExcludedNamespaces(p.options.namespace),
		Clock: clock.RealClock{},
	}
	virtualmachine.RegisterMetrics(metrics.Registry, p.manager.GetCache(), p.lock.Leads)
	if err := vms.SetupWithManager(p.manager); err != nil {
		return err
	}
	return p.runVMIs(writer, recorder)
}

func (p *process) keepPresetStatus(writer client.Client, recorder events.EventRecorder) error {
	usage := &presetusage.Index{Informers: p.manager.GetCache(), Clock: clock.RealClock{}}
	p.stored.Reapply = p.admission(p.guard()).Reapply
	scan := &presetstatus.Scanner{Presets: p.presets, VMs: p.stored, Lock: p.lock, Clock: clock.RealClock{}, Ready: p.names.Ready}
	metrics.Registry.MustRegister(scan)
	for _, runnable := range []manager.Runnable{usage, scan} {
		if err := p.add("the counts of VMs", runnable); err != nil {
			return err
		}
	}
	status := &presetstatus.Controller{
		Client: writer, Cache: p.presets, Usage: usage, Scan: scan, Events: recorder,
		Lock: p.lock, Replicas: p.replicas, Rules: &p.options.rules, Clock: clock.RealClock{},
	}
	if err := status.SetupWithManager(p.manager); err != nil {
		return err
	}
	revisions := &presetrevision.Controller{Client: writer, Live: p.live, Usage: usage, Lock: p.lock, Namespace: p.options.namespace}
	if err := revisions.SetupWithManager(p.manager); err != nil {
		return err
	}
	rollouts := &presetrollout.Controller{
		Client: writer, REST: p.fenced, Presets: p.presets, Namespaces: p.stored.Namespaces, Excluded: p.stored.Excluded, Events: recorder,
		Lock: p.lock, Clock: clock.RealClock{},
	}
	metrics.Registry.MustRegister(rollouts)
	return rollouts.SetupWithManager(p.manager)
}

// With leader election, only the leader can write with the client and the recorder.
func (p *process) writers(ctx context.Context) (client.Client, events.EventRecorder, error) {
	config := rest.CopyConfig(p.config)
	if p.lock != nil {
		config.Wrap(p.lock.Fence)
	}
	writer, err := client.New(config, client.Options{
		Scheme: p.manager.GetScheme(), Mapper: p.manager.GetRESTMapper(), Cache: &client.CacheOptions{Reader: p.manager.GetCache()},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a client: %w", err)
	}
	p.fenced = typed.Discovery().RESTClient()
	recorder, err := p.newRecorder(ctx, config)
	return writer, recorder, err
}

func (p *process) newRecorder(ctx context.Context, config *rest.Config) (events.EventRecorder, error) {
	sink, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: sink.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("cannot write events: %w", err)
	}
	return broadcaster.NewRecorder(p.manager.GetScheme(), "virtwright"), nil
}

// awaitKinds waits until the API server serves every watched kind: the manager may start before its
// CRDs are installed. It returns false if the context ends first.
func (p *process) awaitKinds(ctx context.Context) bool {
	const note = "Waiting for a kind that the API server does not serve yet; are the CRDs installed?"
	kinds := p.presets.Kinds()
	if p.profiles != nil {
		maps.Copy(kinds, p.profiles.Kinds())
	}
	kinds["VirtualMachine"], kinds["VirtualMachineInstance"] = &partialobject.VirtualMachine{}, &partialobject.VirtualMachineInstance{}
	for kind, object := range kinds {
		if !p.awaitKind(ctx, object, 250*time.Millisecond, note, kind) {
			return false
		}
	}
	return true
}

// awaitKind returns false if the context ends before the API server serves the kind.
func (p *process) awaitKind(ctx context.Context, object client.Object, every time.Duration, note, kind string) bool {
	logged := false
	return wait.Backoff{Duration: every}.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := p.served(object)
		if err != nil && !logged {
			logr.FromContextOrDiscard(ctx).Info(note, "kind", kind, "reason", err.Error())
			logged = true
		}
		return err == nil, nil
	}) == nil
}

func (p *process) served(object client.Object) error {
	gvk, err := p.live.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	_, err = p.live.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	return err
}

func newProcess(ctx context.Context, o *options, stop *shutdown) (*process, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot find the cluster: %w", err)
	}
	config = rest.AddUserAgent(config, "virtwright-manager")
	config.QPS = -1                                      // API servers limit requests themselves
	config.WarningHandlerWithContext = rest.NoWarnings{} // deprecated kinds are watched on purpose
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, sspv1alpha1.AddToScheme, partialobject.AddToScheme, presetcache.AddToScheme, certs.AddCertManager} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("cannot make a scheme: %w", err)
		}
	}
	p := &process{options: o, stop: stop, config: config, budget: newBudget(o.requestMemory)}
	if p.live, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	if o.leaderElect && o.has(roleControllers) {
		if p.lock, err = leadership.NewLock(config, types.NamespacedName{Namespace: o.namespace, Name: "virtwright-controllers"}); err != nil {
			return nil, err
		}
	}
	p.authority = p.newAuthority()
	err = await(ctx, func() (err error) {
		p.user, err = whoami(ctx, p.live)
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.manager, err = ctrl.NewManager(config, p.managerOptions(ctx, scheme)); err != nil {
		return nil, fmt.Errorf("cannot make a manager: %w", err)
	}
	p.presets = &presetcache.Cache{
		Informers: p.manager.GetCache(), Legacy: o.mode == modeStandalone, Clock: clock.RealClock{}, Revision: presetrevision.OfCluster(p.live, o.namespace),
	}
	p.presets.RegisterMetrics(metrics.Registry)
	if o.mode == modeStandalone {
		p.profiles = &profilecache.Cache{Informers: p.manager.GetCache()}
		p.profiles.RegisterMetrics(metrics.Registry)
	}
	if o.mode == modeAddon {
		p.instancetypes = &instancetypes.Reader{Cache: p.manager.GetCache(), Live: p.live}
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	p.rest = typed.Discovery().RESTClient()
	p.stored = &presetstatus.VMReader{
		Client: p.rest, Engine: o.engine(), Excluded: webhooks.ExcludedNamespaces(o.namespace),
		Namespaces: &clients.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live},
	}
	p.names = &nameconflict.Index{Cache: p.manager.GetCache(), Live: p.live}
	return p, nil
}

func trim(object any) (any, error) {
	object, err := cache.TransformStripManagedFields()(object)
	if err != nil {
		return nil, err
	}
	return partialobject.Trim(object)
}

func (p *process) managerOptions(ctx context.Context, scheme *runtime.Scheme) ctrl.Options {
	o := p.options
	onlyOwn := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", webhooks.ConfigurationName)}
	return ctrl.Options{
		Scheme: scheme, Logger: logr.FromContextOrDiscard(ctx),
		BaseContext: func() context.Context { return logr.NewContext(context.Background(), logr.FromContextOrDiscard(ctx)) },
		Cache: cache.Options{
			// ByObject would require that the kinds are served when the manager starts.
			DefaultTransform: trim,
			ByObject: map[client.Object]cache.ByObject{
				// Read for every admission request, and never changed.
				clients.NamespaceMetadata():                               {UnsafeDisableDeepCopy: new(true)},
				&admissionregistrationv1.MutatingWebhookConfiguration{}:   onlyOwn,
				&admissionregistrationv1.ValidatingWebhookConfiguration{}: onlyOwn,
				&apiextensionsv1.CustomResourceDefinition{}:               {Field: fields.OneTermEqualSelector("metadata.name", webhooks.ConvertedCRD)},
				&corev1.Pod{}:           {Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelPod: v1alpha1.LabelPodValue})},
				&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{o.namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{replicastatus.Label: ""})}}},
			},
		},
		// servers.go adds these servers.
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: new(30 * time.Second),
	}
}

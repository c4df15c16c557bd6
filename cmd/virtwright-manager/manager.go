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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
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
	"github.com/virtwright/virtwright/lifecycle/exceptionstatus"
	"github.com/virtwright/virtwright/lifecycle/instancetypes"
	"github.com/virtwright/virtwright/lifecycle/leadership"
	"github.com/virtwright/virtwright/lifecycle/machine"
	"github.com/virtwright/virtwright/lifecycle/nameconflict"
	"github.com/virtwright/virtwright/lifecycle/nameindex"
	"github.com/virtwright/virtwright/lifecycle/presetcache"
	"github.com/virtwright/virtwright/lifecycle/presetscan"
	"github.com/virtwright/virtwright/lifecycle/presetstatus"
	"github.com/virtwright/virtwright/lifecycle/presetusage"
	"github.com/virtwright/virtwright/lifecycle/profilecache"
	"github.com/virtwright/virtwright/lifecycle/replicastatus"
	"github.com/virtwright/virtwright/lifecycle/virtualmachine"
	"github.com/virtwright/virtwright/webhooks"
	"github.com/virtwright/virtwright/webhooks/limits"
)

// A process is what the roles are wired into.
type process struct {
	options *options
	stop    *shutdown
	config  *rest.Config
	manager ctrl.Manager
	// live reads from API servers, not from the cache.
	live client.Client
	// user is who the manager is to API servers.
	user string
	// presets that are in use.
	presets *presetcache.Cache
	// profiles that are in use; nil where nothing is rendered.
	profiles *profilecache.Cache
	// instancetypes of KubeVirt; nil in standalone mode.
	instancetypes *instancetypes.Reader
	// stored reads whole VMs, page by page.
	stored *presetscan.Reader
	// names of machines that there are.
	names *nameindex.Index
	// replicas that are live; nil if there is this one only.
	replicas *replicastatus.Replicas
	// lock is held by the leader; nil where there is no election.
	lock *leadership.Lock
	// campaign is this process's for the lease.
	campaign atomic.Pointer[leadership.Campaign]
	// authority has the certificate that is served.
	authority certificates
	// budget is the memory that requests share.
	budget *limits.Budget
}

// start runs the manager until ctx ends.
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
	if err := p.addProbes(ctx, checks); err != nil {
		return err
	}
	if err := p.manager.Add(onEveryReplica(p.watch)); err != nil {
		return fmt.Errorf("cannot add the watching of presets: %w", err)
	}
	return p.run(ctx)
}

// run runs everything until ctx ends.
func (p *process) run(ctx context.Context) error {
	err := p.manager.Start(ctx)
	if campaign := p.campaign.Load(); campaign != nil {
		campaign.End() // before the process ends
	}
	return err
}

// onEveryReplica is a runnable that needs no leader election.
type onEveryReplica func(context.Context) error

// Start calls the function.
func (f onEveryReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (onEveryReplica) NeedLeaderElection() bool { return false }

// watch adds everything that watches presets, once there is something to watch.
func (p *process) watch(ctx context.Context) error {
	if !p.awaitKinds(ctx) {
		return nil // told to stop before there was anything to do
	}
	if err := p.manager.Add(p.presets); err != nil {
		return fmt.Errorf("cannot add the preset cache: %w", err)
	}
	if p.profiles != nil {
		if err := p.manager.Add(p.profiles); err != nil {
			return fmt.Errorf("cannot add the profile cache: %w", err)
		}
	}
	if err := p.manager.Add(p.names); err != nil {
		return fmt.Errorf("cannot add the index of names: %w", err)
	}
	if !p.options.has(roleControllers) {
		return nil
	}
	return p.lead(ctx)
}

// lead waits for the lease, if there is an election, and adds the controllers. They stay when the
// lease is lost, and wait until it is held again: the replica keeps serving. A replica that drains
// gives the lease back at once.
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

// control adds the controllers, which the manager then runs.
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
		Conditions: p.options.mode == modeStandalone, Metrics: nameconflict.NewMetrics(metrics.Registry, p.lock.Leads),
	}
	if err := conflicts.SetupWithManager(p.manager); err != nil {
		return err
	}
	if err := p.makeTemplates(writer, recorder); err != nil || p.options.mode != modeStandalone {
		return err // alongside KubeVirt its controller keeps running state
	}
	if err := mayLaunch(p.user, p.options); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Machines will not start")
	}
	machines := &virtualmachine.Controller{
		Client: writer, Live: p.live, Events: recorder, Lock: p.lock, Excluded: webhooks.ExcludedNamespaces(p.options.namespace),
	}
	virtualmachine.RegisterMetrics(metrics.Registry, p.manager.GetCache(), p.lock.Leads)
	return machines.SetupWithManager(p.manager)
}

// keepPresetStatus adds the status of presets and exceptions, and what counts for it.
func (p *process) keepPresetStatus(writer client.Client, recorder events.EventRecorder) error {
	usage := &presetusage.Index{Informers: p.manager.GetCache()}
	scan := &presetscan.Scanner{Presets: p.presets, VMs: p.stored, Lock: p.lock}
	for _, runnable := range []manager.Runnable{usage, scan} {
		if err := p.manager.Add(runnable); err != nil {
			return fmt.Errorf("cannot add the counts of VMs: %w", err)
		}
	}
	status := &presetstatus.Controller{
		Client: writer, Cache: p.presets, Usage: usage, Scan: scan, Events: recorder,
		Lock: p.lock, Replicas: p.replicas, Rules: &p.options.rules,
	}
	if err := status.SetupWithManager(p.manager); err != nil {
		return err
	}
	exceptions := &exceptionstatus.Controller{Client: writer, Usage: usage, Events: recorder, Lock: p.lock}
	return exceptions.SetupWithManager(p.manager)
}

// writers are what controllers write with: fenced, where there is an election.
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
	recorder, err := p.newRecorder(ctx, config)
	return writer, recorder, err
}

// newRecorder writes events as the user of a config until the context ends.
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

// awaitKinds waits until the API server serves every kind that is watched: who
// installs virtwright may start it a moment before its CRDs are there. It
// reports whether they came before the context ended.
func (p *process) awaitKinds(ctx context.Context) bool {
	const note = "Waiting for a kind that the API server does not serve yet; are the CRDs installed?"
	kinds := p.presets.Kinds()
	if p.profiles != nil {
		maps.Copy(kinds, p.profiles.Kinds())
	}
	kinds["VirtualMachine"], kinds["VirtualMachineInstance"] = &machine.VirtualMachine{}, &machine.Instance{}
	for kind, object := range kinds {
		if !p.awaitKind(ctx, object, 250*time.Millisecond, note, kind) {
			return false
		}
	}
	return true
}

// awaitKind waits until the API server serves one kind, which it looks for every
// so often, and says so once. It reports whether that came before the context ended.
func (p *process) awaitKind(ctx context.Context, object client.Object, every time.Duration, note, kind string) bool {
	for told := false; ; told = true {
		err := p.served(object)
		if err == nil {
			return true
		}
		if !told {
			logr.FromContextOrDiscard(ctx).Info(note, "kind", kind, "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(every):
		}
	}
}

// served is nil when the API server serves the kind of an object.
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
	config.QPS = -1                                      // API servers say how much is too much
	config.WarningHandlerWithContext = rest.NoWarnings{} // of old kinds, which we watch on purpose
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, sspv1alpha1.AddToScheme, machine.AddToScheme, presetcache.AddToScheme, certs.AddCertManager} {
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
		Informers: p.manager.GetCache(), Legacy: o.mode == modeStandalone, Metrics: presetcache.NewMetrics(metrics.Registry),
	}
	if o.mode == modeStandalone && o.has(roleServing) {
		p.profiles = &profilecache.Cache{Informers: p.manager.GetCache(), Metrics: profilecache.NewMetrics(metrics.Registry)}
	}
	if o.mode == modeAddon && o.has(roleServing) {
		p.instancetypes = &instancetypes.Reader{Cache: p.manager.GetCache(), Live: p.live}
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	p.stored = &presetscan.Reader{
		Client: clients.Discovery().RESTClient(), Engine: o.engine(), Excluded: webhooks.ExcludedNamespaces(o.namespace),
		Namespaces: &webhooks.CachedNamespaces{Cache: p.manager.GetCache(), Live: p.live},
	}
	p.names = &nameindex.Index{Cache: p.manager.GetCache(), Live: p.live}
	return p, nil
}

// trim takes from what is cached what nobody reads.
func trim(object any) (any, error) {
	object, err := cache.TransformStripManagedFields()(object)
	if err != nil {
		return nil, err
	}
	return machine.Trim(object)
}

func (p *process) managerOptions(ctx context.Context, scheme *runtime.Scheme) ctrl.Options {
	o := p.options
	ours := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", webhooks.ConfigurationName)}
	out := ctrl.Options{
		Scheme: scheme, Logger: logr.FromContextOrDiscard(ctx),
		BaseContext: func() context.Context { return logr.NewContext(context.Background(), logr.FromContextOrDiscard(ctx)) },
		Cache: cache.Options{
			// Not by object: its kind need not be there when the manager starts.
			DefaultTransform: trim,
			ByObject: map[client.Object]cache.ByObject{
				// Read at every admission, and never changed by readers.
				webhooks.NamespaceMetadata():                              {UnsafeDisableDeepCopy: new(true)},
				&admissionregistrationv1.MutatingWebhookConfiguration{}:   ours,
				&admissionregistrationv1.ValidatingWebhookConfiguration{}: ours,
				&apiextensionsv1.CustomResourceDefinition{}:               {Field: fields.OneTermEqualSelector("metadata.name", webhooks.ConvertedCRD)},
				&coordinationv1.Lease{}:                                   {Namespaces: map[string]cache.Config{o.namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{replicastatus.Label: ""})}}},
			},
		},
		// See servers.go.
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: new(30 * time.Second),
	}
	return out
}

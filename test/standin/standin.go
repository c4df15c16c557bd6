// Package standin plays scheduler and kubelet for the pods of VMIs, for tests and development: it
// takes these pods through their lives without running anything, through the API only.
//
// The loop, for one pod: read it, how its guest behaves and since when it is where it is; decide
// the one next step (a pure function); apply it. A step is a binding to the node, a phase, or the
// removal of a pod that has ended. All state is in the API, so a stand-in that restarts goes on
// where it was.
package standin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/launcher/podspec"
)

// DefaultNode is the name of the node unless told otherwise.
const DefaultNode = "standin"

// Options say what node to play. The zero value is one on which everything takes no time.
type Options struct {
	// Node is the name in spec.nodeName of pods; empty means DefaultNode.
	Node string
	// Namespace limits it to the pods of one; empty means all.
	Namespace string
	// Delays are how long things take.
	Delays Delays
	// GraceSecond is how long a second of a guest's grace period lasts; 0 means a second. Only
	// guests that hang, or take long, need their grace.
	GraceSecond time.Duration
	// Workers is how many pods are looked after in parallel; 0 means 10.
	Workers int
	// NoGuest is the annotation of pods that says why no guest can be reached; empty for none.
	NoGuest string
	// Log gets a line for every step; the zero value discards them.
	Log logr.Logger
}

// Delays are how long things take.
type Delays struct {
	// Scheduling is how long a pod has no node, Scheduled how long it then takes to start its
	// guest.
	Scheduling, Scheduled time.Duration
	// Life is how long a guest runs whose behavior is to crash or to shut down.
	Life time.Duration
	// Shutdown is how long a guest takes to shut down when it is asked to.
	Shutdown time.Duration
}

// A Runtime is one that is there.
type Runtime struct {
	options Options
	client  client.Client
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // of the manager, once ended

	wake chan event.TypedGenericEvent[client.Object]

	mu    sync.Mutex
	told  map[types.NamespacedName]Behaviour
	since map[types.NamespacedName]stage
}

// Start returns a runtime that sees every instance. It is there until Stop, or the context, ends
// it.
func Start(ctx context.Context, config *rest.Config, options Options) (*Runtime, error) {
	options.complete()
	ctx, stop := context.WithCancel(ctx)
	r := &Runtime{
		options: options, stop: stop, ended: make(chan struct{}),
		wake: make(chan event.TypedGenericEvent[client.Object]),
		told: map[types.NamespacedName]Behaviour{}, since: map[types.NamespacedName]stage{},
	}
	mgr, err := r.manager(ctx, config)
	if err != nil {
		stop()
		return nil, fmt.Errorf("cannot start the stand-in runtime: %w", err)
	}
	go func() {
		defer close(r.ended)
		r.err = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("cannot start the stand-in runtime: %w", cmp.Or(r.Stop(), ctx.Err()))
	}
	return r, nil
}

// ForTest starts a runtime that ends with the test.
func ForTest(t testing.TB, config *rest.Config, options Options) *Runtime {
	t.Helper()
	r, err := Start(t.Context(), config, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (o *Options) complete() {
	if o.Node == "" {
		o.Node = DefaultNode
	}
	if o.GraceSecond == 0 {
		o.GraceSecond = time.Second
	}
	if o.Workers == 0 {
		o.Workers = 10
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.FromSlogHandler(slog.DiscardHandler) // logr.Discard means controller-runtime's own
	}
}

// manager is one that runs r and nothing else.
func (r *Runtime) manager(ctx context.Context, config *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "virtwright-standin")
	options := ctrl.Options{
		Scheme: scheme, Logger: r.options.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform:     cache.TransformStripManagedFields(),
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelPod: v1alpha1.LabelPodValue}),
		},
		GracefulShutdownTimeout: new(-time.Second), // as long as the writes under way take
	}
	if r.options.Namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{r.options.Namespace: {}}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	r.client = mgr.GetClient()
	// Says at once what a cache would try for minutes.
	var one corev1.PodList
	if err := mgr.GetAPIReader().List(ctx, &one, client.InNamespace(r.options.Namespace), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("cannot list pods: %w", err)
	}
	// Known before the cache starts, so that its start waits for it.
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, err
	}
	return mgr, ctrl.NewControllerManagedBy(mgr).Named("standin").
		For(&corev1.Pod{}).
		WatchesRawSource(source.Channel(r.wake, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.Workers, SkipNameValidation: new(true)}).
		Complete(r)
}

// Stop makes the runtime not be there any more: pods stay as they are. It returns when the last
// write is done, and may be called more than once.
func (r *Runtime) Stop() error {
	r.stop()
	return r.Wait()
}

// Wait returns when the runtime is not there any more, with the reason unless it was asked to end.
func (r *Runtime) Wait() error {
	<-r.ended
	return r.err
}

// Tell says how the guests of the VMIs of a name behave from now on, those to come included. It
// goes before the annotation; an empty behaviour gives way to that again.
func (r *Runtime) Tell(namespace, name string, b Behaviour) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = namespace, podspec.Name(name)
	key := client.ObjectKeyFromObject(pod)
	r.mu.Lock()
	if r.told[key] = b; b == "" {
		delete(r.told, key)
	}
	r.mu.Unlock()
	select {
	case r.wake <- event.TypedGenericEvent[client.Object]{Object: pod}:
	case <-r.ended:
	}
}

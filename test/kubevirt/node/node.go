package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// namespace is that of KubeVirt.
const namespace = "kubevirt"

// Names of the nodes.
const (
	first  = "node01"
	second = "node02"
)

// names are all nodes.
var names = []string{first, second}

// hotplugPod is the value of label kubevirt.io of the pods that attach volumes.
const (
	launcherPod = "virt-launcher"
	hotplugPod  = "hotplug-disk"
)

// Options are what the nodes need.
type Options struct {
	// Address and Port are where virt-api finds virt-handler, and Certificate what it serves.
	Address     string
	Port        int
	Certificate tls.Certificate
	// Log gets a line for every write; the zero value discards them.
	Log logr.Logger
}

// Nodes are those of a cluster.
type Nodes struct {
	options Options
	client  client.Client
	// reader reads past the cache.
	reader client.Reader
	// handlers are the clients of virt-handler, by node.
	handlers map[string]client.Client

	stop  context.CancelFunc
	ended chan struct{}
	err   error // of the manager, once ended
}

// Start returns nodes that work until Stop. The configuration is an administrator's.
func Start(ctx context.Context, config *rest.Config, options Options) (*Nodes, error) {
	if options.Log.GetSink() == nil {
		options.Log = logr.FromSlogHandler(slog.DiscardHandler) // logr.Discard means controller-runtime's own
	}
	ctx, stop := context.WithCancel(ctx)
	n := &Nodes{options: options, handlers: map[string]client.Client{}, stop: stop, ended: make(chan struct{})}
	mgr, err := n.manager(config)
	if err == nil {
		err = n.register(ctx)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("cannot start the simulated nodes: %w", err)
	}
	go func() {
		defer close(n.ended)
		n.err = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("cannot start the simulated nodes: %w", cmp.Or(n.Stop(), ctx.Err()))
	}
	return n, nil
}

// Stop ends the work of the nodes: pods and VMIs stay as they are. It returns when the last write
// is done.
func (n *Nodes) Stop() error {
	n.stop()
	<-n.ended
	return n.err
}

// manager is one with all loops and the server.
func (n *Nodes) manager(config *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kubevirtv1.AddToScheme, cdiv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	ours, err := labels.NewRequirement(kubevirtv1.AppLabel, selection.In, []string{launcherPod, hotplugPod})
	if err != nil {
		return nil, err
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "simulated-node")
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: n.options.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: labels.NewSelector().Add(*ours)},
		}},
		GracefulShutdownTimeout: new(-time.Second), // as long as the writes under way take
	})
	if err != nil {
		return nil, err
	}
	n.client, n.reader = mgr.GetClient(), mgr.GetAPIReader()
	for _, name := range names {
		if n.handlers[name], err = client.New(asHandler(config, name), client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()}); err != nil {
			return nil, err
		}
	}
	if err := n.loops(mgr); err != nil {
		return nil, err
	}
	for _, add := range []manager.RunnableFunc{n.heartbeat, n.serve} {
		if err := mgr.Add(add); err != nil {
			return nil, err
		}
	}
	return mgr, nil
}

// asHandler is the identity of virt-handler on a node. Its token is bound to its pod, and names the
// node: virt-api allows writes of VMIs on that node only.
func asHandler(config *rest.Config, node string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":kubevirt-handler",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	return config
}

// loops adds a controller for each kind of object.
func (n *Nodes) loops(mgr ctrl.Manager) error {
	vmiOfMigration := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		key := client.ObjectKey{Namespace: o.GetNamespace(), Name: o.(*kubevirtv1.VirtualMachineInstanceMigration).Spec.VMIName}
		return []reconcile.Request{{NamespacedName: key}}
	})
	of := func(name string) *ctrl.Builder {
		return ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: new(true)})
	}
	for _, b := range []struct {
		builder *ctrl.Builder
		do      reconcile.Func
	}{
		{of("pods").For(&corev1.Pod{}), n.reconcilePod},
		{of("instances").For(&kubevirtv1.VirtualMachineInstance{}).Owns(&corev1.Pod{}).Watches(&kubevirtv1.VirtualMachineInstanceMigration{}, vmiOfMigration), n.reconcileInstance},
		{of("claims").For(&corev1.PersistentVolumeClaim{}), n.reconcileClaim},
		{of("datavolumes").For(&cdiv1.DataVolume{}).Owns(&corev1.PersistentVolumeClaim{}), n.reconcileDataVolume},
		{of("snapshots").For(snapshot()), n.reconcileSnapshot},
	} {
		if err := b.builder.Complete(retried(b.do)); err != nil {
			return err
		}
	}
	return nil
}

// retried makes a conflict, which is the rule where a cache lags, a retry and not an error.
func retried(do reconcile.Func) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		result, err := do(ctx, req)
		switch {
		case apierrors.IsNotFound(err):
			return reconcile.Result{}, nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			return reconcile.Result{RequeueAfter: 20 * time.Millisecond}, nil
		}
		return result, err
	}
}

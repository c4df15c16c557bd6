package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node"
	"github.com/virtwright/virtwright/lifecycle/node/files"
	"github.com/virtwright/virtwright/lifecycle/node/host"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

// start runs the agent until ctx ends.
func start(ctx context.Context, o *options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("cannot find the cluster: %w", err)
	}
	config = rest.AddUserAgent(config, "virtwright-node")
	config.QPS = -1 // API servers say how much is too much
	manager, err := newManager(ctx, o, config)
	if err != nil {
		return err
	}
	recorder, err := newRecorder(ctx, config, manager.GetScheme())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.stateDir, 0o711); err != nil {
		return fmt.Errorf("cannot make the agent's folder: %w", err)
	}
	connection := &libvirtd.Connection{Socket: o.libvirtSocket, URI: o.libvirtURI}
	store := &files.Store{
		State: o.stateDir, Volumes: o.volumesDir, Images: o.imagesDir, HostDisks: o.hostDiskDirs,
		Content: (&content{manager.GetAPIReader(), manager.GetClient()}).read,
	}
	agent := &node.Controller{
		Node: o.node, Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: recorder,
		Libvirt: connection, Files: store, Defaults: node.Folders(store),
		Look: func(ctx context.Context) (*domain.HostFacts, error) { return o.look(ctx, connection) },
	}
	if err := agent.SetupWithManager(manager); err != nil {
		return err
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("cannot add a health check: %w", err)
	}
	if err := manager.AddReadyzCheck("host", func(*http.Request) error { return agent.Ready() }); err != nil {
		return fmt.Errorf("cannot add a readiness check: %w", err)
	}
	return manager.Start(ctx)
}

func newManager(ctx context.Context, o *options, config *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kubevirtv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("cannot make a scheme: %w", err)
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logr.FromContextOrDiscard(ctx),
		BaseContext: func() context.Context { return logr.NewContext(context.Background(), logr.FromContextOrDiscard(ctx)) },
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&kubevirtv1.VirtualMachineInstance{}: {Transform: others(o.node)},
				&corev1.Node{}:                       {Field: fields.OneTermEqualSelector("metadata.name", o.node)},
			},
		},
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:  o.healthAddress,
		GracefulShutdownTimeout: new(30 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a manager: %w", err)
	}
	return manager, nil
}

// others takes from instances of other nodes, before they are cached, all but
// what they are called and whose they are.
func others(own string) func(any) (any, error) {
	return func(object any) (any, error) {
		vmi, ok := object.(*kubevirtv1.VirtualMachineInstance)
		if !ok {
			return object, nil
		}
		vmi.ManagedFields = nil
		if vmi.Status.NodeName == "" || vmi.Status.NodeName == own {
			return vmi, nil
		}
		return &kubevirtv1.VirtualMachineInstance{
			TypeMeta: vmi.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{
				Namespace: vmi.Namespace, Name: vmi.Name, UID: vmi.UID, ResourceVersion: vmi.ResourceVersion, DeletionTimestamp: vmi.DeletionTimestamp,
			},
			Status: kubevirtv1.VirtualMachineInstanceStatus{NodeName: vmi.Status.NodeName, Phase: vmi.Status.Phase},
		}, nil
	}
}

func newRecorder(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (events.EventRecorder, error) {
	sink, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: sink.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("cannot write events: %w", err)
	}
	return broadcaster.NewRecorder(scheme, "virtwright-node"), nil
}

// look says what the host can do, and tries hardware virtualization where
// nobody has said whether there is any.
func (o *options) look(ctx context.Context, connection *libvirtd.Connection) (*domain.HostFacts, error) {
	caps, err := connection.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	firmware, err := host.Firmware("/", host.FirmwareFolders)
	if err != nil {
		return nil, fmt.Errorf("cannot look for UEFI builds: %w", err)
	}
	facts := host.Facts(caps, firmware)
	if o.kvm != kvmAuto {
		facts.KVM = o.kvm == kvmTrue
		return facts, nil
	}
	facts.KVM, err = host.Virtualizes(ctx, connection, facts.Architecture, facts.Emulators[facts.Architecture], o.stateDir)
	return facts, err
}

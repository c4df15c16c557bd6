package faults

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/launcher/podspec"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/virtualmachineinstance"
	"github.com/virtwright/virtwright/presets"
)

// none has no profiles, and no labels of namespaces.
type none struct{}

func (none) Snapshot() *domain.Profiles { return &domain.Profiles{} }

func (none) Get(context.Context, string) (presets.Namespace, error) { return presets.Namespace{}, nil }

// runVMIs runs the controller of VMIs, which meets no faults here: the stand-in runs their pods.
func (s *stage) runVMIs(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{partialobject.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(s.config(), ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:      cache.Options{DefaultTransform: partialobject.Trim},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(s.config(), client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	controller := &virtualmachineinstance.Controller{
		Client: mgr.GetClient(), Live: live, Profiles: none{}, Namespaces: none{},
		Pods: podspec.Settings{Image: "none", KVMResource: "example.com/kvm"}, Clock: clock.RealClock{},
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

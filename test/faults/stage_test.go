package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/subresources"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/standin"
)

var (
	machines  = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	instances = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
)

// patience is how long anything may take on a machine that is busy.
const patience = time.Minute

// A stage is a real control plane with a node that a stand-in plays, and the subresource API where
// clients look for it.
type stage struct {
	*controlplane.ControlPlane

	client dynamic.Interface
	// verbs is what the subresource API sends its calls through.
	verbs switchboard

	mu sync.Mutex
	// made are the UIDs of all instances there ever were.
	made map[types.NamespacedName]map[types.UID]bool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{ControlPlane: controlplane.ForTest(t, controlplane.Options{}), made: map[types.NamespacedName]map[types.UID]bool{}}
	if err := s.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	config := s.config()
	s.client = dynamic.NewForConfigOrDie(config)
	standin.ForTest(t, config, standin.Options{GraceSecond: 10 * time.Millisecond})
	s.runVMIs(t)
	s.count(t)
	s.aggregate(t)
	return s
}

func (s *stage) config() *rest.Config {
	config := s.Config()
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// count remembers every instance there is from now on.
func (s *stage) count(t *testing.T) {
	t.Helper()
	watcher, err := s.client.Resource(instances).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			of, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			key := types.NamespacedName{Namespace: of.GetNamespace(), Name: of.GetName()}
			s.mu.Lock()
			if s.made[key] == nil {
				s.made[key] = map[types.UID]bool{}
			}
			s.made[key][of.GetUID()] = true
			s.mu.Unlock()
		}
	}()
}

// ever is how many instances of a name there have been.
func (s *stage) ever(key types.NamespacedName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.made[key])
}

// aggregate serves the subresource API through the API server.
func (s *stage) aggregate(t *testing.T) {
	t.Helper()
	config := s.config()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		s.verbs.inner = inner
		return &s.verbs
	})
	address := controlplane.FreeAddress(t)
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(certified.Close)
	server, err := subresources.New(subresources.Options{
		Config: config, Address: address, Version: version.Info{GitVersion: "v0.0.0"},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certified.TLS.Certificates[0], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	_, port, _ := strings.Cut(address, ":")
	s.kubectl(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: virtwright-system}}
---
{apiVersion: v1, kind: Service, metadata: {name: virtwright-subresources, namespace: virtwright-system}, spec: {type: ExternalName, externalName: localhost}}
`, "apply", "-f", "-")
	manifest, err := os.ReadFile("../../charts/virtwright/files/apiservices/v1.subresources.kubevirt.io.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.kubectl(t, strings.Replace(string(manifest), "port: 443", "port: "+port+"\n  insecureSkipTLSVerify: true", 1), "apply", "-f", "-")
	s.kubectl(t, "", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
}

func (s *stage) kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if _, stderr, err := s.Kubectl(t.Context(), stdin, args...); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr)
	}
}

// awaitCollector waits until the garbage collector knows of instances.
func (s *stage) awaitCollector(t *testing.T) {
	t.Helper()
	probe := manifest("VirtualMachineInstance", "probe", map[string]any{"domain": map[string]any{"devices": map[string]any{}}})
	probe.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "none", UID: "5a0e3b4c-0000-4000-8000-00000000dead"}})
	of := s.client.Resource(instances).Namespace("default")
	if _, err := of.Create(t.Context(), probe, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, saying("the garbage collector collects"), func() error {
		if _, err := of.Get(t.Context(), "probe", metav1.GetOptions{}); err != nil {
			return nil //nolint:nilerr // it is gone
		}
		return fmt.Errorf("the probe is still there")
	})
}

func manifest(kind, name string, spec map[string]any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": kind, "spec": spec}}
	out.SetName(name)
	return out
}

// eventually asks until there is no error any more.
func eventually(t *testing.T, what func() string, ask func() error) {
	t.Helper()
	within(t, patience, what, ask)
}

// soon is for what an event brings about, and not the next look in passing.
func soon(t *testing.T, what string, ask func() error) {
	t.Helper()
	within(t, 10*time.Second, saying(what), ask)
}

func within(t *testing.T, limit time.Duration, what func() string, ask func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what(), err)
}

func saying(what string) func() string { return func() string { return what } }

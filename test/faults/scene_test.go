package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/lifecycle/virtualmachine"
)

// A scene has a namespace and a controller of its own.
type scene struct {
	*testing.T

	stage      *stage
	namespace  string
	controller *saboteur
	stop       context.CancelFunc
	// name is the machine that the scene is about now.
	name string
	// promised is the verb that was accepted last.
	promised string
}

func (s *stage) scene(t *testing.T, namespace string) *scene {
	t.Helper()
	s.kubectl(t, "", "create", "namespace", namespace)
	out := &scene{T: t, stage: s, namespace: namespace}
	out.run()
	t.Cleanup(func() { out.stop() })
	return out
}

// run starts a controller that knows nothing, as a new process does.
func (s *scene) run() {
	s.Helper()
	config := s.stage.config()
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		if s.controller == nil || s.controller.isDead() {
			s.controller = newSaboteur(inner)
		}
		return s.controller
	})
	var ctx context.Context
	ctx, s.stop = context.WithCancel(s.Context())
	mgr := s.manager(ctx, config)
	go func() {
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			s.Errorf("the controller ended: %v", err)
		}
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		s.Fatal("the caches never synced")
	}
}

func (s *scene) manager(ctx context.Context, to *rest.Config) ctrl.Manager {
	s.Helper()
	scheme := runtime.NewScheme()
	if err := partialobject.AddToScheme(scheme); err != nil {
		s.Fatal(err)
	}
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:                   cache.Options{DefaultTransform: partialobject.Trim, DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		Controller:              config.Controller{SkipNameValidation: new(true)},
		GracefulShutdownTimeout: new(time.Duration(0)),
	})
	if err != nil {
		s.Fatal(err)
	}
	live, err := client.New(to, client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper()})
	if err != nil {
		s.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(to)
	if err != nil {
		s.Fatal(err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		s.Fatal(err)
	}
	controller := &virtualmachine.Controller{Client: mgr.GetClient(), Live: live, Events: broadcaster.NewRecorder(scheme, "virtwright"), Clock: clock.RealClock{}}
	if err := controller.SetupWithManager(mgr); err != nil {
		s.Fatal(err)
	}
	return mgr
}

// revive starts a killed manager again.
func (s *scene) revive() {
	s.Helper()
	if s.controller.isDead() {
		s.stop()
		s.run()
	}
}

func (s *scene) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: s.name}
}

func (s *scene) machines() dynamic.ResourceInterface {
	return s.stage.client.Resource(machines).Namespace(s.namespace)
}

func (s *scene) instances() dynamic.ResourceInterface {
	return s.stage.client.Resource(instances).Namespace(s.namespace)
}

// create makes the machine with a run strategy.
func (s *scene) create(strategy string) {
	s.Helper()
	vm := manifest("VirtualMachine", s.name, map[string]any{
		"runStrategy": strategy,
		"template":    map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}, "memory": map[string]any{"guest": "64Mi"}}}},
	})
	if _, err := s.machines().Create(s.Context(), vm, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// instance is that of the machine; nil for none.
func (s *scene) instance() *unstructured.Unstructured { return s.find(s.instances()) }

// isThere returns an error if there is no instance.
func (s *scene) isThere() error {
	s.Helper()
	if s.instance() == nil {
		return errors.New("there is no instance")
	}
	return nil
}

// isGone returns an error if there is an instance.
func (s *scene) isGone() error {
	s.Helper()
	if s.instance() != nil {
		return errors.New("there is an instance")
	}
	return nil
}

// machine is nil when it is gone.
func (s *scene) machine() *unstructured.Unstructured { return s.find(s.machines()) }

func (s *scene) find(in dynamic.ResourceInterface) *unstructured.Unstructured {
	s.Helper()
	out, err := in.Get(s.Context(), s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		s.Fatal(err)
	}
	return out
}

// is reports why the machine has not the printable status, or has requests left.
func (s *scene) is(status string) error {
	s.Helper()
	vm := s.machine()
	if vm == nil {
		return errors.New("there is no machine")
	}
	now, _, _ := unstructured.NestedString(vm.Object, "status", "printableStatus")
	requests, _, _ := unstructured.NestedSlice(vm.Object, "status", "stateChangeRequests")
	if now != status || len(requests) > 0 {
		return fmt.Errorf("the machine is %q with requests %v, want %q with none", now, requests, status)
	}
	return nil
}

// runs reports why the machine does not run in an instance that it controls.
func (s *scene) runs() error {
	s.Helper()
	if err := s.is("Running"); err != nil {
		return err
	}
	instance, vm := s.instance(), s.machine()
	if instance == nil || vm == nil || !metav1.IsControlledBy(instance, vm) || instance.GetDeletionTimestamp() != nil {
		return errors.New("the machine has no instance of its own")
	}
	return nil
}

// rests reports why the machine is not stopped for good.
func (s *scene) rests() error {
	s.Helper()
	if err := s.isGone(); err != nil {
		return err
	}
	return s.is("Stopped")
}

// nothing reports why something is left.
func (s *scene) nothing() error {
	s.Helper()
	if s.instance() != nil || s.machine() != nil {
		return errors.New("something is left")
	}
	return nil
}

// put calls a verb as a person does who wants it done: again, until it is. It returns how many
// calls may have done something.
func (s *scene) put(verb string) int {
	s.Helper()
	body := "{}"
	may := 0
	eventually(s.T, saying(verb), func() error {
		code, said := s.call(verb, body)
		switch {
		case code == http.StatusAccepted:
			may++
			return nil
		case code == http.StatusConflict && may > 0:
			return nil // it was done the first time
		case code >= http.StatusInternalServerError:
			may++
			s.stage.verbs.revive(s.namespace)
		}
		return fmt.Errorf("%d %s", code, said)
	})
	return may
}

func (s *scene) call(verb, body string) (int, string) {
	s.Helper()
	config := s.stage.config()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		s.Fatal(err)
	}
	url := fmt.Sprintf("%s/apis/subresources.kubevirt.io/v1/namespaces/%s/virtualmachines/%s/%s", config.Host, s.namespace, s.name, verb)
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	said := new(strings.Builder)
	_, _ = io.Copy(said, response.Body)
	return response.StatusCode, said.String()
}

// delete deletes an object of the machine's name.
func (s *scene) delete(in dynamic.ResourceInterface, how metav1.DeletionPropagation) {
	s.Helper()
	if err := in.Delete(s.Context(), s.name, metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		s.Fatal(err)
	}
}

// touch makes the controller look at the machine once more.
func (s *scene) touch() {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"touched": %q}}}`, time.Now())
	_, err := s.machines().Patch(s.Context(), s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
}

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/presettest"
)

var (
	instances  = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// parallel is how many requests are under way at a time: as many as the controller of running state
// has workers.
const parallel = 16

// A fleet is many machines in a real cluster, in which nothing acts but what a test starts.
type fleet struct {
	plane   *controlplane.ControlPlane
	client  dynamic.Interface
	program string // of the manager
}

func newFleet(t testing.TB, options controlplane.Options) *fleet {
	t.Helper()
	options.Progress = os.Stderr
	f := &fleet{plane: controlplane.ForTest(t, options), program: buildManager(t)}
	if err := f.plane.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	config := f.plane.Config()
	config.WarningHandler = rest.NoWarnings{}
	f.client = dynamic.NewForConfigOrDie(config)
	return f
}

// in makes a namespace.
func (f *fleet) in(t testing.TB, namespace string) {
	t.Helper()
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	if _, err := f.client.Resource(namespaces).Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// create makes n VMs in a new namespace, and returns them as they are then.
func (f *fleet) create(t testing.TB, namespace string, n int, vm func(i int) *unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	f.in(t, namespace)
	made := make([]*unstructured.Unstructured, n)
	err := inParallel(t.Context(), n, func(ctx context.Context, i int) (err error) {
		one := vm(i)
		one.SetNamespace(namespace)
		one.SetName(fmt.Sprintf("vm-%d", i))
		made[i], err = f.client.Resource(machines).Namespace(namespace).Create(ctx, one, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// clear removes a namespace's machines, without leaving work for the garbage collector.
func (f *fleet) clear(t testing.TB, namespace string) {
	t.Helper()
	for _, kind := range []schema.GroupVersionResource{instances, machines} {
		all := f.client.Resource(kind).Namespace(namespace)
		await(t, "namespace "+namespace+" is clear of "+kind.Resource, 10*time.Minute, func() bool {
			// An API server gives up after a minute; the next one goes on.
			err := all.DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{})
			if err != nil {
				t.Logf("will try again: %v", err)
			}
			left, err := all.List(t.Context(), metav1.ListOptions{Limit: 500})
			if err != nil || len(left.Items) == 0 {
				return err == nil
			}
			// The manager that would remove the finalizers may have stopped.
			err = inParallel(t.Context(), len(left.Items), func(ctx context.Context, i int) error {
				_, err := all.Patch(ctx, left.Items[i].GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return client.IgnoreNotFound(err)
			})
			if err != nil {
				t.Logf("will try again: %v", err)
			}
			return false
		})
	}
}

// inParallel does something n times and returns the first error.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// realistic is a stored VM: the user's fields, those of presets and the platform, and the record of
// their origins. Its run strategy is Always.
func realistic(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	engine := &presets.Engine{Platform: &presets.Platform{}}
	out, err := engine.Resolve(t.Context(), presettest.Snapshot(t, presettest.RealisticPresets()...), presets.Request{
		Kind: presets.VirtualMachine, Object: presettest.RealisticVM(), Namespace: presets.Namespace{Name: "default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(out.Object())
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: presettest.Object(raw)}
}

// A launch is what the controller makes of a VM: its instance, and its status.
type launch struct {
	instance *unstructured.Unstructured
	status   any
}

// learn reads from one VM what the controller makes of all that are like it.
func (f *fleet) learn(t testing.TB, namespace, name string) launch {
	t.Helper()
	vm, err := f.client.Resource(machines).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	instance, err := f.client.Resource(instances).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(instance.Object, "metadata", field)
	}
	return launch{instance: instance, status: vm.Object["status"]}
}

// of is the instance that the controller would make of a VM.
func (l launch) of(vm *unstructured.Unstructured) *unstructured.Unstructured {
	out := l.instance.DeepCopy()
	out.SetNamespace(vm.GetNamespace())
	out.SetName(vm.GetName())
	owners := out.GetOwnerReferences()
	owners[0].Name, owners[0].UID = vm.GetName(), vm.GetUID()
	out.SetOwnerReferences(owners)
	annotations := out.GetAnnotations()
	annotations["virtwright.dev/instance-of"] = string(vm.GetUID())
	out.SetAnnotations(annotations)
	return out
}

// start makes the two writes that start a VM.
func (f *fleet) start(ctx context.Context, vm *unstructured.Unstructured, l launch) error {
	if _, err := f.client.Resource(instances).Namespace(vm.GetNamespace()).Create(ctx, l.of(vm), metav1.CreateOptions{}); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": vm.GetResourceVersion()}, "status": l.status})
	if err != nil {
		return err
	}
	_, err = f.client.Resource(machines).Namespace(vm.GetNamespace()).Patch(ctx, vm.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// await asks until something holds.
func await(t testing.TB, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

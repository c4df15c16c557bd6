package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/presettest"
)

const (
	// tenants share a cluster: each has a namespace.
	tenants = 10
	// teams share a tenant's namespace: each has presets of its own.
	teams = 10
	// burst is how many VMs are created at a time, and how many are changed then.
	burst = 1000
)

// BenchmarkSize reports what memory and processor time the manager takes, as the chart starts it,
// for as many VMs as -benchtime 10000x says, half of them running, and a tenth as many presets: at
// rest after its start, while people create and change VMs, and while it reads everything again
// because the API server restarts, and at rest again. It fails where the memory that the chart
// grants is not enough.
func BenchmarkSize(b *testing.B) {
	if b.N < 10*tenants {
		return // with which testing tries out benchmarks
	}
	log.SetLogger(logr.Discard()) // without a logger, controller-runtime prints a warning
	f := newFleet(b, controlplane.Options{})
	f.makeTenants(b)
	m := f.install(b)
	m.start(b, b.N) // writes status
	m.stop(b)

	m.start(b, b.N)
	m.tell(b, "start")
	m.tellRest(b, "rest")
	m.forget(b)
	f.hurry(b)
	m.settle(b, b.N)
	m.tell(b, "burst")
	m.forget(b)
	f.relist(b)
	m.settle(b, b.N)
	m.tell(b, "relist")
	m.tellRest(b, "later")
	b.ReportMetric(0, "ns/op")
}

func tenant(i int) string { return fmt.Sprintf("tenant-%d", i%tenants) }

// makeTenants makes the presets and the VMs.
func (f *fleet) makeTenants(b *testing.B) {
	b.Helper()
	vm := realistic(b)
	l := f.sample(b, vm)
	var vms []*unstructured.Unstructured
	for t := range tenants {
		vms = append(vms, f.create(b, tenant(t), b.N/tenants, func(i int) *unstructured.Unstructured { return ofTeam(vm, t, i) })...)
	}
	err := inParallel(b.Context(), len(vms), func(ctx context.Context, i int) error {
		if presettest.At(vms[i].Object, "spec.runStrategy") == "Halted" {
			return nil
		}
		return f.start(ctx, vms[i], l)
	})
	if err != nil {
		b.Fatal(err)
	}
	err = inParallel(b.Context(), b.N/10, func(ctx context.Context, i int) error {
		preset := ofTeams(i)
		resource := schema.GroupVersionResource{Group: "virtwright.dev", Version: "v1alpha1", Resource: strings.ToLower(preset.GetKind()) + "s"}
		_, err := f.client.Resource(resource).Namespace(preset.GetNamespace()).Create(ctx, preset, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// ofTeam is a tenant's VM of some team, with hardware addresses of its own. Every second one runs.
func ofTeam(like *unstructured.Unstructured, tenant, i int) *unstructured.Unstructured {
	vm := like.DeepCopy()
	labels := vm.GetLabels()
	labels["example.com/team"] = fmt.Sprintf("team-%d", i%teams)
	vm.SetLabels(labels)
	if i/teams%2 == 0 {
		set(vm, "Halted", "spec", "runStrategy")
	}
	interfaces, _ := presettest.At(vm.Object, "spec.template.spec.domain.devices.interfaces").([]any)
	for n, one := range interfaces {
		one.(map[string]any)["macAddress"] = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", n, tenant, i>>16&0xff, i>>8&0xff, i&0xff)
	}
	return vm
}

// ofTeams is a preset for the VMs of a team: every second one of the cluster, the others of the
// tenant's namespace.
func ofTeams(i int) *unstructured.Unstructured {
	realistic := presettest.RealisticPresets()
	preset := &unstructured.Unstructured{Object: presettest.Object(presettest.JSON(fmt.Sprintf(
		`{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: preset-%d}}`, i)))}
	if i%2 == 1 {
		preset.SetKind("VirtualMachinePreset")
		preset.SetNamespace(tenant(i / 2))
	}
	raw, err := json.Marshal(realistic[i/2%len(realistic)])
	if err != nil {
		panic(err) // it was JSON before
	}
	preset.Object["spec"] = presettest.Object(raw)["spec"]
	if i%2 == 0 {
		set(preset, tenant(i/2), "spec", "match", "namespaces", "matchLabels", "kubernetes.io/metadata.name")
	}
	set(preset, int64(i), "spec", "priority")
	set(preset, fmt.Sprintf("team-%d", i/2/tenants%teams), "spec", "match", "labels", "matchLabels", "example.com/team")
	return preset
}

func set(object *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		panic(err) // of an object that is made here
	}
}

// hurry has people create VMs, and change others, all through the webhooks.
func (f *fleet) hurry(b *testing.B) {
	b.Helper()
	err := inParallel(b.Context(), burst, func(ctx context.Context, i int) error {
		vm := ofTeam(&unstructured.Unstructured{Object: presettest.Object(presettest.RealisticVM())}, i%tenants, b.N+i)
		vm.SetNamespace(tenant(i))
		vm.SetName(fmt.Sprintf("new-%d", i))
		_, err := f.client.Resource(machines).Namespace(vm.GetNamespace()).Create(ctx, vm, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	err = inParallel(b.Context(), burst, func(ctx context.Context, i int) error {
		change := fmt.Appendf(nil, `{"metadata": {"labels": {"example.com/changed": "%d"}}, "spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}}}}}}`, i)
		_, err := f.client.Resource(machines).Namespace(tenant(i)).Patch(ctx, fmt.Sprintf("vm-%d", i/tenants%(b.N/tenants)), types.MergePatchType, change, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// relist restarts the API server, and returns once the manager has asked it for all machines again.
func (f *fleet) relist(b *testing.B) {
	b.Helper()
	if err := f.plane.RestartAPIServer(b.Context()); err != nil {
		b.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(f.plane.Config())
	await(b, "all machines are read again", 2*time.Minute, func() bool {
		page, err := client.RESTClient().Get().AbsPath("/metrics").Do(b.Context()).Raw()
		const name, of = "apiserver_watch_list_duration_seconds_count", `resource="%s"`
		return err == nil && sum(string(page), name, fmt.Sprintf(of, machines.Resource)) > 0 && sum(string(page), name, fmt.Sprintf(of, instances.Resource)) > 0
	})
}

// Package bench measures, through a real API server, what a create costs, and what the keeping of
// running state does.
package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/presettest"
	"github.com/virtwright/virtwright/webhooks"
)

var machines = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}

// variants are ways to make a VM whole. Each acts in the namespace of its name.
var variants = []string{
	"virtwright", // the engine behind its HTTP handler
	"guarded",    // all that an installation does: platform defaults, match conditions, policies, the validating webhook
	"canned",     // a webhook in the same process that returns the same patch from memory
	"noop",       // a webhook in the same process that allows
	"policy",     // a MutatingAdmissionPolicy that sets the same scalar leaves
	"bare",       // nothing
}

// BenchmarkCreate creates a realistic VM through the API server, each variant in turn, and reports
// the median of each and what virtwright's is of the others. The control of virtwright is canned:
// it does all that a webhook must and nothing else.
func BenchmarkCreate(b *testing.B) {
	cp := controlplane.ForTest(b, controlplane.Options{Progress: os.Stderr})
	ctx := b.Context()
	if err := cp.InstallCRDs(ctx, "../../charts/virtwright/files/crds"); err != nil {
		b.Fatal(err)
	}
	server := httptest.NewTLSServer(handlers(b))
	b.Cleanup(server.Close)
	config := cp.Config()
	config.WarningHandler = rest.NoWarnings{}
	clients, machine := kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	setUp(b, clients, server)
	waitUntilAllAct(b, machine)

	took := map[string][]time.Duration{}
	round := 0
	for b.Loop() {
		for i := range variants {
			variant := variants[(i+round)%len(variants)]
			duration, err := create(b.Context(), machine, variant, fmt.Sprintf("vm-%d", round))
			if err != nil {
				b.Fatal(err)
			}
			took[variant] = append(took[variant], duration)
		}
		round++
	}
	b.StopTimer()
	report(b, took)
}

func report(b *testing.B, took map[string][]time.Duration) {
	b.Helper()
	medians := map[string]float64{}
	for _, variant := range variants {
		slices.Sort(took[variant])
		medians[variant] = took[variant][len(took[variant])/2].Seconds() * 1000
		b.ReportMetric(medians[variant], variant+"-p50-ms")
	}
	for _, control := range variants[2:] {
		b.ReportMetric(medians["virtwright"]/medians[control], "x-"+control)
	}
	b.ReportMetric(medians["guarded"]/medians["bare"], "guarded-x-bare")
	b.ReportMetric(0, "ns/op") // the rounds have all variants in them
}

func create(ctx context.Context, client dynamic.Interface, variant, name string) (time.Duration, error) {
	vm := object(variant, name)
	began := time.Now()
	_, err := client.Resource(machines).Namespace(variant).Create(ctx, vm, metav1.CreateOptions{})
	return time.Since(began), err
}

func object(variant, name string) *unstructured.Unstructured {
	vm := &unstructured.Unstructured{Object: presettest.Object(presettest.RealisticVM())}
	vm.SetNamespace(variant)
	vm.SetName(name)
	return vm
}

// waitUntilAllAct creates VMs until each variant does what it is meant to. A policy needs the API
// server to know the schema of VMs, which takes it a while.
func waitUntilAllAct(b *testing.B, client dynamic.Interface) {
	b.Helper()
	for _, variant := range variants {
		deadline := time.Now().Add(90 * time.Second)
		for n := 0; ; n++ {
			err := acts(b.Context(), client, variant, fmt.Sprintf("warm-up-%d", n))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				b.Fatalf("variant %s never acted: %v", variant, err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func acts(ctx context.Context, client dynamic.Interface, variant, name string) error {
	if _, err := create(ctx, client, variant, name); err != nil {
		return err
	}
	vm, err := client.Resource(machines).Namespace(variant).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	whole := presettest.At(vm.Object, "spec.template.spec.domain.machine.type") == "q35"
	if whole == (variant == "noop" || variant == "bare") {
		return fmt.Errorf("the VM is whole: %v", whole)
	}
	return nil
}

// fixed is a set of presets that stays as it is.
type fixed struct{ set *presets.Snapshot }

func (f fixed) Snapshot() *presets.Snapshot { return f.set }

// noProfiles are those of a cluster without profiles.
type noProfiles struct{}

func (noProfiles) Snapshot() *domain.Profiles { return &domain.Profiles{} }

type anyNamespace struct{}

func (anyNamespace) Get(_ context.Context, name string) (presets.Namespace, error) {
	return presets.Namespace{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}, nil
}

func handlers(b *testing.B) http.Handler {
	compiled := presettest.RealisticPresets()[:2]
	for _, namespace := range variants[:2] {
		compiled = append(compiled, presettest.Namespaced(namespace, "team", presettest.TeamSpec))
	}
	server := &webhooks.Server{
		Engine: &presets.Engine{}, Snapshots: fixed{presettest.Snapshot(b, compiled...)}, Namespaces: anyNamespace{},
	}
	complete := *server
	complete.Engine, complete.Profiles = &presets.Engine{Platform: &presets.Platform{}}, noProfiles{}
	mux := http.NewServeMux()
	ours := server.Handlers()[webhooks.PathMutateVirtualMachine]
	mux.Handle("/virtwright", ours)
	for path, handler := range complete.Handlers() {
		mux.Handle(path, handler)
	}
	mux.Handle("/canned", canned(b, ours))
	mux.Handle("/noop", answering([]byte(`"allowed":true`)))
	return mux
}

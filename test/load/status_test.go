package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
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

	"github.com/virtwright/virtwright/test/cases"
	"github.com/virtwright/virtwright/test/installation"
)

const (
	manyPresets = 1_000
	// writers create presets and VMs at the same time.
	writers = 16
)

// manyVMs are 20,000 with all cases, or two for each preset.
var manyVMs int

var (
	clusterPresets = schema.GroupVersionResource{Group: "virtwright.dev", Version: "v1alpha1", Resource: "clustervirtualmachinepresets"}
	machines       = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
)

// TestManyPresetsAndVMs: after a restart, the status of many presets over many VMs is right, and a
// PresetRollout changes all the VMs, within the memory of the chart. The log compares the time of
// the status with a paged list of the same VMs.
func TestManyPresetsAndVMs(t *testing.T) {
	if manyVMs = cases.Of(20_000); manyVMs < 20_000 {
		manyVMs = 2 * manyPresets
	}
	i := installation.New(t)
	i.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,replicas=1")
	r := i.Start("virtwright-1")
	i.Eventually("the replica serves", r.Serves)
	i.Must("", "create", "namespace", "load")
	config := rest.CopyConfig(i.Config())
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client := dynamic.NewForConfigOrDie(config)

	atOnce(t, manyPresets, func(ctx context.Context, n int) error {
		_, err := client.Resource(clusterPresets).Create(ctx, presetOf(n), metav1.CreateOptions{})
		return err
	})
	within(t, 2*time.Minute, "presets are in use", func() bool {
		return countPresets(t, client, func(p *unstructured.Unstructured) bool { _, found := matchedOf(p); return found }) == manyPresets
	})
	atOnce(t, manyVMs, func(ctx context.Context, n int) error {
		_, err := client.Resource(machines).Namespace("load").Create(ctx, vmOf(n), metav1.CreateOptions{})
		return err
	})
	right := func() bool {
		return countPresets(t, client, func(p *unstructured.Unstructured) bool { n, _ := matchedOf(p); return n == int64(manyVMs/manyPresets) }) == manyPresets
	}
	within(t, 5*time.Minute, "VMs are counted while they come", func() bool {
		return countPresets(t, client, func(p *unstructured.Unstructured) bool { n, _ := matchedOf(p); return n == int64(manyVMs/manyPresets) }) == manyPresets-manyPresets/100
	})

	r.Delete()
	atOnce(t, manyPresets, func(ctx context.Context, n int) error {
		_, err := client.Resource(clusterPresets).Patch(ctx, presetOf(n).GetName(), types.MergePatchType, []byte(`{"status":{"matched":null,"outdated":null,"observedAt":null}}`), metav1.PatchOptions{}, "status")
		return err
	})
	early := listPaged(t, client)
	began := time.Now()
	again := i.Start("virtwright-2")
	within(t, 5*time.Minute, "VMs are counted after a restart", right)
	took := time.Since(began)
	late := listPaged(t, client)
	control := (early + late) / 2 // the goal is a ratio of at most 2; the log shows it
	peak := memory(t, again.PID(), "VmHWM")
	t.Logf("status of %d presets over %d VMs: %v; a paged list: %v and %v; ratio %.2f; peak %d MiB of %d MiB",
		manyPresets, manyVMs, took, early, late, took.Seconds()/control.Seconds(), peak>>20, again.MemoryLimit()>>20)
	rollOut(t, client)
	if peak := memory(t, again.PID(), "VmHWM"); peak >= again.MemoryLimit() || again.Starts() != 1 {
		t.Errorf("the replica took %d MiB and was started %d times", peak>>20, again.Starts())
	}
}

// presetOf is one of many presets. Each acts on as many VMs as the others. One in ten forbids
// something and one in a hundred is in mode Audit, so that VMs are scanned.
func presetOf(n int) *unstructured.Unstructured {
	mode, forbidden := "Enforce", "[]"
	if n%10 == 0 {
		forbidden = `[{"path": "spec.template.spec.hostname"}]`
	}
	if n%100 == 0 {
		mode = "Audit"
	}
	return object(`{"apiVersion": "virtwright.dev/v1alpha1", "kind": "ClusterVirtualMachinePreset", "metadata": {"name": "team-%d"}, "spec": {"mode": %q,
		"match": {"labels": {"matchLabels": {"team": "t%d"}}}, "forbid": %s,
		"defaults": {"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 3}, "ioThreadsPolicy": "auto"}}}}}}}`, n, mode, n, forbidden)
}

func vmOf(n int) *unstructured.Unstructured {
	return object(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "vm-%d", "labels": {"half": "h%d"}}, "spec": {"template": {
		"metadata": {"labels": {"team": "t%d", "app": "load", "owner": "somewhere"}},
		"spec": {"domain": {"memory": {"guest": "1Gi"}, "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}, {"name": "data", "disk": {"bus": "virtio"}}]}},
		"volumes": [{"name": "root", "containerDisk": {"image": "registry.example/disks/linux:41"}}, {"name": "data", "emptyDisk": {"capacity": "2Gi"}}]}}}}`, n, n%2, n%manyPresets)
}

func object(format string, args ...any) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, format, args...), &out.Object); err != nil {
		panic(err)
	}
	return out
}

func matchedOf(p *unstructured.Unstructured) (int64, bool) {
	n, found, _ := unstructured.NestedInt64(p.Object, "status", "matched")
	return n, found
}

func countPresets(t *testing.T, client dynamic.Interface, is func(*unstructured.Unstructured) bool) int {
	t.Helper()
	all, err := client.Resource(clusterPresets).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range all.Items {
		if is(&all.Items[i]) {
			n++
		}
	}
	return n
}

// listPaged reads all VMs page by page and returns how long that takes.
func listPaged(t *testing.T, client dynamic.Interface) time.Duration {
	t.Helper()
	began, n := time.Now(), 0
	for next := ""; n == 0 || next != ""; {
		page, err := client.Resource(machines).List(t.Context(), metav1.ListOptions{Limit: 500, Continue: next})
		if err != nil {
			t.Fatal(err)
		}
		n, next = n+len(page.Items), page.GetContinue()
	}
	if n != manyVMs {
		t.Errorf("want %s VMs, got %d", strconv.Itoa(manyVMs), n)
	}
	return time.Since(began)
}

// atOnce does something n times, some of it at the same time.
func atOnce(t *testing.T, n int, do func(ctx context.Context, n int) error) {
	t.Helper()
	var next atomic.Int64
	var done sync.WaitGroup
	for range writers {
		done.Go(func() {
			for k := int(next.Add(1)) - 1; k < n && !t.Failed(); k = int(next.Add(1)) - 1 {
				if err := do(t.Context(), k); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// within waits until something holds.
func within(t *testing.T, most time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, most)
		}
	}
}

package bench

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtwright/virtwright/lifecycle/nameconflict"
	"github.com/virtwright/virtwright/lifecycle/partialobject"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/presettest"
)

// BenchmarkWatch holds VMs in caches, as many as -benchtime 10000x says, each with an instance that
// runs, and reports how many bytes of live heap each pair takes. The controls are caches of the
// same machines as the kinds of kubevirt.io/api, and as decoded JSON, with nothing taken out.
func BenchmarkWatch(b *testing.B) {
	if b.N == 1 {
		return // with which testing tries out benchmarks
	}
	log.SetLogger(logr.Discard()) // without a logger, controller-runtime prints a warning
	f := newFleet(b, controlplane.Options{})
	f.makeRunning(b)
	ours := f.held(b, partialobject.AddToScheme, partialobject.Trim, &partialobject.VirtualMachine{}, &partialobject.VirtualMachineInstance{})
	full := f.held(b, kubevirtv1.AddToScheme, nil, &kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachineInstance{})
	decoded := f.held(b, partialobject.AddToScheme, nil, anyOf(machines, "VirtualMachine"), anyOf(instances, "VirtualMachineInstance"))
	b.ReportMetric(ours, "B/VM")
	b.ReportMetric(full, "kubevirt-B/VM")
	b.ReportMetric(decoded, "unstructured-B/VM")
	b.ReportMetric(ours/full, "x-kubevirt")
	b.ReportMetric(ours/decoded, "x-unstructured")
	b.ReportMetric(0, "ns/op")

	m := f.startManager(b)
	m.awaitIdle(b, b.N, 5*time.Minute)
	b.ReportMetric(m.sum(b, "process_resident_memory_bytes")/1e6, "manager-MB")
	m.stop(b)
}

func anyOf(resource schema.GroupVersionResource, kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	return out
}

// makeRunning makes realistic VMs that run.
func (f *fleet) makeRunning(b *testing.B) {
	b.Helper()
	vm := realistic(b)
	like := func(int) *unstructured.Unstructured { return vm.DeepCopy() }
	l := f.sample(b, vm)
	vms := f.create(b, "running", b.N, like)
	if err := inParallel(b.Context(), b.N, func(ctx context.Context, i int) error { return f.start(ctx, vms[i], l) }); err != nil {
		b.Fatal(err)
	}
}

// sample learns what the controller makes of a VM, with an instance that runs.
func (f *fleet) sample(b *testing.B, vm *unstructured.Unstructured) launch {
	b.Helper()
	f.create(b, "sample", 1, func(int) *unstructured.Unstructured { return vm.DeepCopy() })
	m := f.startManager(b)
	m.awaitIdle(b, 1, time.Minute)
	m.stop(b)
	l := f.learn(b, "sample", "vm-0")
	f.clear(b, "sample")
	l.instance.Object["status"] = presettest.Object(presettest.JSON(runningStatus))
	return l
}

// runningStatus is what a node says of an instance.
const runningStatus = `
phase: Running
nodeName: node-1
conditions:
- {type: Ready, status: "True", lastProbeTime: null, lastTransitionTime: "2026-01-01T00:00:00Z"}
- {type: LiveMigratable, status: "True", lastProbeTime: null, lastTransitionTime: "2026-01-01T00:00:00Z"}
guestOSInfo: {name: Fedora Linux, kernelRelease: 6.17.1-300.fc43.x86_64, version: 43 (Cloud Edition), id: fedora}
interfaces:
- {name: default, mac: "02:00:00:00:00:01", ipAddress: 10.244.0.17, ipAddresses: [10.244.0.17], interfaceName: enp1s0, infoSource: "domain, guest-agent"}
- {name: storage, mac: "02:00:00:00:00:02", ipAddress: 10.20.0.11, ipAddresses: [10.20.0.11], interfaceName: enp2s0, infoSource: "domain, guest-agent"}
phaseTransitionTimestamps:
- {phase: Pending, phaseTransitionTimestamp: "2026-01-01T00:00:00Z"}
- {phase: Scheduling, phaseTransitionTimestamp: "2026-01-01T00:00:01Z"}
- {phase: Scheduled, phaseTransitionTimestamp: "2026-01-01T00:00:02Z"}
- {phase: Running, phaseTransitionTimestamp: "2026-01-01T00:00:03Z"}
volumeStatus: [{name: root, target: vda}, {name: cloudinit, target: vdb, size: 1048576}]
`

// held is how many bytes a VM and its instance take in a cache of these kinds. A cache of our own
// has the index of names, too.
func (f *fleet) held(b *testing.B, kinds func(*k8sruntime.Scheme) error, trim func(any) (any, error), objects ...client.Object) float64 {
	b.Helper()
	scheme := k8sruntime.NewScheme()
	if err := kinds(scheme); err != nil {
		b.Fatal(err)
	}
	before := liveHeap()
	ctx, stop := context.WithCancel(b.Context())
	c, err := cache.New(f.plane.Config(), cache.Options{Scheme: scheme, DefaultTransform: trim})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if trim != nil {
		if err := (&nameconflict.Index{Cache: c}).Start(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for _, object := range objects {
		if _, err := c.GetInformer(ctx, object); err != nil {
			b.Fatal(err)
		}
	}
	if !c.WaitForCacheSync(ctx) {
		b.Fatal("cannot fill a cache")
	}
	after := liveHeap()
	runtime.KeepAlive(c)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return float64(after-before) / float64(b.N)
}

// liveHeap is the heap without garbage, after ended goroutines have released theirs.
func liveHeap() int64 {
	var stats runtime.MemStats
	for before := int64(-1); ; before = int64(stats.HeapAlloc) {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		if now := int64(stats.HeapAlloc); before >= 0 && max(now-before, before-now) < 64<<10 {
			return now
		}
		time.Sleep(200 * time.Millisecond)
	}
}

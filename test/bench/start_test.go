package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/presettest"
)

// BenchmarkStart starts VMs, as many as -benchtime 5000x says, and reports how many start in a
// second. The control is a loop that makes the same requests to write, as many at a time, and
// nothing else: it neither reads, nor watches, nor records events.
//
// The controllers are a process of their own, as people run them. All VMs exist before it starts,
// with run strategy Always: it finds them when it leads, so the measurement has no other writes.
// There are no webhooks, which would cost both the same. Both ways are warmed up, and each has a
// turn early and one late.
//
// Where other programs share the processors, x-bare-cpu is steadier: what a start costs of them in
// a loop, over what it costs by the controller.
func BenchmarkStart(b *testing.B) {
	if b.N == 1 {
		return // with which testing tries out benchmarks
	}
	f := newFleet(b, controlplane.Options{})
	vm := realistic(b)
	like := func(int) *unstructured.Unstructured { return vm.DeepCopy() }

	warm := max(b.N/10, parallel)
	f.create(b, "warm-controller", warm, like)
	f.startByController(b, "warm-controller", warm)
	l := f.learn(b, "warm-controller", "vm-0")
	f.clear(b, "warm-controller")
	f.startBare(b, f.create(b, "warm-bare", warm, like), l)
	f.clear(b, "warm-bare")

	var bare, controller pace
	for i, way := range []string{"bare", "controller", "controller", "bare"} {
		namespace := fmt.Sprintf("%s-%d", way, i)
		vms := f.create(b, namespace, b.N, like)
		if way == "bare" {
			bare.add(f.startBare(b, vms, l))
		} else {
			controller.add(f.startByController(b, namespace, b.N))
		}
		f.mustHaveStarted(b, namespace, b.N)
		f.clear(b, namespace)
	}
	b.ReportMetric(controller.rate(), "starts/s")
	b.ReportMetric(bare.rate(), "bare-starts/s")
	b.ReportMetric(controller.rate()/bare.rate(), "x-bare")
	b.ReportMetric(controller.cost(), "cpu-ms/start")
	b.ReportMetric(bare.cost(), "bare-cpu-ms/start")
	b.ReportMetric(bare.cost()/controller.cost(), "x-bare-cpu")
	b.ReportMetric(0, "ns/op") // the setting up is in it
}

// A pace is a number of starts in a time, and the processor time that the control plane and the
// controller used for them.
type pace struct {
	n         float64
	took, cpu time.Duration
}

func (p *pace) add(more pace) {
	p.n += more.n
	p.took += more.took
	p.cpu += more.cpu
}

func (p *pace) rate() float64 { return p.n / p.took.Seconds() }

// cost is in milliseconds of one processor.
func (p *pace) cost() float64 { return p.cpu.Seconds() * 1000 / p.n }

// measure follows a count from when it is first above zero until it is n. What comes before, as
// until a process is there, is not in the pace.
func (f *fleet) measure(b *testing.B, n, starter int, count func() float64) pace {
	b.Helper()
	var first, end pace
	await(b, fmt.Sprintf("%d have started", n), 10*time.Minute, func() bool {
		now := pace{n: count(), took: time.Since(epoch), cpu: f.used(b, starter)}
		if first.n == 0 {
			first = now
		}
		end = now
		return now.n >= float64(n)
	})
	return pace{n: end.n - first.n, took: end.took - first.took, cpu: end.cpu - first.cpu}
}

// epoch is some time before.
var epoch = time.Now()

// used is the processor time of the control plane and one more process; zero where it is unknown.
func (f *fleet) used(b *testing.B, pid int) time.Duration {
	b.Helper()
	return used(b, append(slices.Collect(maps.Values(f.plane.PIDs())), pid)...)
}

// used is the processor time of processes; zero where it is unknown.
func used(b *testing.B, pids ...int) time.Duration {
	b.Helper()
	ticks := 0
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		_, after, _ := strings.Cut(string(stat), ") ") // the name may contain spaces
		for _, field := range strings.Fields(after)[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// startBare starts VMs in a loop.
func (f *fleet) startBare(b *testing.B, vms []*unstructured.Unstructured, l launch) pace {
	b.Helper()
	var started atomic.Int64
	failed := make(chan error, 1)
	go func() {
		failed <- inParallel(b.Context(), len(vms), func(ctx context.Context, i int) error {
			defer started.Add(1)
			return f.start(ctx, vms[i], l)
		})
	}()
	p := f.measure(b, len(vms), os.Getpid(), func() float64 { return float64(started.Load()) })
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
	return p
}

// startByController lets the manager start n VMs that are there. One has started when the write of
// its status has succeeded.
func (f *fleet) startByController(b *testing.B, namespace string, n int) pace {
	b.Helper()
	m := f.startManager(b)
	p := f.measure(b, n, m.cmd.Process.Pid, func() float64 {
		return m.sum(b, "rest_client_requests_total", `method="PATCH"`, `code="200"`)
	})
	b.Log(m.summary(b, n))
	m.stop(b)
	return p
}

// mustHaveStarted fails unless a namespace has n VMs that start, each with an instance.
func (f *fleet) mustHaveStarted(b *testing.B, namespace string, n int) {
	b.Helper()
	starting := 0
	vms, err := f.client.Resource(machines).Namespace(namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range vms.Items {
		if presettest.At(vms.Items[i].Object, "status.printableStatus") == "Starting" {
			starting++
		}
	}
	if made := f.count(b, instances, namespace); starting != n || made != n {
		b.Fatalf("namespace %s: %d VMs start and %d instances are there, want %d", namespace, starting, made, n)
	}
}

func (f *fleet) count(t testing.TB, kind schema.GroupVersionResource, namespace string) int {
	t.Helper()
	list, err := f.client.Resource(kind).Namespace(namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/webhooks"
)

const (
	// tenantClients create VMs for each of the tenants that use all they get.
	tenantClients = 32
	// samples are the creates of the third tenant, quiet and under load.
	samples = 500
	// slower is how many times slower their median may be under load, in one of some attempts. It
	// is about 2 on a computer that does nothing else. Without fair shares, a create waits for
	// those of all clients of the busy tenants.
	slower, attempts = 12, 5
)

// tenants use all they get, each in a way of its own.
var tenants = map[string]struct {
	presets int // that are costly
	meta    string
}{
	"costly presets": {12, `"annotations": {"note": "` + strings.Repeat("xy", 300) + `"}`},
	"1,100 labels":   {0, `"labels": {` + manyLabels(1100) + `}`},
}

const costlyPreset = `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: costly-%d}
spec:
  match:
    conditions:
    - {name: costly, expression: 'object.?metadata.?annotations["note"].orValue("").split("").filter(c, c == "x").size() != %[1]d'}
  defaults: {metadata: {annotations: {set-%[1]d: "yes"}}}`

func manyLabels(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"label-%d": "value-of-the-label"`, i))
	}
	return strings.Join(out, ",")
}

// A tenant creates VMs in a namespace. It sends the reviews that an API server sends for a create,
// because API servers have shares of their own, and slow down before a replica does.
type tenant struct {
	namespace, meta, address string
	client                   *http.Client
}

func newTenant(i *installation.Installation, r *installation.Replica, namespace, meta string) *tenant {
	i.Helper()
	i.Must("", "create", "namespace", namespace)
	return &tenant{namespace: namespace, meta: meta, address: "https://" + r.Webhooks(), client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: tenantClients}, Timeout: time.Minute,
	}}
}

// create reports whether both reviews of a create are answered.
func (t *tenant) create(ctx context.Context) bool {
	meta := `"name": "web", "namespace": "` + t.namespace + `"`
	if t.meta != "" {
		meta += ", " + t.meta
	}
	body := []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachine"},` +
		`"name":"web","namespace":"` + t.namespace + `","operation":"CREATE","userInfo":{"username":"ada"},"object":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine",` +
		`"metadata":{` + meta + `},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"memory":{"guest":"1Gi"}}}}}}}}`)
	for _, path := range []string{webhooks.PathMutateVirtualMachine, webhooks.PathValidateVirtualMachine} {
		switch answer(ctx, t.client, t.address+path+"?timeout=5s", body) {
		case http.StatusOK, http.StatusUnprocessableEntity:
		default:
			return false
		}
	}
	return true
}

// measure creates VMs one after another, and returns the times of the median and of the slowest
// hundredth.
func (t *tenant) measure(test *testing.T) (median, p99 time.Duration) {
	test.Helper()
	var took []time.Duration
	for range samples {
		start := time.Now()
		if !t.create(test.Context()) {
			test.Errorf("a create of the third tenant was not answered after %s", time.Since(start))
		}
		took = append(took, time.Since(start))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// busy creates VMs with many clients until the function is called, which returns the numbers of
// creates that were answered and that were not.
func (t *tenant) busy(ctx context.Context) func() (done, failed int64) {
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var done, failed atomic.Int64
	for range tenantClients {
		clients.Go(func() {
			for ctx.Err() == nil {
				if t.create(ctx) {
					done.Add(1)
				} else if ctx.Err() == nil {
					failed.Add(1)
				}
			}
		})
	}
	return func() (int64, int64) {
		stop()
		clients.Wait()
		return done.Load(), failed.Load()
	}
}

// TestFairShares: two tenants that use all they get do not delay a third one much.
func TestFairShares(t *testing.T) {
	i := installation.New(t)
	i.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed,replicas=1")
	r := i.Start("virtwright-1")
	i.Eventually("the replica serves", r.Serves)
	third := newTenant(i, r, "third", "")
	// The clients of this process must not delay each other.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * runtime.GOMAXPROCS(0)))
	for name, kind := range tenants {
		t.Run(name, func(t *testing.T) {
			var busy []*tenant
			for n := range 2 {
				tenant := newTenant(i, r, fmt.Sprintf("busy-%d-%d", len(name), n), kind.meta)
				for p := range kind.presets {
					i.Must(fmt.Sprintf(costlyPreset, p), "create", "-n", tenant.namespace, "-f", "-")
					i.Must("", "wait", "vmpreset", fmt.Sprint("costly-", p), "-n", tenant.namespace, "--for=condition=Ready", "--timeout=60s")
				}
				busy = append(busy, tenant)
			}
			var ratio float64
			for range attempts {
				if ratio = third.slowedDown(t, r, busy); ratio <= slower {
					return
				}
			}
			t.Errorf("the third tenant's median is %.1f times the quiet one, want at most %d", ratio, slower)
		})
	}
}

// slowedDown returns how many times slower the median of creates is while others are busy.
func (t *tenant) slowedDown(test *testing.T, r *installation.Replica, others []*tenant) float64 {
	test.Helper()
	quiet, quiet99 := t.measure(test)
	test.Logf("quiet: median %s, p99 %s", quiet, quiet99)
	cpu, start := processorTime(test, r.PID()), time.Now()
	var stops []func() (int64, int64)
	for _, other := range others {
		stops = append(stops, other.busy(test.Context()))
	}
	loaded, loaded99 := t.measure(test)
	used := (processorTime(test, r.PID()) - cpu).Seconds() / time.Since(start).Seconds()
	for _, stop := range stops {
		done, failed := stop()
		test.Logf("a busy tenant created %d VMs, %d creates failed", done, failed)
		if done == 0 {
			test.Error("a busy tenant gets no share")
		}
	}
	ratio := float64(loaded) / float64(quiet)
	test.Logf("under load: median %s, ratio %.1f; p99 %s, ratio %.1f; the replica used %.2f processors",
		loaded, ratio, loaded99, float64(loaded99)/float64(quiet99), used)
	return ratio
}

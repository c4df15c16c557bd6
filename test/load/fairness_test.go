package load

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/virtwright/virtwright/test/installation"
)

const (
	// tenantClients create VMs for each of the tenants that use all they get.
	tenantClients = 32
	// samples are the creates of the third tenant, quiet and under load.
	samples = 100
	// slower is how many times slower the slowest hundredth of them may be under load.
	slower = 3
)

// tenants use all they get, each in a way of its own.
var tenants = map[string]struct {
	presets string // for each number
	meta    string
}{
	"costly presets": {presets: `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: costly-%d}
spec:
  match:
    conditions:
    - {name: costly, expression: 'object.?metadata.?annotations["note"].orValue("").split("").filter(c, c == "x").size() != %[1]d'}
  defaults: {metadata: {annotations: {set-%[1]d: "yes"}}}
---`, meta: `"annotations": {"note": "` + strings.Repeat("xy", 2000) + `"}`},
	"1,100 labels": {meta: `"labels": {` + manyLabels(1100) + `}`},
}

func manyLabels(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"label-%d": "value-of-the-label"`, i))
	}
	return strings.Join(out, ",")
}

// A tenant creates VMs in a namespace of its own, as a user of its own.
type tenant struct {
	namespace, meta string
	api             rest.Interface
	serial          atomic.Int64
}

func newTenant(i *installation.Installation, namespace, meta string) *tenant {
	i.Helper()
	user := "user-of-" + namespace
	i.Must(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]`, namespace, user), "create", "-f", "-")
	config, err := i.ControlPlane.User(user)
	if err != nil {
		i.Fatal(err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		i.Fatal(err)
	}
	return &tenant{namespace: namespace, meta: meta, api: clients.CoreV1().RESTClient()}
}

// create creates a VM, and does not try again.
func (t *tenant) create(ctx context.Context) error {
	meta := fmt.Sprintf(`"name": "vm-%d"`, t.serial.Add(1))
	if t.meta != "" {
		meta += ", " + t.meta
	}
	vm := `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {` + meta + `}, "spec": {"template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}}}}}`
	return t.api.Post().AbsPath("/apis/kubevirt.io/v1/namespaces/"+t.namespace+"/virtualmachines").Param("dryRun", "All").
		SetHeader("Content-Type", "application/json").Body([]byte(vm)).MaxRetries(0).Do(ctx).Error()
}

// p99 creates VMs one after another, and returns the time of the slowest hundredth.
func (t *tenant) p99(test *testing.T) time.Duration {
	test.Helper()
	var took []time.Duration
	for range samples {
		start := time.Now()
		if err := t.create(test.Context()); err != nil {
			test.Errorf("a create of the third tenant failed after %s: %v", time.Since(start), err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	test.Logf("median %s, p99 %s", took[len(took)/2], took[len(took)*99/100])
	return took[len(took)*99/100]
}

// busy creates VMs with many clients until the function is called, which returns the numbers of
// successful and of failed creates.
func (t *tenant) busy(ctx context.Context) func() (done, failed int64) {
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var done, failed atomic.Int64
	for range tenantClients {
		clients.Go(func() {
			for ctx.Err() == nil {
				switch err := t.create(ctx); {
				case err == nil:
					done.Add(1)
				case ctx.Err() == nil:
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
	third := newTenant(i, "third", "")
	i.Eventually("the webhooks are called", func() error { return third.create(t.Context()) })
	for name, kind := range tenants {
		t.Run(name, func(t *testing.T) {
			var busy []*tenant
			for n := range 2 {
				tenant := newTenant(i, fmt.Sprintf("busy-%d-%d", len(name), n), kind.meta)
				if kind.presets != "" {
					for p := range 12 {
						i.Must(fmt.Sprintf(kind.presets, p), "create", "-n", tenant.namespace, "-f", "-")
					}
				}
				busy = append(busy, tenant)
			}
			time.Sleep(2 * time.Second)
			third.p99(t)
			quiet := third.p99(t)
			cpu := processorTime(t, r.PID())
			start := time.Now()
			go func() {
				time.Sleep(3 * time.Second)
				raw, err := i.Clients.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", "10").DoRaw(context.Background())
				fmt.Println("PROFILE", len(raw), err)
				_ = os.WriteFile("/tmp/apiserver.pprof", raw, 0o600)
			}()
			var stops []func() (int64, int64)
			for _, tenant := range busy {
				stops = append(stops, tenant.busy(t.Context()))
			}
			loaded := third.p99(t)
			for _, stop := range stops {
				done, failed := stop()
				t.Logf("a busy tenant created %d, %d failed", done, failed)
			}
			t.Logf("p99 %s quiet, %s under load: ratio %.1f; the replica used %.2f processors", quiet, loaded, float64(loaded)/float64(quiet),
				(processorTime(t, r.PID())-cpu).Seconds()/time.Since(start).Seconds())
			if loaded > slower*quiet {
				t.Errorf("the third tenant's p99 is %.1f times the quiet one, want at most %d", float64(loaded)/float64(quiet), slower)
			}
		})
	}
}

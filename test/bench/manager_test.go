package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/controlplane"
)

// ourselves is whom managers run as, as where virtwright is installed.
const ourselves = "system:serviceaccount:virtwright-system:virtwright-manager"

func buildManager(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "virtwright-manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/virtwright-manager")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the manager: %v: %s", err, output)
	}
	return program
}

// A manager is a process that runs the controllers, as people run them.
type manager struct {
	cmd     *exec.Cmd
	metrics string
	log     lockedBuffer
}

func (f *fleet) startManager(t testing.TB) *manager {
	t.Helper()
	kubeconfig, err := f.plane.UserKubeconfig(ourselves, "system:masters", "system:serviceaccounts")
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{metrics: controlplane.FreeAddress(t)}
	m.cmd = exec.Command(f.program, "--kubeconfig="+kubeconfig, "--roles=controllers", "--leader-elect", "--namespace=default",
		"--metrics-bind-address="+m.metrics, "--health-probe-bind-address=0", "--shutdown-delay=0s",
		"--launcher-image=standin", "--kvm-resource=devices.kubevirt.io/kvm")
	m.cmd.Stderr = &m.log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of the manager:\n%s", m.log.String())
		}
	})
	return m
}

// stop ends the process, and returns when it is gone.
func (m *manager) stop(t testing.TB) {
	t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Wait(); err != nil {
		t.Fatalf("the manager did not end well: %v", err)
	}
}

// page is the manager's metrics; empty while it does not answer.
func (m *manager) page(t testing.TB) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.metrics+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// sum adds up the metrics of a name that have all these labels, as key="value".
func sum(page, name string, labels ...string) float64 {
	total := 0.0
lines:
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue lines
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		if err == nil {
			total += n
		}
	}
	return total
}

// sum is the same of the manager's metrics now.
func (m *manager) sum(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	return sum(m.page(t), name, labels...)
}

// controllers are those that look at every machine.
var controllers = []string{"virtual-machine", "name-conflict"}

// awaitIdle returns when each controller has looked at n machines or more, and has had nothing to
// do for so long that nothing can be left to look at again.
func (m *manager) awaitIdle(t testing.TB, n int, limit time.Duration) {
	t.Helper()
	looks, since := -1.0, time.Now()
	await(t, "the controllers have nothing left to do", limit, func() bool {
		page := m.page(t)
		busy := sum(page, "workqueue_depth") + sum(page, "controller_runtime_active_workers")
		for _, c := range controllers {
			if sum(page, "controller_runtime_reconcile_total", `controller="`+c+`"`) < float64(n) {
				busy++
			}
		}
		now := sum(page, "controller_runtime_reconcile_total")
		if busy > 0 || now != looks {
			looks, since = now, time.Now()
		}
		return time.Since(since) > 1500*time.Millisecond
	})
}

// summary is what the manager has done for each of n machines.
func (m *manager) summary(t testing.TB, n int) string {
	t.Helper()
	page := m.page(t)
	out := "of the manager, for each:"
	for _, method := range []string{"GET", "POST", "PATCH", "PUT"} {
		out += fmt.Sprintf(" %.2f %s,", sum(page, "rest_client_requests_total", `method="`+method+`"`)/float64(n), method)
	}
	for _, c := range controllers {
		out += fmt.Sprintf(" %.2f looks of %s,", sum(page, "controller_runtime_reconcile_total", `controller="`+c+`"`)/float64(n), c)
	}
	return out + fmt.Sprintf(" %.2f ms of processor", 1000*sum(page, "process_cpu_seconds_total")/float64(n))
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends to the buffer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

package bench

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/controlplane"
)

// home is the manager's own namespace.
const home = "virtwright-system"

// An installed manager serves and runs the controllers, with the arguments and within the memory
// that the chart gives it by default.
type installed struct {
	*manager

	program string
	args    []string
	health  string
	limit   int64         // of memory, in bytes
	began   time.Duration // processor time before the measurement
}

// install makes one that can be started.
func (f *fleet) install(b *testing.B) *installed {
	b.Helper()
	f.in(b, home)
	kubeconfig, err := f.plane.UserKubeconfig(ourselves, "system:masters", "system:serviceaccounts")
	if err != nil {
		b.Fatal(err)
	}
	chart, webhooks := described(b), controlplane.FreeAddress(b)
	m := &installed{
		manager: &manager{metrics: controlplane.FreeAddress(b)},
		program: f.program, health: controlplane.FreeAddress(b), limit: chart.Resources.Limits.Memory().Value(),
	}
	m.args = append(slices.Clip(chart.Args), "--kubeconfig="+kubeconfig, "--namespace="+home,
		"--metrics-bind-address="+m.metrics, "--health-probe-bind-address="+m.health, "--shutdown-delay=0s",
		"--webhook-bind-address="+webhooks, "--webhook-url=https://"+webhooks, "--register-webhooks",
		"--subresources-bind-address="+controlplane.FreeAddress(b))
	return m
}

// start returns when the manager has nothing left to do with n machines.
func (m *installed) start(b *testing.B, n int) {
	b.Helper()
	m.cmd, m.began = exec.Command(m.program, m.args...), 0
	m.cmd.Env = append(os.Environ(), fmt.Sprintf("MEMORY_LIMIT=%d", m.limit))
	m.cmd.Stderr = &m.log
	if err := m.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		if b.Failed() {
			b.Logf("end of the log of the manager:\n%s", m.log.String()[max(0, len(m.log.String())-20_000):])
		}
	})
	await(b, "the manager serves", 2*time.Minute, func() bool {
		response, err := http.Get("http://" + m.health + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK && strings.Contains(m.log.String(), "Registered webhooks")
	})
	m.settle(b, n)
}

// settle returns when the manager has nothing left to do, and API servers ask nothing more of it.
func (m *installed) settle(b *testing.B, n int) {
	b.Helper()
	const step, little = 15 * time.Second, 300 * time.Millisecond
	m.awaitIdle(b, n, 10*time.Minute)
	await(b, "the manager rests", 5*time.Minute, func() bool {
		before := used(b, m.cmd.Process.Pid)
		time.Sleep(step)
		return used(b, m.cmd.Process.Pid)-before < little
	})
}

// described is the container that the chart makes of its default values, but with certificates of
// the manager's own.
func described(b *testing.B) corev1.Container {
	b.Helper()
	helm := filepath.Join(b.TempDir(), "helm")
	if output, err := exec.CommandContext(b.Context(), "go", "build", "-C", "../chart/tool", "-o", helm, "helm.sh/helm/v3/cmd/helm").CombinedOutput(); err != nil {
		b.Fatalf("cannot build helm: %v: %s", err, output)
	}
	text, err := exec.CommandContext(b.Context(), helm, "template", "virtwright", "../../charts/virtwright", "--namespace="+home,
		"--kube-version=1.37.0", "--show-only=templates/deployment.yaml", "--set=certs.mode=self-signed").Output()
	if err != nil {
		b.Fatalf("cannot render the chart: %v", err)
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(text, &deployment); err != nil {
		b.Fatal(err)
	}
	return deployment.Spec.Template.Spec.Containers[0]
}

// memory is the process's memory in bytes, as the kernel reports it: VmRSS is resident now, VmHWM
// the most since forget.
func (m *installed) memory(b *testing.B, name string) int64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		b.Skipf("cannot read the memory of a process here: %v", err)
	}
	_, after, _ := strings.Cut(string(status), name+":")
	n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n << 10
}

// forget resets the peak.
func (m *installed) forget(b *testing.B) {
	b.Helper()
	m.began = used(b, m.cmd.Process.Pid)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.cmd.Process.Pid), []byte("5"), 0); err != nil {
		b.Fatalf("cannot forget the most memory that was: %v", err)
	}
}

// tell reports the most memory and the processor time that something took. That must leave some of
// what the chart grants.
func (m *installed) tell(b *testing.B, of string) {
	b.Helper()
	peak := m.memory(b, "VmHWM")
	b.ReportMetric(float64(peak)/(1<<20), of+"-peak-MiB")
	b.ReportMetric((used(b, m.cmd.Process.Pid) - m.began).Seconds(), of+"-cpu-s")
	if peak >= m.limit {
		b.Errorf("%s: %d MiB are more than the chart's limit of %d MiB", of, peak>>20, m.limit>>20)
	}
}

// tellRest reports what the manager takes when nothing happens: resident memory when garbage has
// been collected, which Go does every two minutes at the latest, and of a processor, in
// thousandths.
func (m *installed) tellRest(b *testing.B, of string) {
	b.Helper()
	const rest = 2*time.Minute + 15*time.Second
	m.began = used(b, m.cmd.Process.Pid)
	time.Sleep(rest)
	b.ReportMetric(float64(m.memory(b, "VmRSS"))/(1<<20), of+"-MiB")
	b.ReportMetric((used(b, m.cmd.Process.Pid)-m.began).Seconds()/rest.Seconds()*1000, of+"-millicores")
}

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/test/controlplane"
)

// A manager is a process that can be stopped and started again under the same addresses.
type manager struct {
	program string
	args    []string
	env     []string
	webhook string
	health  string
	metrics string
	log     lockedBuffer

	cmd   *exec.Cmd
	ended chan error
}

// gates are features that the stories and the manifests of other people use.
const gates = "HostDevices=true,HostDisk=true"

func newManager(program, kubeconfig string) *manager {
	GinkgoHelper()
	webhook, health, metrics := freeAddress(), freeAddress(), freeAddress()
	return &manager{program: program, webhook: webhook, health: health, metrics: metrics, args: []string{
		"--kubeconfig=" + kubeconfig, "--register-webhooks", "--serve-v1alpha2", // which the seed's stories use
		"--webhook-bind-address=" + webhook, "--webhook-url=https://" + webhook,
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
		"--shutdown-delay=0s", "--namespace=" + home, "--trusted-user=" + trusted,
		"--leader-elect", "--cert-secret=" + home + "/virtwright-serving",
		"--feature-gates=" + gates,
		"--launcher-image=virtwright/virtwright-launcher:e2e", "--kvm-resource=e2e.virtwright.dev/kvm",
	}}
}

func (m *manager) start() {
	GinkgoHelper()
	m.log.forget()
	m.cmd, m.ended = exec.Command(m.program, m.args...), make(chan error, 1)
	m.cmd.Env = append(append(os.Environ(), "POD_NAME=virtwright-0", "POD_UID=virtwright-0"), m.env...)
	m.cmd.Stderr = io.MultiWriter(&m.log, &heard)
	Expect(m.cmd.Start()).To(Succeed())
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(m.cmd, m.ended)
}

// stop ends the process with a signal and returns when it is gone.
func (m *manager) stop(signal os.Signal) {
	GinkgoHelper()
	Expect(m.cmd.Process.Signal(signal)).To(Succeed())
	Eventually(m.ended).Should(Receive())
}

func (m *manager) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(syscall.SIGKILL)
	}
}

// restartWith restarts the manager with more flags, until the story ends.
func (m *manager) restartWith(more ...string) {
	GinkgoHelper()
	m.restartIn(m.env, more...)
}

// restartIn is restartWith in another environment.
func (m *manager) restartIn(env []string, more ...string) {
	GinkgoHelper()
	usual, elsewhere := m.args, m.env
	DeferCleanup(func() { // also when it does not start
		m.env = elsewhere
		m.restart(usual)
	})
	m.env = env
	m.restart(append(slices.Clone(usual), more...))
}

// restart restarts the manager with other flags.
func (m *manager) restart(args []string) {
	GinkgoHelper()
	m.args = args
	if slices.Contains(args, "--mode=addon") {
		m.args = append(slices.Clone(args), addon()...)
	}
	m.stop(syscall.SIGTERM)
	m.start()
	m.awaitAnswering()
}

// awaitAnswering waits until API servers also know where this process is.
func (m *manager) awaitAnswering() {
	GinkgoHelper()
	m.awaitServing()
	here.waitForWebhooks()
	s := &story{ns: metav1.NamespaceDefault}
	Eventually(func() error {
		_, err := s.of(virtualMachine).Create(here.ctx, s.parse(vm("probe", "spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(Succeed())
}

// waitForWebhooks makes API servers wait for webhooks as long as they can, so that no request fails
// because the machine is busy.
func (w *world) waitForWebhooks() {
	GinkgoHelper()
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		api := w.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
		config, err := api.Get(w.ctx, "admission.virtwright.dev", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		webhooks, _, _ := unstructured.NestedSlice(config.Object, "webhooks")
		var patch []map[string]any
		for i := range webhooks {
			patch = append(patch, map[string]any{"op": "replace", "path": fmt.Sprintf("/webhooks/%d/timeoutSeconds", i), "value": 30})
		}
		raw, err := json.Marshal(patch)
		Expect(err).NotTo(HaveOccurred())
		_, err = api.Patch(w.ctx, config.GetName(), types.JSONPatchType, raw, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// awaitServing waits until the manager is ready and has registered its webhooks.
func (m *manager) awaitServing() {
	GinkgoHelper()
	Eventually(m.serves).Should(Succeed(), func() string { return m.log.tail(4 << 10) })
}

func (m *manager) serves() error {
	response, err := http.Get("http://" + m.health + "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz says %s", response.Status)
	}
	if !strings.Contains(m.log.tail(1<<20), "Registered webhooks") {
		return errors.New("webhooks are not registered yet")
	}
	return nil
}

func freeAddress() string {
	GinkgoHelper()
	return controlplane.FreeAddress(GinkgoTB())
}

type lockedBuffer struct {
	mu      sync.Mutex
	content []byte
	marked  int
}

// Write appends to the buffer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content = append(b.content, p...)
	return len(p), nil
}

// tail is the end of the output, at most n bytes.
func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.content[max(0, len(b.content)-n):])
}

func (b *lockedBuffer) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content, b.marked = nil, 0
}

// mark makes sinceMark begin here.
func (b *lockedBuffer) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marked = len(b.content)
}

func (b *lockedBuffer) sinceMark() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.content[b.marked:])
}

package kind

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// guests is the namespace of the VMs that run, clients that of pods without VMs.
	guests  = "guests"
	clients = "clients"
	// guestImage has the test guest: test/hypervisor says what it prints and answers.
	guestImage = "docker.io/virtwright/guest:test"
	// ready is the line after which the guest takes commands.
	ready = "GUEST ready"
	// page is what the guest answers HTTP requests with.
	page = "hello from the test guest"
)

// guestFiles are the namespaces of these stories, the profile that allows emulation and a preset by
// which a VM that has only a name boots the test guest.
const guestFiles = `
{apiVersion: v1, kind: Namespace, metadata: {name: guests, labels: {pod-security.kubernetes.io/enforce: restricted}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: clients, labels: {pod-security.kubernetes.io/enforce: restricted}}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota, namespace: guests},
  spec: {hard: {pods: "150", requests.cpu: "20", requests.memory: 100Gi, limits.cpu: "100", limits.memory: 100Gi}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: limits, namespace: guests},
  spec: {limits: [{type: Container, default: {cpu: "1", memory: 64Mi}, defaultRequest: {cpu: 50m, memory: 64Mi}}]}}
---
{apiVersion: virtwright.dev/v1alpha1, kind: BackendProfile, metadata: {name: emulation}, spec: {softwareEmulation: Allow}}
---
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: guest, namespace: guests}
spec:
  defaults:
    spec:
      runStrategy: Always
      template:
        spec:
          terminationGracePeriodSeconds: 30
          domain:
            memory: {guest: 192Mi}
            firmware:
              kernelBoot:
                kernelArgs: console=ttyS0 quiet panic=1 cryptomgr.notests
                container: {image: "docker.io/virtwright/guest:test", imagePullPolicy: IfNotPresent, kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd.img}
            devices:
              interfaces: [{name: default, masquerade: {}, ports: [{name: http, port: 8080}]}]
          networks: [{name: default, pod: {}}]
`

// guest is a VM with a name and, in JSON, a spec of its VMI.
func guest(name, vmiSpec string) string {
	if vmiSpec == "" {
		return fmt.Sprintf(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": %q, "namespace": "guests"}}`, name)
	}
	return fmt.Sprintf(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": %q, "namespace": "guests"},
		"spec": {"template": {"spec": %s}}}`, name, vmiSpec)
}

// launcherOf is the pod of a VMI.
func launcherOf(name string) string { return "virt-launcher-" + name }

// console is what a guest has printed: the log of its pod.
func console(name string) string {
	out, _, _ := run("kubectl", "", "logs", "--namespace", guests, "--container=compute", launcherOf(name)) // no pod: nothing
	return out
}

// awaitGuest waits until a guest takes commands, and returns what it has printed.
func awaitGuest(name string) string {
	GinkgoHelper()
	Eventually(func() string { return console(name) }).WithTimeout(3 * time.Minute).Should(ContainSubstring(ready))
	return console(name)
}

// vmi is a field of a VMI, empty if there is no VMI.
func vmi(name, path string) string {
	out, _, _ := run("kubectl", "", "get", "vmi", name, "--namespace", guests, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
	return out
}

// onNode runs a shell command on the node of a guest.
func onNode(name, script string) string {
	GinkgoHelper()
	node := vmi(name, ".status.nodeName")
	Expect(node).NotTo(BeEmpty())
	out, err := here.cluster.Exec(here.ctx, node, "sh", "-c", script)
	Expect(err).NotTo(HaveOccurred(), out)
	return strings.TrimSpace(out)
}

// process finds the process of a guest's QEMU on its node.
func process(name string) string {
	return fmt.Sprintf("$(pgrep -f '^/usr/bin/qemu-system-x86_64 -name guest=%s_%s,')", guests, name)
}

// A follower reads a log until its pod has ended.
type follower struct {
	mu  sync.Mutex
	out bytes.Buffer
}

// Write takes what the log says.
func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *follower) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

// follow reads what a guest prints from now on, also while its pod ends.
func follow(name string) *follower {
	f := &follower{}
	start(f, nil, "kubectl", "logs", "--namespace", guests, "--container=compute", "--tail=1", "--follow", launcherOf(name))
	return f
}

// start starts a tool that ends with the story.
func start(out *follower, stdin *os.File, tool string, args ...string) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(here.ctx)
	if tool == "kubectl" {
		tool = filepath.Join(here.tools, tool)
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+here.cluster.Kubeconfig(), "KUBERC=off")
	cmd.Stdout, cmd.Stderr = out, out
	if stdin != nil {
		cmd.Stdin = stdin
	}
	Expect(cmd.Start()).To(Succeed())
	DeferCleanup(func() {
		cancel()
		_ = cmd.Wait() // it was ended
	})
}

// client is a pod with the busybox of the guest's image, that waits.
func client(name string) string {
	return clientOf(name, guestImage, "")
}

// clientOf is a pod of an image that waits by a copy of busybox, in a folder with the guest's
// files.
func clientOf(name, image, resources string) string {
	const confined = `securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}`
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: clients},
  spec: {automountServiceAccountToken: false, terminationGracePeriodSeconds: 0,
    securityContext: {runAsNonRoot: true, runAsUser: 107, runAsGroup: 107, fsGroup: 107, seccompProfile: {type: RuntimeDefault}},
    initContainers: [{name: files, image: %q, imagePullPolicy: IfNotPresent, %s,
      command: [/bin/busybox, cp, -r, /bin/busybox, /boot, /files], volumeMounts: [{name: files, mountPath: /files}]}],
    containers: [{name: main, image: %q, imagePullPolicy: IfNotPresent, %s, command: [/files/busybox, sleep, "86400"], %s
      volumeMounts: [{name: files, mountPath: /files}, {name: tmp, mountPath: /tmp}]}],
    volumes: [{name: files, emptyDir: {}}, {name: tmp, emptyDir: {}}]}}`, name, guestImage, confined, image, confined, resources)
}

// busybox runs one of busybox's programs in a client.
func busybox(pod string, args ...string) (string, error) {
	command := append([]string{"exec", "--namespace", clients, pod, "--", "/files/busybox"}, args...)
	out, _, err := run("kubectl", "", command...)
	return strings.TrimSpace(out), err
}

// awaitClient waits until a client takes commands.
func awaitClient(name string) {
	GinkgoHelper()
	kubectl("wait", "pod", name, "--namespace", clients, "--for=condition=Ready", "--timeout=2m")
}

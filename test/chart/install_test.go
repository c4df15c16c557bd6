package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/virtwright/virtwright/test/controlplane"
)

// An installation is one on a control plane without nodes: the manager runs
// beside it, with the arguments and the rights that the chart gives a pod.
type installation struct {
	*testing.T
	*controlplane.ControlPlane

	address string // of this machine, which API servers take for a pod's
	health  string
	log     lockedBuffer
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// pod is the name under which the manager tells of itself.
const pod = "virtwright-0"

const sparse = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: default, labels: {size: small}},
spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}`

const small = `
apiVersion: virtwright.dev/v1alpha1
kind: VirtualMachinePreset
metadata: {name: small, namespace: default}
spec:
  match: {labels: {matchLabels: {size: small}}}
  defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}
`

// A cluster takes the chart, the manager does its work with the rights it is
// given, an upgrade keeps what people made, and nothing blocks once it is gone.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	i := &installation{T: t, ControlPlane: controlplane.ForTest(t, controlplane.Options{APIServerArgs: []string{"--enable-aggregator-routing=true"}}), address: ownAddress(t)}
	_, stderr, err := i.helm("install", release, folder)
	if err == nil || !strings.Contains(stderr, "cert-manager is not installed in this cluster") || !strings.Contains(stderr, "certs.mode=self-signed") {
		t.Errorf("without cert-manager: %v %s", err, stderr)
	}
	i.must("install", release, folder, "--set", "certs.mode=self-signed")
	i.run()
	i.kubectl(small, "apply", "-f", "-")
	i.eventually("the preset acts", func() error {
		_ = i.try(fmt.Sprintf(sparse, "web"), "create", "-f", "-")
		if out := i.kubectl("", "get", "vm", "web", "-o", "jsonpath={.spec.template.spec.domain.memory.guest}"); out != "1Gi" {
			i.kubectl("", "delete", "vm", "web", "--ignore-not-found")
			return fmt.Errorf("memory is %q", out)
		}
		return nil
	})
	i.eventually("the preset has a status", func() error {
		return i.is("vmpreset/small", `{.status.conditions[?(@.type=="Ready")].status}`, "True")
	})
	if err := i.try("", "patch", "vm", "web", "--type=merge", "-p", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`); err == nil || !strings.Contains(err.Error(), "owner-references") {
		t.Errorf("an edit of owner references: %v", err)
	}
	i.kubectl("", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
	i.put("start")
	i.eventually("start", func() error { return i.is("vm/web", "{.status.printableStatus}", "Starting") })
	i.put("stop")
	i.eventually("stop", func() error { return i.is("vm/web", "{.status.printableStatus}", "Stopped") })
	i.eventually("v1alpha2 is served", func() error {
		return i.try("", "get", "--raw", "/apis/kubevirt.io/v1alpha2/namespaces/default/virtualmachines/web")
	})
	i.selfTest()

	i.must("upgrade", release, folder, "--set", "certs.mode=self-signed", "--set", "presetConflicts=reject", "--set", "trustedUsers={ada}")
	if err := i.is("vm/web", "{.spec.template.spec.domain.memory.guest}", "1Gi"); err != nil {
		t.Error(err)
	}
	i.eventually("the policy knows who is trusted now", func() error {
		return i.try("", "patch", "vm", "web", "--as=ada", "--as-group=system:masters", "--type=merge", "-p", `{"metadata":{"finalizers":["virtwright.dev/x"]}}`)
	})
	i.kubectl("", "patch", "vm", "web", "--as=ada", "--as-group=system:masters", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	i.selfTest()
	if strings.Contains(i.log.String(), "forbidden") {
		t.Errorf("the manager lacks rights:\n%s", i.log.String())
	}

	i.must("uninstall", release)
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "clusterrole", "clusterrolebinding"} {
		if out := i.kubectl("", "get", kind, "-o", "name"); strings.Contains(out, "virtwright") {
			t.Errorf("left behind: %s", out)
		}
	}
	if out := i.kubectl("", "get", "apiservice", "-o", "name"); strings.Contains(out, "subresources") {
		t.Errorf("left behind: %s", out)
	}
	if err := i.is("vm/web", "{.spec.template.spec.domain.memory.guest}", "1Gi"); err != nil {
		t.Errorf("machines and their CRDs should stay: %v", err)
	}
	i.eventually("machines are created as they are", func() error { return i.try(fmt.Sprintf(sparse, "later"), "create", "-f", "-") })
	i.kubectl("", "create", "namespace", "short-lived")
	i.kubectl("", "delete", "namespace", "short-lived", "--timeout=60s")
}

// ownAddress is one of this machine that is not its own only.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but the loopback, which no Endpoint may have")
	return ""
}

func (i *installation) helm(args ...string) (stdout, stderr string, err error) {
	i.Helper()
	if args[0] == "install" {
		args = append(args, "--create-namespace")
	}
	return helm(i.T, append(args, "--kubeconfig", i.Kubeconfig(), "--namespace", namespace)...)
}

func (i *installation) must(args ...string) {
	i.Helper()
	if out, stderr, err := i.helm(args...); err != nil {
		i.Fatalf("helm %s: %v: %s%s", strings.Join(args, " "), err, stderr, out)
	}
}

func (i *installation) kubectl(stdin string, args ...string) string {
	i.Helper()
	out, stderr, err := i.Kubectl(i.Context(), stdin, args...)
	if err != nil {
		i.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr)
	}
	return out
}

func (i *installation) try(stdin string, args ...string) error {
	i.Helper()
	_, stderr, err := i.Kubectl(i.Context(), stdin, args...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return nil
}

func (i *installation) is(object, path, want string) error {
	i.Helper()
	out, stderr, err := i.Kubectl(i.Context(), "", "get", object, "-o", "jsonpath="+path)
	if err != nil || out != want {
		return fmt.Errorf("%s %s is %q, want %q (%w %s)", object, path, out, want, errors.Join(err), stderr)
	}
	return nil
}

func (i *installation) eventually(what string, ask func() error) {
	i.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	i.Fatalf("%s: %v\n%s", what, err, i.log.String()[max(0, len(i.log.String())-20000):])
}

// run starts the manager as the pod that the chart describes, and says to API
// servers that it is one.
func (i *installation) run() {
	i.Helper()
	args := strings.Fields(strings.Trim(i.kubectl("", "get", "deployment", release, "-n", namespace, "-o", `jsonpath={.spec.template.spec.containers[0].args[*]}`), "'"))
	kubeconfig, err := i.UserKubeconfig("system:serviceaccount:"+namespace+":"+release, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
	if err != nil {
		i.Fatal(err)
	}
	ports := map[string]int32{"webhooks": freePort(i.T), "subresources": freePort(i.T)}
	i.health = fmt.Sprintf("127.0.0.1:%d", freePort(i.T))
	args = append(args, "--kubeconfig="+kubeconfig, "--namespace="+namespace, "--metrics-bind-address=0", "--health-probe-bind-address="+i.health, "--shutdown-delay=0s",
		fmt.Sprintf("--webhook-bind-address=:%d", ports["webhooks"]), fmt.Sprintf("--subresources-bind-address=:%d", ports["subresources"]))
	cmd := exec.CommandContext(i.Context(), program(i.T, "virtwright-manager"), args...)
	cmd.Stderr = &i.log
	cmd.Env = append(os.Environ(), "POD_NAME="+pod, "POD_UID="+pod)
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for name, port := range ports {
		i.endpoint(name, port)
	}
	i.eventually("the manager is ready", i.ready)
}

// ready is nil while the manager is.
func (i *installation) ready() error {
	response, err := http.Get("http://" + i.health + "/readyz?verbose")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s (%w)", response.Status, body, errors.Join(err))
	}
	return nil
}

// endpoint says where a service is.
func (i *installation) endpoint(name string, port int32) {
	i.Helper()
	clients := kubernetes.NewForConfigOrDie(i.Config())
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: release + "-" + name + "-outside", Labels: map[string]string{discoveryv1.LabelServiceName: release + "-" + name, discoveryv1.LabelManagedBy: "a-test"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{i.address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(name), Port: new(port), Protocol: new(corev1.ProtocolTCP)}},
	}
	if _, err := clients.DiscoveryV1().EndpointSlices(namespace).Create(i.Context(), slice, metav1.CreateOptions{}); err != nil {
		i.Fatal(err)
	}
}

// put calls a verb of the machine web.
func (i *installation) put(verb string) {
	i.Helper()
	clients := kubernetes.NewForConfigOrDie(i.Config())
	i.eventually(verb, func() error {
		return clients.Discovery().RESTClient().Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/" + verb).Do(i.Context()).Error()
	})
}

// selfTest asks as "helm test" does, with the rights that the chart gives it.
func (i *installation) selfTest() {
	i.Helper()
	hooks, _, err := i.helm("get", "hooks", release)
	if err != nil {
		i.Fatal(err)
	}
	var rights []string
	for document := range strings.SplitSeq(hooks, "\n---\n") {
		if !strings.Contains(document, "kind: Pod\n") {
			rights = append(rights, document)
		}
	}
	i.kubectl(strings.Join(rights, "\n---\n"), "apply", "-n", namespace, "-f", "-")
	kubeconfig, err := i.UserKubeconfig("system:serviceaccount:"+namespace+":"+release+"-test", "system:serviceaccounts", "system:authenticated")
	if err != nil {
		i.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(i.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(i.T, "virtwright-manager"), "--self-test", "--subresources-bind-address=:9444", "--kubeconfig="+kubeconfig).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "reach start, stop and restart.") {
		i.Errorf("self-test: %v: %s", err, out)
	}
	i.kubectl(strings.Join(rights, "\n---\n"), "delete", "-n", namespace, "-f", "-")
}

func freePort(t *testing.T) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

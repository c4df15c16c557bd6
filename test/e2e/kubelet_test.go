package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/virtwright/virtwright/launcher/podspec"
)

var (
	nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// A kubelet is a node of a story that executes commands in pods, by the library of container
// runtimes. What executes them answers as a launcher does, and its guest echoes.
type kubelet struct {
	story *story
	node  string

	mu       sync.Mutex
	paused   bool
	commands []string
	open     int
}

// kubelet adds a node to the cluster, until the story ends.
func (s *story) kubelet() *kubelet {
	GinkgoHelper()
	k := &kubelet{story: s, node: "node-of-" + s.ns}
	server := httptest.NewTLSServer(http.HandlerFunc(k.exec))
	DeferCleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	node := s.parse("{apiVersion: v1, kind: Node, metadata: {name: " + k.node + "}}")
	node.SetNamespace("")
	_, err = here.client.Resource(nodes).Create(here.ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(here.client.Resource(nodes).Delete, here.ctx, k.node, metav1.DeleteOptions{})
	_, err = here.client.Resource(nodes).Patch(here.ctx, k.node, types.MergePatchType,
		[]byte(`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": {"kubeletEndpoint": {"Port": `+port+`}}}}`), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
	return k
}

// exec answers /exec/NAMESPACE/POD/CONTAINER.
func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	path := strings.Split(r.URL.Path, "/")
	if err != nil || len(path) != 5 {
		http.Error(w, "want exec", http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, k, path[3], "", path[4], r.URL.Query()["command"], options, time.Hour, time.Minute, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer answers as LauncherControl.
func (k *kubelet) ExecInContainer(_ context.Context, pod, _, container string, command []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	input := bufio.NewReader(in)
	action, err := input.ReadString('\n')
	if err != nil {
		return err
	}
	action = strings.TrimSpace(action)
	k.count(1, strings.Join(slices.Concat([]string{pod, container}, command, []string{action}), " "))
	defer k.count(-1)
	answer, devices := k.act(action), map[string]string{"console": "login: ", "vnc": "RFB 003.008\n", "portforward 22": "SSH-2.0\n"}
	greeting, device := devices[action]
	if _, err := fmt.Fprintln(out, answer); err != nil || !device || answer != "ok" {
		return err
	}
	if _, err := io.WriteString(out, greeting); err != nil {
		return err
	}
	for { // a guest that echoes, and ends at "exit"
		line, err := input.ReadString('\n')
		if err != nil || line == "exit\n" {
			return nil // the client left
		}
		if _, err := io.WriteString(out, line); err != nil {
			return nil // the client left
		}
	}
}

// act is the answer to an action.
func (k *kubelet) act(action string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case action == "pause" && k.paused:
		return "conflict VMI is already paused"
	case action == "unpause" && !k.paused:
		return "conflict VMI is not paused"
	case action == "softreboot" && k.paused:
		return "failed the guest agent is away"
	}
	k.paused = action == "pause" || k.paused && action != "unpause"
	return "ok"
}

func (k *kubelet) count(open int, commands ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open += open
	k.commands = append(k.commands, commands...)
}

// executes is how many commands run.
func (k *kubelet) executes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// executed are the commands so far, each as POD CONTAINER COMMAND ACTION.
func (k *kubelet) executed() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.commands)
}

// runs creates a VMI that runs in a pod on the node, as its controller would.
func (k *kubelet) runs(name, change string) (vmi, pod object) {
	GinkgoHelper()
	s := k.story
	vmi = s.create(strings.Replace(tinyInstance(name, ""), "devices: {}", "devices: {"+change+"}", 1))
	pod = k.pod(vmi)
	s.claimed(name, `"phase": "Running", "nodeName": "`+k.node+`", "activePods": {"`+string(pod.GetUID())+`": "`+k.node+`"}`)
	return s.get(instance, name), pod
}

// pod creates the pod of a VMI, on the node.
func (k *kubelet) pod(vmi object) object {
	GinkgoHelper()
	of := here.client.Resource(pods).Namespace(k.story.ns)
	pod := k.story.parse(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, name: %s, uid: %s, controller: true}]},
spec: {nodeName: %s, automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, containers: [{name: compute, image: none}]}}`, podspec.Name(vmi.GetName()), vmi.GetName(), vmi.GetUID(), k.node))
	Eventually(func() error { // until the namespace has its service account
		out, err := of.Create(here.ctx, pod, metav1.CreateOptions{})
		if err == nil {
			pod = out
		}
		return err
	}).Should(Succeed())
	out, err := of.Patch(here.ctx, pod.GetName(), types.MergePatchType, []byte(`{"status": {"phase": "Running"}}`), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
	return out
}

// paused are reason and message of a VMI's condition Paused; empty for none.
func (s *story) paused(name string) string {
	GinkgoHelper()
	var vmi struct {
		Status struct{ Conditions []metav1.Condition }
	}
	raw, err := json.Marshal(s.get(instance, name).Object)
	Expect(err).NotTo(HaveOccurred())
	Expect(json.Unmarshal(raw, &vmi)).To(Succeed())
	for _, c := range vmi.Status.Conditions {
		if c.Type == "Paused" {
			return string(c.Status) + " " + c.Reason + " " + c.Message + " " + strconv.FormatBool(!c.LastTransitionTime.IsZero())
		}
	}
	return ""
}

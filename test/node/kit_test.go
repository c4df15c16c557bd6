package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/test/hypervisor"
)

// patience is how long anything may take; guests boot under emulation, on a
// machine that has other things to do.
const patience = 90 * time.Second

// A stage is a node with an agent, and a namespace.
type stage struct {
	*testing.T
	ctx    context.Context
	daemon *hypervisor.Daemon
	client client.Client
	node   string
	ns     string
	flags  []string
	agent  *exec.Cmd
	log    string
}

// newStage is a node of its own, ready for instances.
func newStage(t *testing.T, flags ...string) *stage {
	t.Helper()
	hypervisor.Require(t)
	if plane == nil {
		t.Skip("needs a control plane")
	}
	s := &stage{T: t, ctx: t.Context(), daemon: hypervisor.Start(t)}
	must(t, kubevirtv1.AddToScheme(clientgoscheme.Scheme))
	var err error
	s.client, err = client.New(plane.Config(), client.Options{Scheme: clientgoscheme.Scheme})
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-"}}
	must(t, s.client.Create(s.ctx, ns))
	s.ns, s.node = ns.Name, "node-"+ns.Name
	s.images()
	kubeconfig := s.identity()
	s.log = filepath.Join(s.daemon.Dir, "agent.log")
	s.flags = append([]string{
		"--kubeconfig=" + kubeconfig, "--node-name=" + s.node, "--libvirt-socket=" + s.daemon.Socket, "--libvirt-uri=qemu:///session",
		"--state-dir=" + s.dir("n"), "--volumes-dir=" + s.dir("v"), "--images-dir=" + s.dir("i"), "--host-disk-dirs=" + s.dir("h"),
		"--kvm=false", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-format=text", "--log-level=debug",
	}, flags...)
	t.Cleanup(s.leave)
	s.startAgent()
	return s
}

// dir is a folder of the daemon's.
func (s *stage) dir(name string) string { return filepath.Join(s.daemon.Dir, name) }

// images puts the guest's kernel where the agent looks for it.
func (s *stage) images() {
	s.Helper()
	guest := s.daemon.Guest(s.T)
	boot := filepath.Join(s.dir("i"), "lab.example%2Fguest:1", "kernel-boot")
	for _, dir := range []string{boot, s.dir("n"), s.dir("v"), s.dir("h")} {
		must(s.T, os.MkdirAll(dir, 0o755))
	}
	must(s.T, os.Rename(guest.Kernel, filepath.Join(boot, "vmlinuz")))
	must(s.T, os.Rename(guest.Initrd, filepath.Join(boot, "initrd")))
	for _, dir := range []string{"i", "n", "v", "h"} {
		must(s.T, s.daemon.Own(s.dir(dir)))
	}
}

// identity makes the Node, and a kubeconfig with a token of the agent's that is
// bound to a pod there, as a kubelet would give it.
func (s *stage) identity() string {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node, Labels: map[string]string{"node": s.node, corev1.LabelArchStable: "amd64"}}}
	must(s.T, s.client.Create(s.ctx, node))
	node.Spec.Taints = nil // nobody says that it is ready
	must(s.T, s.client.Update(s.ctx, node))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: s.node}, Spec: corev1.PodSpec{
		NodeName: s.node, ServiceAccountName: "virtwright-node", Containers: []corev1.Container{{Name: "agent", Image: "agent"}},
	}}
	must(s.T, s.client.Create(s.ctx, pod))
	clients, err := kubernetes.NewForConfig(plane.Config())
	must(s.T, err)
	token, err := clients.CoreV1().ServiceAccounts(home).CreateToken(s.ctx, "virtwright-node", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}, metav1.CreateOptions{})
	must(s.T, err)
	file, err := s.daemon.File("kubeconfig-*", kubeconfigOf(plane.Config(), token.Status.Token))
	must(s.T, err)
	return file
}

func kubeconfigOf(config *rest.Config, token string) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %s}}],
"users": [{"name": "c", "user": {"token": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`,
		config.Host, encoded(config.CAData), token)
}

func encoded(bytes []byte) string {
	text, _ := json.Marshal(bytes)
	return string(text)
}

// startAgent starts the agent.
func (s *stage) startAgent() {
	s.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(s.T, err)
	defer log.Close()
	s.agent = s.daemon.Command(context.WithoutCancel(s.ctx), filepath.Join(programs, "virtwright-node"), s.flags...)
	s.agent.Stderr = log
	must(s.T, s.agent.Start())
}

// killAgent ends the agent at once.
func (s *stage) killAgent() {
	if s.agent != nil {
		_ = s.agent.Process.Signal(syscall.SIGKILL)
		_ = s.agent.Wait()
		s.agent = nil
	}
}

// leave ends the agent and lets the instances go that are left.
func (s *stage) leave() {
	s.killAgent()
	if s.Failed() {
		log, _ := os.ReadFile(s.log)
		s.Logf("the agent's log:\n%s", log)
		if names, err := s.daemon.Virsh("list", "--all"); err == nil {
			s.Logf("domains:\n%s", names)
		}
	}
	_, _, _ = plane.Kubectl(context.Background(), "", "delete", "vm,vmi", "--all", "-n", s.ns, "--wait=false")
	var left kubevirtv1.VirtualMachineInstanceList
	if err := s.client.List(context.Background(), &left, client.InNamespace(s.ns)); err == nil {
		for i := range left.Items {
			s.release(left.Items[i].Name)
		}
	}
}

// release takes the agent's finalizer off, as an administrator of a node would
// that is lost.
func (s *stage) release(name string) {
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	_ = s.as(trusted).Patch(context.Background(), vmi, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))
}

func inNamespace(ns string) client.DeleteAllOfOption { return client.InNamespace(ns) }

// as is the client of somebody with all rights.
func (s *stage) as(user string) client.Client {
	config := plane.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	must(s.T, err)
	return c
}

// vmOf is a machine for the lab's preset: the run state, and the spec of its
// template.
func vmOf(name, run, spec string) string {
	return fmt.Sprintf(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s, namespace: default, labels: {lab: "yes"}}
spec:
  %s
  template:
    metadata: {labels: {vm: %s}}
    spec:
      %s
`, name, run, name, strings.ReplaceAll(spec, "\n", "\n      "))
}

// create makes a machine that only this stage's node may run: one for the lab's
// preset, if cloud-init is to see it.
func (s *stage) create(name, run, spec string) {
	s.Helper()
	manifest := vmOf(name, run, "nodeSelector: {node: "+s.node+"}\n"+spec)
	if !strings.Contains(spec, "cloudInit") { // nothing to boot
		manifest = strings.Replace(manifest, `lab: "yes"`, `lab: "no"`, 1)
	}
	s.kubectl(strings.Replace(manifest, "namespace: default", "namespace: "+s.ns, 1), "create", "-f", "-")
}

func (s *stage) kubectl(stdin string, args ...string) string {
	s.Helper()
	out, errs, err := plane.Kubectl(s.ctx, stdin, args...)
	if err != nil {
		s.Fatalf("%v: %s", err, errs)
	}
	return out
}

// patch changes a machine's spec.
func (s *stage) patch(name, merge string) {
	s.Helper()
	s.kubectl("", "patch", "vm", name, "-n", s.ns, "--type=merge", "-p", merge)
}

// instance is the instance of a name; nil for none.
func (s *stage) instance(name string) *kubevirtv1.VirtualMachineInstance {
	s.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	err := s.client.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: name}, vmi)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.T, err)
	return vmi
}

func (s *stage) vm(name string) *kubevirtv1.VirtualMachine {
	s.Helper()
	vm := &kubevirtv1.VirtualMachine{}
	must(s.T, s.client.Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: name}, vm))
	return vm
}

// until waits until an instance is as told, and returns it.
func (s *stage) until(name, what string, is func(*kubevirtv1.VirtualMachineInstance) bool) *kubevirtv1.VirtualMachineInstance {
	s.Helper()
	var vmi *kubevirtv1.VirtualMachineInstance
	s.eventually(what, func() error {
		if vmi = s.instance(name); is(vmi) {
			return nil
		}
		if vmi == nil {
			return fmt.Errorf("there is no instance %s", name)
		}
		text, _ := json.Marshal(vmi.Status)
		return fmt.Errorf("%s: %s", name, text)
	})
	return vmi
}

func (s *stage) phase(name string, want kubevirtv1.VirtualMachineInstancePhase) *kubevirtv1.VirtualMachineInstance {
	s.Helper()
	return s.until(name, "phase "+string(want), func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi != nil && vmi.Status.Phase == want })
}

// trouble waits until an instance says why it is not as it shall be.
func (s *stage) trouble(name, reason, words string) {
	s.Helper()
	s.until(name, "Synchronized=False "+reason, func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		c := condition(vmi, kubevirtv1.VirtualMachineInstanceSynchronized)
		return c != nil && c.Status == corev1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, words)
	})
}

func condition(vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) *kubevirtv1.VirtualMachineInstanceCondition {
	if vmi == nil {
		return nil
	}
	i := slices.IndexFunc(vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &vmi.Status.Conditions[i]
}

// console is that of an instance's guest.
func (s *stage) console(vmi *kubevirtv1.VirtualMachineInstance) hypervisor.Console {
	return hypervisor.Console(filepath.Join(s.dir("n"), string(vmi.UID), "virt-serial0-log"))
}

// typeLine types on the console of an instance's guest, and stays until that has
// read it: QEMU drops what it has not read when who typed it leaves.
func (s *stage) typeLine(vmi *kubevirtv1.VirtualMachineInstance, line, event string) {
	s.Helper()
	console, err := net.Dial("unix", filepath.Join(s.dir("n"), string(vmi.UID), "virt-serial0"))
	must(s.T, err)
	defer func() { _ = console.Close() }()
	_, err = console.Write([]byte(line + "\n"))
	must(s.T, err)
	s.event(vmi, event)
}

// boots waits until the guest of an instance has told of its hardware.
func (s *stage) boots(vmi *kubevirtv1.VirtualMachineInstance) hypervisor.Facts {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	facts, err := s.console(vmi).Ready(ctx)
	must(s.T, err)
	return facts
}

func (s *stage) event(vmi *kubevirtv1.VirtualMachineInstance, event string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	must(s.T, s.console(vmi).Event(ctx, event))
}

// domains are the names of all domains of the host.
func (s *stage) domains() string {
	s.Helper()
	out, err := s.daemon.Virsh("list", "--all", "--name")
	must(s.T, err)
	return strings.Join(strings.Fields(out), " ")
}

func (s *stage) domainOf(name string) string { return domain.Name(s.ns, name) }

// clean waits until nothing is left of any instance on the host.
func (s *stage) clean() {
	s.Helper()
	s.eventually("nothing is left", func() error {
		if left := s.domains(); left != "" {
			return fmt.Errorf("domains %s are left", left)
		}
		entries, err := os.ReadDir(s.dir("n"))
		if err != nil || len(entries) > 0 {
			return fmt.Errorf("%d folders are left: %w", len(entries), err)
		}
		return nil
	})
}

func (s *stage) eventually(what string, is func() error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	if err := eventuallyIs(ctx, what, is); err != nil {
		s.Fatal(err)
	}
}

func eventuallyIs(ctx context.Context, what string, is func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := is()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("never %s: %w", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:19443"
	}
	defer listener.Close()
	return listener.Addr().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

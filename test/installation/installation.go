package installation

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/virtwright/virtwright/test/controlplane"
)

// An Installation is one on a control plane without nodes.
type Installation struct {
	*testing.T
	*controlplane.ControlPlane

	// Clients of the administrator.
	Clients *kubernetes.Clientset

	// Address is one of this machine, which API servers take for a pod's.
	Address string

	mu       sync.Mutex
	replicas []*Replica // those that have not ended
}

// New starts a control plane to install on, with more flags of kube-apiserver.
func New(t *testing.T, args ...string) *Installation {
	t.Helper()
	return NewWith(t, controlplane.Options{APIServerArgs: args})
}

// NewWith is New with all options of a control plane.
func NewWith(t *testing.T, options controlplane.Options) *Installation {
	t.Helper()
	options.APIServerArgs = append(options.APIServerArgs, "--enable-aggregator-routing=true")
	cp := controlplane.ForTest(t, options)
	address := ownAddress(t)
	clients, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &Installation{T: t, ControlPlane: cp, Clients: clients, Address: address}
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

// Helm runs helm on the cluster, in the installation's namespace.
func (i *Installation) Helm(verb string, args ...string) (stdout, stderr string, err error) {
	i.Helper()
	args = append([]string{verb}, args...)
	if verb == "install" {
		args = append(args, "--create-namespace")
	}
	return Helm(i.T, append(args, "--kubeconfig", i.Kubeconfig(), "--namespace", Namespace)...)
}

// MustHelm ends the test unless helm succeeds.
func (i *Installation) MustHelm(verb string, args ...string) {
	i.Helper()
	if out, stderr, err := i.Helm(verb, args...); err != nil {
		i.Fatalf("helm %s %s: %v: %s%s", verb, strings.Join(args, " "), err, stderr, out)
	}
}

// Must ends the test unless kubectl succeeds, and returns what it printed.
func (i *Installation) Must(stdin string, args ...string) string {
	i.Helper()
	out, stderr, err := i.Kubectl(i.Context(), stdin, args...)
	if err != nil {
		i.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr)
	}
	return out
}

// Try runs kubectl and returns what it complained of.
func (i *Installation) Try(stdin string, args ...string) error {
	i.Helper()
	_, stderr, err := i.Kubectl(i.Context(), stdin, args...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr)
	}
	return nil
}

// Is is nil where a JSON path of an object is what it should be.
func (i *Installation) Is(object, path, want string) error {
	i.Helper()
	out, stderr, err := i.Kubectl(i.Context(), "", "get", object, "-o", "jsonpath="+path)
	if err != nil || out != want {
		return fmt.Errorf("%s %s is %q, want %q (%w %s)", object, path, out, want, errors.Join(err), stderr)
	}
	return nil
}

// Eventually asks until the answer is nil, and ends the test after a minute.
func (i *Installation) Eventually(what string, ask func() error) {
	i.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	i.Fatalf("%s: %v", what, err)
}

// User is a kubeconfig of a service account of the installation.
func (i *Installation) User(account string) string {
	i.Helper()
	return i.Account(Namespace, account)
}

// Account is a kubeconfig of a service account.
func (i *Installation) Account(namespace, name string) string {
	i.Helper()
	kubeconfig, err := i.UserKubeconfig("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
	if err != nil {
		i.Fatal(err)
	}
	return kubeconfig
}

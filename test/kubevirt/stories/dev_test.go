package stories

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/kubevirt"
)

// devVariable makes TestDev run.
const devVariable = "VIRTWRIGHT_DEV"

// TestDev is "make dev-kubevirt": a cluster with the example presets, until it is interrupted.
func TestDev(t *testing.T) {
	if os.Getenv(devVariable) == "" {
		t.Skip("is not a test: make dev-kubevirt runs it")
	}
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Println("Starting a Kubernetes control plane, KubeVirt and virtwright; building them takes minutes the first time")
	c := kubevirt.Start(t, kubevirt.Options{})
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	c.Must("", "apply", "-f", root+"/examples/namespaces.yaml", "-f", root+"/examples/presets")
	c.Must("", "wait", "--for=condition=Ready", "cvmpreset", "--all", "--timeout=60s")
	c.Must("", "wait", "--for=condition=Ready", "vmpreset", "--all", "-n", "lab", "--timeout=60s")
	assets, err := controlplane.Assets(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := controlplane.KubectlPath(assets)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf(`
Ready. In another terminal, from %s:
  export KUBECONFIG=%s
  alias kubectl=%s virtctl=%s virtwright=%s/bin/virtwright

  kubectl create -f examples/vms/tiny.yaml               # presets complete it, then KubeVirt starts it
  kubectl get vm,vmi,pod -n lab
  kubectl get vm tiny -n lab -o yaml | virtwright explain -f -
  virtctl migrate tiny -n lab
  virtctl stop tiny -n lab

virt-api and virt-controller are KubeVirt's own programs. Their nodes are simulated, and no guest
runs. Annotate a VMI with node.virtwright.dev/guest=shutdown, crash or hang to see other ends.

Logs are in %s; Ctrl-C stops everything.
`, root, c.Kubeconfig(), kubectl, c.VirtctlPath(), root, c.Dir())
	<-interrupted.Done()
	stop() // a second interrupt ends the process at once
}

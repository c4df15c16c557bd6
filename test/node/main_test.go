package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/virtwright/virtwright/test/controlplane"
)

const (
	root = "../.."
	// home is the namespace of virtwright.
	home = "virtwright-system"
	// agentUser is whom agents write as.
	agentUser = "system:serviceaccount:" + home + ":virtwright-node"
	// trusted may write what is guarded.
	trusted = "node:trusted-controller"
)

// plane is the control plane of all stories, and programs the folder with ours;
// nil and empty where the stories are skipped.
var (
	plane    *controlplane.ControlPlane
	programs string
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	code := func() int {
		if testing.Short() || !able() {
			return m.Run()
		}
		stop, err := found(context.Background())
		defer stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

// able says whether libvirt and QEMU seem to be here; hypervisor.Require says
// what is missing, and whether that fails.
func able() bool {
	_, err := exec.LookPath("qemu-system-x86_64")
	return err == nil
}

// found starts the control plane and the manager.
func found(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	if programs, err = os.MkdirTemp("", "virtwright-node-"); err != nil {
		return stop, err
	}
	stops = append(stops, func() { _ = os.RemoveAll(programs) })
	if err := os.Chmod(programs, 0o755); err != nil { // the agent runs as another user
		return stop, err
	}
	build := exec.Command("go", "build", "-o", programs+"/", "./cmd/virtwright-manager", "./cmd/virtwright-node")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return stop, fmt.Errorf("cannot build our programs: %w\n%s", err, output)
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return stop, err
	}
	stops = append(stops, plane.Stop)
	if err := plane.InstallCRDs(ctx, root+"/charts/virtwright/files/crds"); err != nil {
		return stop, err
	}
	manager, err := employ(ctx)
	if err != nil {
		return stop, err
	}
	stops = append(stops, func() { _ = manager.Process.Kill(); _ = manager.Wait() })
	return stop, settle(ctx)
}

// employ starts the manager, and makes the agent's user.
func employ(ctx context.Context) (*exec.Cmd, error) {
	self, err := plane.UserKubeconfig("system:serviceaccount:"+home+":virtwright-manager", "system:masters")
	if err != nil {
		return nil, err
	}
	role, err := os.ReadFile(root + "/charts/virtwright/files/rbac/node.yaml")
	if err != nil {
		return nil, err
	}
	for _, manifest := range []string{world, strings.Replace(string(role), "name: node", "name: virtwright-node", 1)} {
		if _, errs, err := plane.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
			return nil, fmt.Errorf("%w: %s", err, errs)
		}
	}
	log, err := os.Create(filepath.Join(programs, "manager.log"))
	if err != nil {
		return nil, err
	}
	webhook := freeAddress()
	cmd := exec.Command(programs+"/virtwright-manager",
		"--kubeconfig="+self, "--register-webhooks", "--webhook-bind-address="+webhook, "--webhook-url=https://"+webhook,
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--shutdown-delay=0s", "--namespace="+home,
		"--trusted-user="+trusted, "--node-agent="+agentUser, "--feature-gates=HostDisk=true", "--log-format=text")
	cmd.Env, cmd.Stderr = append(os.Environ(), "POD_NAME=virtwright-0", "POD_UID=virtwright-0"), log
	return cmd, cmd.Start()
}

// settle waits until the manager defaults machines and guards instances.
func settle(ctx context.Context) error {
	return eventuallyIs(ctx, "the manager answers", func() error {
		out, errs, err := plane.Kubectl(ctx, vmOf("probe", "runStrategy: Halted", "domain: {devices: {}}"), "create", "--dry-run=server", "-o", "yaml", "-f", "-")
		if err != nil || !strings.Contains(out, "architecture: amd64") {
			log, _ := os.ReadFile(filepath.Join(programs, "manager.log"))
			return fmt.Errorf("%s%s; the manager: %s", errs, out, log[max(0, len(log)-2000):])
		}
		_, _, err = plane.Kubectl(ctx, "", "get", "validatingadmissionpolicybinding", "nodes.protection.virtwright.dev")
		return err
	})
}

// world is what there is beside the manager: the agent's user, presets and
// profiles.
const world = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + home + `}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: virtwright-node, namespace: ` + home + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: virtwright-node}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: virtwright-node}
subjects: [{kind: ServiceAccount, name: virtwright-node, namespace: ` + home + `}]
---
apiVersion: virtwright.dev/v1alpha1
kind: ClusterVirtualMachinePreset
metadata: {name: lab}
spec:
  match: {labels: {matchLabels: {lab: "yes"}}}
  defaults:
    spec:
      template:
        spec:
          terminationGracePeriodSeconds: 60
          domain:
            memory: {guest: 128Mi}
            cpu: {sockets: 1, cores: 2, threads: 1, model: qemu64}
            chassis: {asset: shelf-3}
            firmware:
              kernelBoot:
                kernelArgs: console=ttyS0 quiet panic=1
                container: {image: "lab.example/guest:1", kernelPath: /boot/vmlinuz, initrdPath: /boot/initrd}
            devices: {rng: {}, autoattachGraphicsDevice: false}
---
apiVersion: virtwright.dev/v1alpha1
kind: BackendProfile
metadata: {name: lab}
spec:
  softwareEmulation: Allow
  networks: [{network: "*", type: User}]
`

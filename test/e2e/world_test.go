package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/virtwright/virtwright/test/controlplane"
)

const (
	root = "../.."
	crds = root + "/charts/virtwright/files/crds"
	// trusted is a user whom the suite's own manager trusts.
	trusted = "e2e:trusted-controller"
	// collector is a user whom every manager trusts.
	collector = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// A world is a cluster with a manager.
type world struct {
	ctx    context.Context
	config *rest.Config
	client dynamic.Interface
	// kubeconfig is the path of the administrator's.
	kubeconfig string
	// kubectl runs it with the given standard input.
	kubectl func(stdin string, args ...string) (stdout, stderr string, err error)
	// programs is the folder with ours, of one state of the source.
	programs string
	// plane and manager are nil in a cluster that was there before.
	plane   *controlplane.ControlPlane
	manager *manager
	// rights are the manifests of what users of managers may do.
	rights map[string]string
	// unauthorized is when the API server knew of no rights.
	unauthorized []span
}

// visit is a cluster where virtwright is installed.
func visit(ctx context.Context, kubeconfig, programs string) *world {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	return &world{ctx: ctx, config: config, client: clientOf(config), kubeconfig: kubeconfig, programs: programs, kubectl: func(stdin string, args ...string) (string, string, error) {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(ctx, "kubectl", args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBERC=off")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
		if err := cmd.Run(); err != nil {
			return out.String(), errs.String(), fmt.Errorf("cannot run kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
		}
		return out.String(), errs.String(), nil
	}}
}

// standInPolicy keeps a cluster's scheduler away from the pods of VMIs in the namespaces of
// stories: the stand-in binds and runs them.
const standInPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: e2e-standin}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {e2e.virtwright.dev/story: ""}}
    objectSelector: {matchLabels: {kubevirt.io: virt-launcher}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{schedulerName: "standin"}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: e2e-standin}
spec: {policyName: e2e-standin}
---
# Pods of a node that is not there would be deleted.
{apiVersion: v1, kind: Node, metadata: {name: standin}, spec: {unschedulable: true}}
`

// leavePodsToStandIn is for clusters with nodes.
func (w *world) leavePodsToStandIn() {
	GinkgoHelper()
	_, _, err := w.kubectl(standInPolicy, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error {
		_, _, err := w.kubectl(standInPolicy, "delete", "--ignore-not-found", "-f", "-")
		return err
	})
}

// found makes a cluster and starts a manager in it.
func found(ctx context.Context, programs string, apiServerArgs ...string) *world {
	GinkgoHelper()
	plane, err := controlplane.Start(ctx, controlplane.Options{Audit: true, APIServerArgs: append(apiServerArgs, "--audit-policy-file="+auditPolicy(programs))})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(plane.Stop)
	Expect(plane.InstallCRDs(ctx, crds)).To(Succeed())
	w := &world{ctx: ctx, config: plane.Config(), client: clientOf(plane.Config()), kubeconfig: plane.Kubeconfig(), programs: programs, plane: plane}
	w.kubectl = func(stdin string, args ...string) (string, string, error) {
		return plane.Kubectl(ctx, stdin, args...)
	}
	w.employ()
	w.manager = newManager(programs+"/virtwright-manager", w.as(ourselves))
	DeferCleanup(w.manager.kill)
	w.manager.start()
	w.manager.awaitServing()
	w.waitForWebhooks()
	return w
}

// build builds our programs and returns the folder that they are in.
func build() string {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "virtwright-e2e-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/virtwright", "./cmd/virtwright-manager")
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return dir
}

// ownManager skips a story where the manager is not the suite's to command.
func ownManager() {
	if here.manager == nil {
		Skip("commands the manager, which is not this suite's in a cluster that was there before")
	}
}

func clientOf(config *rest.Config) dynamic.Interface {
	GinkgoHelper()
	quiet := rest.CopyConfig(config)
	quiet.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(quiet)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// clientAs is the client of a user with all permissions.
func clientAs(user string) dynamic.Interface {
	GinkgoHelper()
	config := rest.CopyConfig(here.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	return clientOf(config)
}

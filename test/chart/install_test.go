package chart

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/installation"
)

// What is installed is one with one replica.
type installed struct {
	*installation.Installation

	replica *installation.Replica
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
	i := &installed{Installation: installation.New(t)}
	_, stderr, err := i.Helm("install", release, folder)
	if err == nil || !strings.Contains(stderr, "cert-manager is not installed in this cluster") || !strings.Contains(stderr, "certs.mode=self-signed") {
		t.Errorf("without cert-manager: %v %s", err, stderr)
	}
	i.MustHelm("install", release, folder, "--set", "certs.mode=self-signed")
	i.run()
	i.Must(small, "apply", "-f", "-")
	i.Eventually("the preset acts", func() error {
		_ = i.Try(fmt.Sprintf(sparse, "web"), "create", "-f", "-")
		if out := i.Must("", "get", "vm", "web", "-o", "jsonpath={.spec.template.spec.domain.memory.guest}"); out != "1Gi" {
			i.Must("", "delete", "vm", "web", "--ignore-not-found")
			return fmt.Errorf("memory is %q", out)
		}
		return nil
	})
	i.Eventually("the preset has a status", func() error {
		return i.Is("vmpreset/small", `{.status.conditions[?(@.type=="Ready")].status}`, "True")
	})
	if err := i.Try("", "patch", "vm", "web", "--type=merge", "-p", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`); err == nil || !strings.Contains(err.Error(), "owner-references") {
		t.Errorf("an edit of owner references: %v", err)
	}
	i.Must("", "wait", "apiservice", "v1.subresources.kubevirt.io", "--for=condition=Available", "--timeout=60s")
	i.put("start")
	i.Eventually("start", func() error { return i.Is("vm/web", "{.status.printableStatus}", "Starting") })
	i.put("stop")
	i.Eventually("stop", func() error { return i.Is("vm/web", "{.status.printableStatus}", "Stopped") })
	i.Eventually("v1alpha2 is served", func() error {
		return i.Try("", "get", "--raw", "/apis/kubevirt.io/v1alpha2/namespaces/default/virtualmachines/web")
	})
	i.selfTest()

	i.MustHelm("upgrade", release, folder, "--set", "certs.mode=self-signed", "--set", "presetConflicts=reject", "--set", "trustedUsers={ada}")
	if err := i.Is("vm/web", "{.spec.template.spec.domain.memory.guest}", "1Gi"); err != nil {
		t.Error(err)
	}
	i.Eventually("the policy knows who is trusted now", func() error {
		return i.Try("", "patch", "vm", "web", "--as=ada", "--as-group=system:masters", "--type=merge", "-p", `{"metadata":{"finalizers":["virtwright.dev/x"]}}`)
	})
	i.Must("", "patch", "vm", "web", "--as=ada", "--as-group=system:masters", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	i.selfTest()
	if strings.Contains(i.replica.Log.String(), "forbidden") {
		t.Errorf("the manager lacks rights:\n%s", i.replica.Log.String())
	}

	i.MustHelm("uninstall", release)
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "clusterrole", "clusterrolebinding"} {
		if out := i.Must("", "get", kind, "-o", "name"); strings.Contains(out, "virtwright") {
			t.Errorf("left behind: %s", out)
		}
	}
	if out := i.Must("", "get", "apiservice", "-o", "name"); strings.Contains(out, "subresources") {
		t.Errorf("left behind: %s", out)
	}
	if err := i.Is("vm/web", "{.spec.template.spec.domain.memory.guest}", "1Gi"); err != nil {
		t.Errorf("machines and their CRDs should stay: %v", err)
	}
	i.Eventually("machines are created as they are", func() error { return i.Try(fmt.Sprintf(sparse, "later"), "create", "-f", "-") })
	i.Must("", "create", "namespace", "short-lived")
	i.Must("", "delete", "namespace", "short-lived", "--timeout=60s")
}

// run starts the replica and waits until it is an endpoint.
func (i *installed) run() {
	i.Helper()
	i.replica = i.Start(pod)
	i.Eventually("the manager is ready", i.replica.Serves)
}

// put calls a verb of the machine web.
func (i *installed) put(verb string) {
	i.Helper()
	i.Eventually(verb, func() error {
		return i.Clients.Discovery().RESTClient().Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/web/" + verb).Do(i.Context()).Error()
	})
}

// selfTest asks as "helm test" does, with the rights that the chart gives it.
func (i *installed) selfTest() {
	i.Helper()
	hooks, _, err := i.Helm("get", "hooks", release)
	if err != nil {
		i.Fatal(err)
	}
	var rights []string
	for document := range strings.SplitSeq(hooks, "\n---\n") {
		if !strings.Contains(document, "kind: Pod\n") {
			rights = append(rights, document)
		}
	}
	i.Must(strings.Join(rights, "\n---\n"), "apply", "-n", namespace, "-f", "-")
	ctx, cancel := context.WithTimeout(i.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, installation.Program(i.T, installation.Manager), "--self-test", "--subresources-bind-address=:9444", "--kubeconfig="+i.User(release+"-test")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "reach start, stop and restart.") {
		i.Errorf("self-test: %v: %s", err, out)
	}
	i.Must(strings.Join(rights, "\n---\n"), "delete", "-n", namespace, "-f", "-")
}

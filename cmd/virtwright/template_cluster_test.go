package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/test/controlplane"
)

// TestTemplateCluster runs against a real API server without virtwright's manager.
func TestTemplateCluster(t *testing.T) {
	g := &ground{controlplane.ForTest(t, controlplane.Options{}), t}
	t.Run("not served", g.templateNotServed)
	if err := g.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	t.Run("requests", g.templateRequests)
	t.Run("dry run", g.templateDryRun)
	t.Run("rejected", g.templateRejected)
	t.Run("created", g.templateCreated)
	t.Run("failed", g.templateFailed)
	t.Run("wait fails", g.templateWaitFails)
}

func (g *ground) template(args ...string) outcome {
	g.t.Helper()
	if !slices.Contains(args, "--format") { // without it virtwright's webhook would choose
		args = append(args, "--format", sspv1alpha1.FormatOpenShiftTemplate)
	}
	return call(g.t, "", append([]string{"template", "create", "--kubeconfig", g.Kubeconfig()}, args...)...)
}

func (g *ground) templateNotServed(t *testing.T) {
	got := g.template("web")
	if got.code != exitUsage || got.out != "" {
		t.Errorf("exit code %d, output %q", got.code, got.out)
	}
	says(t, got.err, "cannot make a template of VM default/web: this cluster does not serve ssp.kubevirt.io/v1alpha1: install virtwright's chart")
}

// requested returns the name in the first line of an output.
func requested(t *testing.T, out string) string {
	t.Helper()
	var name, namespace string
	if _, err := fmt.Sscanf(out, "VirtualMachineTemplateRequest %s created in namespace %s\n", &name, &namespace); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	return name
}

func (g *ground) templateRequests(t *testing.T) {
	g.kubectl("", "create", "namespace", "golden")
	for args, want := range map[string]string{
		"web": `{"dataVolumes":"Keep","source":{"vmName":"web","vmNamespace":"default"},"target":{"openshiftTemplate":{"name":"web-template"}}}`,
		"web -n shop --to-namespace golden --name fedora --format virtualMachineTemplate --data-volumes Rename --label a=b,c=d --label e=f --ttl 1h": `{"dataVolumes":"Rename",` +
			`"source":{"vmName":"web","vmNamespace":"shop"},"target":{"virtualMachineTemplate":{"name":"fedora"}},"templateLabels":{"a":"b","c":"d","e":"f"},"ttlSecondsAfterFinished":3600}`,
		"web --format configMap --ttl 0s": `{"dataVolumes":"Keep","source":{"vmName":"web","vmNamespace":"default"},"target":{"configMap":{"name":"web-template"}},"ttlSecondsAfterFinished":0}`,
	} {
		got := g.template(append(strings.Fields(args), "--wait=false")...).fine(t)
		name, namespace := requested(t, got.out), "default"
		if strings.Contains(args, "golden") {
			namespace = "golden"
		}
		if spec := g.kubectl("", "get", "vmtreq", name, "-n", namespace, "-o", "jsonpath={.spec}"); spec != want || !strings.HasPrefix(name, "web-") {
			t.Errorf("%s: request %s has\n%s, want\n%s", args, name, spec, want)
		}
	}
}

func (g *ground) templateDryRun(t *testing.T) {
	before := g.kubectl("", "get", "vmtreq", "-A", "-o", "name")
	got := g.template("web", "--dry-run=server").fine(t)
	says(t, got.out, "VirtualMachineTemplateRequest web-", " created in namespace default (dry run)\n")
	if after := g.kubectl("", "get", "vmtreq", "-A", "-o", "name"); after != before {
		t.Errorf("requests after a dry run: %s", after)
	}
}

func (g *ground) templateRejected(t *testing.T) {
	g.create(map[string]string{"web": "running: false"})
	path, err := g.UserKubeconfig("mallory")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"web --kubeconfig " + path:    `User "mallory" cannot create`,
		"web --as mallory":            `User "mallory" cannot create`,
		"web --to-namespace nowhere":  `namespaces "nowhere" not found`,
		"wbe":                         "cannot make a template of VM default/wbe: it does not exist; --wait=false",
		"web --name ab --label a.=b ": "--label a.=b",
	} {
		got := g.template(strings.Fields(args)...)
		wantCode := exitRejected
		if strings.Contains(args, "--label") {
			wantCode = exitUsage
		}
		if got.code != wantCode || got.out != "" {
			t.Errorf("%s: exit code %d, output %q", args, got.code, got.out)
		}
		says(t, got.err, want)
	}
}

// A templateCall is a running call of template create.
type templateCall struct {
	*ground
	name string
	done chan outcome
}

// begin creates a VM, calls template create and returns once the request exists.
func (g *ground) begin(t *testing.T, vm string, args ...string) *templateCall {
	t.Helper()
	g.create(map[string]string{vm: "running: false"})
	m := &templateCall{g, "", make(chan outcome, 1)}
	go func() { m.done <- g.template(append([]string{vm}, args...)...) }()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for line := range strings.FieldsSeq(g.kubectl("", "get", "vmtreq", "-o", "name")) {
			if _, name, _ := strings.Cut(line, "/"); strings.HasPrefix(name, vm+"-") {
				m.name = name
				return m
			}
		}
	}
	t.Fatal("no request was created")
	return nil
}

// status writes status as the controller would.
func (m *templateCall) status(status string) {
	m.t.Helper()
	m.kubectl("", "patch", "vmtreq", m.name, "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`)
}

func (m *templateCall) end(t *testing.T) outcome {
	t.Helper()
	select {
	case got := <-m.done:
		return got
	case <-time.After(30 * time.Second):
		t.Fatal("still waiting")
	}
	return outcome{}
}

// conditions returns Ready and Progressing.
func conditions(ready, reason, message, progressing string) string {
	const at = `,"lastTransitionTime":"2025-01-01T00:00:00Z"}`
	return fmt.Sprintf(`"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%q%s,{"type":"Progressing","status":%q,"reason":%[2]q,"message":""%[4]s]`,
		ready, reason, message, at, progressing)
}

func (g *ground) templateCreated(t *testing.T) {
	m := g.begin(t, "made")
	m.status("{" + conditions("False", "Reconciling", "creating Template made-template", "True") + "}")
	time.Sleep(100 * time.Millisecond)
	m.status("{" + conditions("False", "FormatUnavailable", "template.openshift.io/v1 is not served by this cluster", "True") + "}")
	time.Sleep(100 * time.Millisecond)
	m.status(`{"parameterCount":3,"withheldParameters":["VOLUME1_USER_DATA","VOLUME1_NETWORK_DATA"],"warnings":["two VMs would share a disk"],` +
		`"templateRef":{"apiVersion":"template.openshift.io/v1","kind":"Template","namespace":"default","name":"made-template"},` + conditions("True", "Reconciled", "", "False") + "}")
	got := m.end(t).fine(t)
	if want := "VirtualMachineTemplateRequest " + m.name + " created in namespace default\n" +
		"Template made-template of template.openshift.io/v1 created in namespace default, with 3 parameters\n"; got.out != want {
		t.Errorf("got %q, want %q", got.out, want)
	}
	if want := "Request " + m.name + ": not ready (FormatUnavailable: template.openshift.io/v1 is not served by this cluster; --format configMap works in every cluster)\n" +
		"Warning: two VMs would share a disk\n" +
		"Note: parameters that require a value: VOLUME1_USER_DATA, VOLUME1_NETWORK_DATA\n"; got.err != want {
		t.Errorf("got %q, want %q", got.err, want)
	}
}

func (g *ground) templateFailed(t *testing.T) {
	m := g.begin(t, "failed")
	m.status("{" + conditions("False", "TargetExists", "Template failed-template already exists", "False") + "}")
	got := m.end(t)
	if got.code != exitRejected {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.err, "Error: cannot make a template of VM default/failed: TargetExists: Template failed-template already exists (request default/"+m.name+")\n")
}

func (g *ground) templateWaitFails(t *testing.T) {
	g.create(map[string]string{"late": "running: false"})
	late := g.template("late", "--timeout", "1s")
	if late.code != exitWaited {
		t.Errorf("exit code %d", late.code)
	}
	says(t, late.err, "timed out after 1s waiting for a template of VM default/late: request default/late-", "not reconciled yet (does virtwright's manager run?)", "kubectl get vmtreq late-")

	m := g.begin(t, "gone", "--timeout", "1m")
	m.kubectl("", "delete", "vmtreq", m.name)
	if got := m.end(t); got.code != exitWaited || !strings.Contains(got.err, "cannot wait for request default/"+m.name+": it was deleted") {
		t.Errorf("deleted: exit code %d: %s", got.code, got.err)
	}

	// A user who may create requests, but not watch them.
	g.kubectl("", "create", "role", "asks", "--verb=create", "--resource=virtualmachinetemplaterequests.ssp.kubevirt.io")
	g.kubectl("", "create", "rolebinding", "asks", "--role=asks", "--user=blind")
	blind := g.template("web", "--as", "blind")
	if blind.code != exitWaited || !strings.Contains(blind.err, "forbidden") {
		t.Errorf("cannot watch: exit code %d: %s", blind.code, blind.err)
	}
	requested(t, blind.out)

	// A restart of the API server does not end the wait.
	m = g.begin(t, "calm", "--timeout", "1m")
	if err := g.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.status(`{"parameterCount":1,"templateRef":{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"calm-template"},` + conditions("True", "Reconciled", "", "False") + "}")
	says(t, m.end(t).fine(t).out, "ConfigMap calm-template created in namespace default, with 1 parameter\n")
}

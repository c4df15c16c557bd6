package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtwright/virtwright/test/controlplane"
)

// ground is a cluster with the kinds of KubeVirt, without controllers.
type ground struct {
	*controlplane.ControlPlane
	t *testing.T
}

func (g *ground) kubectl(stdin string, args ...string) string {
	g.t.Helper()
	out, _, err := g.Kubectl(g.t.Context(), stdin, args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

// create creates VMs; the keys are names, the values are specs.
func (g *ground) create(vms map[string]string) {
	g.t.Helper()
	for name, spec := range vms {
		g.kubectl("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: "+name+"}\n"+
			"spec: {"+spec+", template: {spec: {domain: {devices: {}}}}}\n", "create", "-f", "-")
	}
}

// TestPowerCluster uses a real API server, first without the subresource API.
func TestPowerCluster(t *testing.T) {
	g := &ground{controlplane.ForTest(t, controlplane.Options{}), t}
	if err := g.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	g.create(map[string]string{"halted": "runStrategy: Halted", "dark": "running: false", "manual": "runStrategy: Manual", "always": "runStrategy: Always"})
	says(t, call(t, "", "__complete", "start", "--kubeconfig", g.Kubeconfig(), "").fine(t).out, "always\ndark\nhalted\nmanual\n:4\n")
	g.kubectl("{apiVersion: virtwright.dev/v1alpha1, kind: ClusterVirtualMachinePreset, metadata: {name: size}, spec: {defaults: {spec: {running: true}}}}", "create", "-f", "-")
	for args, want := range map[string]string{
		"start halted ":           "always\ndark\nmanual\n:4\n",
		"explain vm/":             "vm/always\nvm/dark\nvm/halted\nvm/manual\n:4\n",
		"expand vm halted ":       "always\ndark\nmanual\n:4\n",
		"console halted ":         ":4\n",
		"reapply --preset ":       "cluster/size\n:4\n",
		"violations --preset ":    "cluster/size\n:4\n",
		"validate cvmpreset/":     "cvmpreset/size\n:4\n",
		"explain -n ":             "default\nkube-node-lease\nkube-public\nkube-system\n:4\n",
		"explain vm/dark spec.ru": "spec.runStrategy\nspec.running\n:6\n",
	} {
		words := strings.Split(args, " ")
		got := call(t, "", slices.Concat([]string{"__complete", words[0], "--kubeconfig", g.Kubeconfig()}, words[1:])...).fine(t).out
		if got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	t.Run("not served", g.notServed)
	t.Run("not permitted", g.notPermitted)
	t.Run("not available", g.notAvailable)
	t.Run("wait", g.waits)
	t.Run("wait in vain", g.waitsInVain)
	t.Run("wait through a restart", g.waitsThroughRestart)
}

func (g *ground) notServed(t *testing.T) {
	const patch = "\nIf a lifecycle controller runs, use this command instead:\n  kubectl patch vm "
	for _, test := range []struct {
		args string
		code int
		want []string
	}{
		{"start halted", exitUsage, []string{"cannot start VM default/halted: subresources.kubevirt.io/v1 is not served by this cluster", patch + `halted -n default --type merge -p '{"spec":{"runStrategy":"Always"}}'`}},
		{"start dark --paused", exitUsage, []string{patch + `dark -n default --type merge -p '{"spec":{"running":true}}'`}},
		{"stop manual", exitUsage, []string{patch + `manual -n default --type merge -p '{"spec":{"runStrategy":"Halted"}}'`}},
		{"restart always", exitUsage, []string{"kubectl delete vmi always -n default"}},
		{"start absent", exitRejected, []string{`cannot start VM default/absent: virtualmachines.kubevirt.io "absent" not found`}},
		{"start absent -n nowhere", exitRejected, []string{`cannot start VM nowhere/absent: `, "not found"}},
		{"start halted --wait", exitUsage, []string{"is not served"}},
		{"reset halted", exitUsage, []string{"cannot reset VMI default/halted: subresources.kubevirt.io/v1 is not served by this cluster"}},
		{"softreboot halted --dry-run=server", exitUsage, []string{"cannot softreboot VMI default/halted: "}},
	} {
		got := call(t, "", append(strings.Fields(test.args), "--kubeconfig", g.Kubeconfig())...)
		if got.code != test.code || got.out != "" {
			t.Errorf("%s: exit code %d, output %q", test.args, got.code, got.out)
		}
		says(t, got.err, test.want...)
	}
	// The suggested command works.
	advice := call(t, "", "start", "dark", "--kubeconfig", g.Kubeconfig()).err
	_, command, _ := strings.Cut(advice, "kubectl ")
	args := strings.Fields(strings.ReplaceAll(strings.TrimSpace(command), "'", ""))
	g.kubectl("", args...)
	if got := g.kubectl("", "get", "vm", "dark", "-o", "jsonpath={.spec.running}"); got != "true" {
		t.Errorf("running: %s", got)
	}
}

func (g *ground) notPermitted(t *testing.T) {
	path, err := g.UserKubeconfig("mallory")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"start halted", "stop always", "restart always --wait", "reset always"} {
		got := call(t, "", append(strings.Fields(args), "--kubeconfig", path)...)
		if got.code != exitRejected || got.out != "" {
			t.Errorf("%s: exit code %d, output %q", args, got.code, got.out)
		}
		says(t, got.err, "is forbidden: User \"mallory\" cannot ")
	}
	says(t, call(t, "", "start", "halted", "--kubeconfig", g.Kubeconfig(), "--as", "mallory").err, "User \"mallory\" cannot update")
}

// notAvailable registers the API with a service that does not exist.
func (g *ground) notAvailable(t *testing.T) {
	g.kubectl(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.subresources.kubevirt.io}
spec: {group: subresources.kubevirt.io, version: v1, groupPriorityMinimum: 1000, versionPriority: 15, insecureSkipTLSVerify: true,
  service: {namespace: default, name: gone}}
`, "create", "-f", "-")
	defer g.kubectl("", "delete", "apiservice", "v1.subresources.kubevirt.io")
	var got outcome
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = call(t, "", "start", "halted", "--kubeconfig", g.Kubeconfig()); strings.Contains(got.err, "not available") {
			break
		}
	}
	if got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.err, "is currently not available: kubectl get apiservice v1.subresources.kubevirt.io -o yaml shows the reason", "use this command instead")
}

// status sets the status like a lifecycle controller.
func (g *ground) status(name, status string) {
	g.t.Helper()
	g.kubectl("", "patch", "vm", name, "--subresource=status", "--type=merge", "-p", `{"status":`+status+`}`)
}

func (g *ground) instance(name string) {
	g.t.Helper()
	g.kubectl("apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: "+name+"}\nspec: {domain: {devices: {}}}\n", "create", "-f", "-")
}

// vm returns the only VM of a call.
func (p *power) vm() types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: p.names[0]}
}

// awaited is a running wait.
type awaited struct {
	t     *testing.T
	lines *lineWriter
	err   chan error
}

// await waits like after an accepted request.
func (g *ground) await(t *testing.T, p *power) *awaited {
	t.Helper()
	c, err := newClusterClient(g.Config())
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.observeBefore(t.Context(), c, p.vm())
	if err != nil {
		t.Fatal(err)
	}
	a := &awaited{t, newLineWriter(), make(chan error, 1)}
	go func() {
		a.err <- p.await(t.Context(), c, p.vm(), before, func(state string) { fmt.Fprintf(a.lines, "VM %s: %s\n", p.names[0], state) })
	}()
	return a
}

// says waits for a line of output.
func (a *awaited) says(want string) {
	a.t.Helper()
	select {
	case line := <-a.lines.lines:
		if line != want {
			a.t.Errorf("said %q, want %q", line, want)
		}
	case <-time.After(20 * time.Second):
		a.t.Fatalf("never said %q", want)
	}
}

func (a *awaited) end() error {
	a.t.Helper()
	select {
	case err := <-a.err:
		return err
	case <-time.After(20 * time.Second):
		a.t.Fatal("waits on")
	}
	return nil
}

// lineWriter sends each line of output to a channel.
type lineWriter struct {
	lines chan string
}

func newLineWriter() *lineWriter { return &lineWriter{lines: make(chan string, 100)} }

func (w *lineWriter) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		w.lines <- strings.TrimSuffix(string(line), "\n")
	}
	return len(text), nil
}

// waits simulates the controllers.
func (g *ground) waits(t *testing.T) {
	runs := func() {
		t.Helper()
		g.kubectl("", "patch", "vmi", "web", "--type=merge", "-p", `{"status":{"phase":"Running"}}`)
	}
	g.create(map[string]string{"web": "runStrategy: Always"})
	start := g.await(t, &power{verb: verbStart, targets: targets{names: []string{"web"}}, timeout: time.Minute})
	start.says("VM web: unknown status (does a lifecycle controller run?)")
	g.instance("web")
	g.status("web", `{"created":true,"printableStatus":"Starting","conditions":[{"type":"Ready","status":"False","reason":"GuestNotRunning","message":"no guest"}]}`)
	start.says("VM web: Starting (Ready is False: GuestNotRunning: no guest)")
	g.status("web", `{"printableStatus":"ErrorUnschedulable","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node"}]}`)
	start.says("VM web: ErrorUnschedulable (PodScheduled is False: Unschedulable: no node)")
	runs()
	g.status("web", `{"printableStatus":"Running","ready":true,"conditions":[{"type":"Ready","status":"True"}]}`)
	start.says("VM web: Running")
	if err := start.end(); err != nil {
		t.Error(err)
	}

	restart := g.await(t, &power{verb: verbRestart, targets: targets{names: []string{"web"}}, timeout: time.Minute})
	g.kubectl("", "delete", "vmi", "web")
	g.status("web", `{"printableStatus":"Stopping"}`)
	restart.says("VM web: Stopping")
	g.instance("web")
	runs()
	g.status("web", `{"printableStatus":"Running"}`)
	restart.says("VM web: Running")
	if err := restart.end(); err != nil {
		t.Error(err)
	}

	g.kubectl("", "patch", "vm", "web", "--type=merge", "-p", `{"spec":{"runStrategy":"Halted"}}`) // which a stop does
	stop := g.await(t, &power{verb: verbStop, targets: targets{names: []string{"web"}}, timeout: time.Minute})
	g.kubectl("", "delete", "vmi", "web")
	g.status("web", `{"printableStatus":"Stopped"}`)
	stop.says("VM web: Stopped")
	if err := stop.end(); err != nil {
		t.Error(err)
	}
}

// A short interruption of the API server does not end the wait.
func (g *ground) waitsThroughRestart(t *testing.T) {
	g.create(map[string]string{"calm": "runStrategy: Halted"})
	g.status("calm", `{"printableStatus":"Stopping"}`)
	stop := g.await(t, &power{verb: verbStop, targets: targets{names: []string{"calm"}}, timeout: time.Minute})
	if err := g.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.status("calm", `{"printableStatus":"Stopped"}`)
	if err := stop.end(); err != nil {
		t.Error(err)
	}
}

func (g *ground) waitsInVain(t *testing.T) {
	g.create(map[string]string{"slow": "runStrategy: Always"})
	g.status("slow", `{"printableStatus":"Starting"}`)
	slow := g.await(t, &power{verb: verbStart, targets: targets{names: []string{"slow"}}, timeout: time.Second})
	err := slow.end()
	if code := exitCode(err); code != exitWaited {
		t.Errorf("exit code %d", code)
	}
	says(t, fmt.Sprint(err), "timed out after 1s waiting for VM default/slow to start: Starting")

	gone := g.await(t, &power{verb: verbStart, targets: targets{names: []string{"slow"}}, timeout: time.Minute})
	g.kubectl("", "delete", "vm", "slow")
	if err := gone.end(); exitCode(err) != exitWaited || !strings.Contains(err.Error(), "it was deleted") {
		t.Errorf("deleted: %v", err)
	}

	// A user with permission to send requests, but not to read VMs.
	blind, err := g.User("blind")
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClusterClient(blind)
	if err != nil {
		t.Fatal(err)
	}
	p := &power{verb: verbStart, targets: targets{names: []string{"always"}}, timeout: time.Minute}
	if _, err := p.observeBefore(t.Context(), c, p.vm()); exitCode(err) != exitRejected {
		t.Errorf("cannot look: %v", err)
	}
	if err := p.await(context.Background(), c, p.vm(), observation{}, func(string) {}); exitCode(err) != exitWaited || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("cannot look: %v", err)
	}
}

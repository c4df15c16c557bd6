package main

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground/site"
)

// servePlayground runs the command until the test ends and returns the address that it prints.
func servePlayground(t *testing.T, args ...string) *url.URL {
	t.Helper()
	return serveFiles(t, fstest.MapFS{"index.html": {Data: []byte("page")}}, args...)
}

func serveFiles(t *testing.T, files fs.FS, args ...string) *url.URL {
	t.Helper()
	reader, writer := io.Pipe()
	var errs bytes.Buffer
	c := newPlayground(program, streams{strings.NewReader(""), writer, &errs}, files)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		err := c.ExecuteContext(ctx)
		_ = writer.CloseWithError(err)
		done <- err
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("the command ended: %v: %s", err, errs.String())
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func stateOf(t *testing.T, address *url.URL) (in playground.Input) {
	t.Helper()
	status, body := get(t, address.JoinPath("state.json").String())
	if err := json.Unmarshal([]byte(body), &in); err != nil || status != http.StatusOK {
		t.Fatalf("state: %d, %s, %v", status, body, err)
	}
	return in
}

func TestPlayground(t *testing.T) {
	address := servePlayground(t)
	if address.RawQuery != "" || address.Hostname() != "127.0.0.1" {
		t.Errorf("address: %s", address)
	}
	if status, body := get(t, address.String()); status != http.StatusOK || body != "page" {
		t.Errorf("page: %d, %s", status, body)
	}
	if status, _ := get(t, address.JoinPath("state.json").String()); status != http.StatusNotFound {
		t.Errorf("state without input: %d", status)
	}
	if connection, err := net.DialTimeout("tcp", net.JoinHostPort("::1", address.Port()), time.Second); err == nil {
		t.Error("listens on another address", connection.Close())
	}
}

// TestPlaygroundFiles checks that the page gets the files, and that its result equals that of
// expand.
func TestPlaygroundFiles(t *testing.T) {
	args := []string{"-f", exampleVMs + "/web.yaml", "-f", examplePresets, "-f", exampleNamespaces}
	address := servePlayground(t, append(args, "--mode", "addon")...)
	in := stateOf(t, address)
	if !strings.Contains(in.VM, "name: web") || !strings.Contains(in.Presets, "kind: Namespace") || in.Mode != modeAddon {
		t.Errorf("state: %+v", in)
	}
	out := new(playground.Evaluator).Evaluate(t.Context(), in)
	if want := call(t, "", append([]string{"expand", "--mode", "addon"}, args...)...).fine(t).out; len(out.VMs) != 1 || out.VMs[0].Expanded != want {
		t.Errorf("expanded: %+v, not\n%s", out.VMs, want)
	}
	if len(address.Query().Get("token")) < 50 || address.Query().Get("token") == servePlayground(t, args...).Query().Get("token") {
		t.Errorf("token: %s", address)
	}
	address.RawQuery = "token=x"
	if status, body := get(t, address.JoinPath("state.json").String()); status != http.StatusNotFound {
		t.Errorf("with a wrong token: %d, %s", status, body)
	}
}

// TestPlaygroundKeepsText checks that the page gets the text of files as it is, except for objects
// that would then be other ones.
func TestPlaygroundKeepsText(t *testing.T) {
	const vm = "# a VM\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm} # flow\n"
	const preset = "--- # presets\n\napiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: a}\nspec: {} # nothing\n"
	const list = "---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Namespace, metadata: {name: b}}] # list\n"
	const stored = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: c, resourceVersion: '1'}\n"
	const inBraces = "---\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"d\"}}\n"
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(vm+preset+list+stored+inBraces), 0o600); err != nil {
		t.Fatal(err)
	}
	namespace := func(name string) string {
		return "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n"
	}
	want := playground.Input{VM: vm, Presets: strings.TrimPrefix(preset, "---") + namespace("b") + namespace("c") + namespace("d"), Mode: modeStandalone}
	if diff := cmp.Diff(want, stateOf(t, servePlayground(t, "-f", file))); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if in := stateOf(t, servePlayground(t, "-f", file, "-n", "shop")); !strings.Contains(in.VM, "namespace: shop") || !strings.Contains(in.Presets, "namespace: shop") {
		t.Errorf("in another namespace: %+v", in)
	}
}

// TestPlaygroundEnds checks that a signal ends the command without an error.
func TestPlaygroundEnds(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM) // so that the signal never ends the test
	defer signal.Stop(signals)
	reader, writer := io.Pipe()
	c := newPlayground(program, streams{strings.NewReader(""), writer, io.Discard}, fstest.MapFS{"index.html": {}})
	c.SetArgs(nil)
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(t.Context()) }()
	if _, err := bufio.NewReader(reader).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("still serves after SIGTERM")
	}
}

// linked returns the state in a link to a VM and a preset without namespace.
func linked(t *testing.T, args ...string) (in playground.Input) {
	t.Helper()
	got := call(t, small+"---\n"+cores, append([]string{"explain", "-f", "-", "--link", "https://example.com/page/"}, args...)...).fine(t)
	text, ok := strings.CutPrefix(got.out, "https://example.com/page/#s=")
	packed, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || !ok {
		t.Fatalf("%s: %v", got.out, err)
	}
	if err := json.NewDecoder(flate.NewReader(bytes.NewReader(packed))).Decode(&in); err != nil {
		t.Fatal(err)
	}
	return in
}

// TestLink decodes a link. test/browser checks that the page decodes it, too.
func TestLink(t *testing.T) {
	in := linked(t, "--mode", "addon")
	if says(t, in.VM, "guest: 1Gi"); in.Mode != modeAddon || strings.Contains(in.VM, "namespace") {
		t.Errorf("state: %+v", in)
	}
	says(t, in.Presets, "cores: 7")
	in = linked(t, "-n", "shop")
	says(t, in.VM, "namespace: shop")
	says(t, in.Presets, "namespace: shop")
	for name, c := range map[string]struct{ stdin, args, want string }{
		"no address":     {small, "--link playground", "--link: \"playground\" is not the address of a page"},
		"another scheme": {small, "--link javascript://x", "is not the address of a page"},
		"no VM":          {cores, "--link http://localhost/", "no VirtualMachine"},
		"too much":       {strings.Replace(small, "{name: vm}", "{name: vm, annotations: {a: "+strings.Repeat("x", 1<<20)+"}}", 1), "--link http://localhost/", "select fewer"},
		"with an output": {small, "--link http://localhost/ -o json", "none of the others can be"},
		"with a setting": {small, "--link http://localhost/ --namespace-labels tier=prod", "none of the others can be"},
		"with a gate":    {small, "--link http://localhost/ --feature-gates NUMA=true", "none of the others can be"},
	} {
		got := call(t, c.stdin, append([]string{"explain", "-f", "-"}, strings.Fields(c.args)...)...)
		if says(t, got.err, c.want); got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.out)
		}
	}
}

// TestLinkWarnsOfSecrets writes VMs and presets with and without secrets into links.
func TestLinkWarnsOfSecrets(t *testing.T) {
	const volume = "{template: {spec: {volumes: [{name: init, cloudInitNoCloud: %s}]}}}"
	secret := fmt.Sprintf(volume, `{userData: "#cloud-config\npassword: hunter2\n- echo userData: hunter2"}`)
	for name, c := range map[string]struct{ text, want string }{
		"VM":     {sparse + "spec: " + secret + "\n", "spec.template.spec.volumes[0].cloudInitNoCloud.userData\n"},
		"VMI":    {strings.Replace(sparse, "Machine\n", "MachineInstance\n", 1) + "spec: {accessCredentials: [], readinessProbe: {httpGet: {path: '/?token=hunter2', port: 1}}}\n", "spec.template.spec.readinessProbe.httpGet.path\n"},
		"preset": {small + "---\napiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: p}\nspec: {defaults: {spec: " + secret + "}}\n", "spec.template.spec.volumes[0].cloudInitNoCloud.userData\n"},
		"none":   {small + "---\n" + cores, ""},
		"Secret": {sparse + "spec: " + fmt.Sprintf(volume, "{secretRef: {name: s}}") + "\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.text, "explain", "-f", "-", "--link", "http://localhost/").fine(t)
			if says(t, got.err, c.want); strings.Contains(got.err, "hunter2") || c.want == "" && strings.Contains(got.err, "passwords") {
				t.Errorf("warnings: %s", got.err)
			}
		})
	}
}

func TestPlaygroundUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--mode x":        "--mode: Unsupported value",
		"vm.yaml":         "use -f for each file",
		"-f absent.yaml":  "no such file",
		"--port 99999999": "invalid argument",
	} {
		c := newPlayground(program, streams{strings.NewReader(""), io.Discard, io.Discard}, fstest.MapFS{})
		c.SetArgs(strings.Fields(args))
		c.SetErr(io.Discard)
		c.SetOut(io.Discard)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if site.Files() == nil {
		got := call(t, "", "playground")
		if says(t, got.err, "make build"); got.code != exitUsage {
			t.Errorf("exit code %d", got.code)
		}
	}
}

// playground reads a VM and the presets of the cluster as a user who may only read.
func (g *ground) playground(t *testing.T) {
	path, err := g.UserKubeconfig("mallory")
	if err != nil {
		t.Fatal(err)
	}
	before := g.kubectl("", "get", "vm,vmpreset,cvmpreset", "-A", "-o", "yaml")
	in := stateOf(t, servePlayground(t, "vm/web", "-n", "shop", "--kubeconfig", path))
	for _, field := range []string{"resourceVersion", "uid", "managedFields", "last-applied"} {
		if strings.Contains(in.VM+in.Presets, field+":") {
			t.Errorf("the state has %s:\n%s%s", field, in.VM, in.Presets)
		}
	}
	out := new(playground.Evaluator).Evaluate(t.Context(), in)
	if len(out.VMs) != 1 || out.VMs[0].Name != "web" || out.VMs[0].Namespace != "shop" {
		t.Fatalf("VMs: %+v", out)
	}
	if says(t, out.VMs[0].Expanded, "cores: 8"); in.Mode != modeStandalone {
		t.Errorf("mode: %s", in.Mode)
	}
	if in := stateOf(t, servePlayground(t, "-n", "shop", "--context", "virtwright")); in.VM != "" || !strings.Contains(in.Presets, "name: cores") {
		t.Errorf("without names: %+v", in)
	}
	if after := g.kubectl("", "get", "vm,vmpreset,cvmpreset", "-A", "-o", "yaml"); after != before {
		t.Error("the cluster has changed")
	}
}

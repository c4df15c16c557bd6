package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/installation"
)

// runVariable makes the test binary run as the manager.
const runVariable = "VIRTWRIGHT_TEST_RUN_MANAGER"

func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		go func() { // the pipe closes with the test, however that ends
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		main()
	}
	os.Exit(m.Run())
}

// A cluster is a real control plane with an administrator's client.
type cluster struct {
	*controlplane.ControlPlane
	client.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Options{})
	return &cluster{cp, clientOf(t, cp, "admin")}
}

// clientOf returns a client of a user with all permissions.
func clientOf(t *testing.T, cp *controlplane.ControlPlane, user string) client.Client {
	t.Helper()
	config, err := cp.User(user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A replica is a manager in its own process.
type replica struct {
	webhook, metrics, health string
	subresources             string // empty for none
	cmd                      *exec.Cmd
	ended                    chan error
	log                      installation.Log
}

// startReplica starts a manager that API servers reach at its own address. The process ends with
// the test.
func startReplica(t *testing.T, c *cluster, args ...string) *replica {
	t.Helper()
	r := &replica{webhook: controlplane.FreeAddress(t), metrics: controlplane.FreeAddress(t), health: controlplane.FreeAddress(t), ended: make(chan error, 1)}
	args = append([]string{
		"--launcher-image=none", "--kvm-resource=example.com/kvm",
		"--kubeconfig=" + c.Kubeconfig(), "--webhook-bind-address=" + r.webhook, "--webhook-url=https://" + r.webhook, "--register-webhooks",
		"--metrics-bind-address=" + r.metrics, "--health-probe-bind-address=" + r.health, "--shutdown-delay=0s", "--namespace=default",
	}, args...)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.Command(program, args...)
	r.cmd.Env = append(os.Environ(), runVariable+"=1")
	r.cmd.Stderr = &r.log
	if _, err := r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of the manager:\n%s", r.log.String())
		}
	})
	return r
}

// get returns the status and body of a page of the manager; 0 when it does not answer.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (r *replica) ready(t *testing.T) error {
	t.Helper()
	if code, body := get(t, "http://"+r.health+"/readyz?verbose"); code != http.StatusOK {
		return fmt.Errorf("readyz: %d %s", code, body)
	}
	return nil
}

// serves waits until the manager is ready and has registered its webhooks.
func (r *replica) serves(t *testing.T) {
	t.Helper()
	eventually(t, "the manager serves", func() error {
		if err := r.ready(t); err != nil {
			return err
		}
		if !strings.Contains(r.log.String(), "Registered webhooks") {
			return errors.New("webhooks are not registered yet")
		}
		return nil
	})
}

// admissions returns the number of requests for a kind and operation, with any result.
func (r *replica) admissions(t *testing.T, kind, operation string) int {
	t.Helper()
	_, body := get(t, "http://"+r.metrics+"/metrics")
	total := 0
	pattern := fmt.Sprintf(`(?m)^virtwright_admissions_total\{kind="%s",operation="%s",result="\w+"\} (\d+)$`, kind, operation)
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(body, -1) {
		n, _ := strconv.Atoi(found[1])
		total += n
	}
	return total
}

// eventually retries until there is no error.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// object parses a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *cluster) create(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	out := object(t, manifest)
	if err := c.Create(t.Context(), out); err != nil {
		t.Fatalf("cannot create %s: %v", manifest, err)
	}
	return out
}

// patch merges a patch into an object, as a user.
func patch(t *testing.T, by client.Client, of client.Object, merge string) {
	t.Helper()
	if err := tryPatch(t.Context(), by, of, merge); err != nil {
		t.Fatalf("cannot patch: %v", err)
	}
}

func tryPatch(ctx context.Context, by client.Client, of client.Object, merge string) error {
	return by.Patch(ctx, of, client.RawPatch("application/merge-patch+json", []byte(merge)))
}

// field returns the value at a path of maps.
func field(of *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(of.Object, path...)
	return value
}

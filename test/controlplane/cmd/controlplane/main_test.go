package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/controlplane"
)

// selfVariable makes the test binary the program itself.
const selfVariable = "VIRTWRIGHT_TEST_CONTROLPLANE"

func TestMain(m *testing.M) {
	if os.Getenv(selfVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command runs the program with a cache folder in which nothing runs yet.
func command(t *testing.T) func(args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	assets, err := controlplane.Assets(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	run := func(args ...string) (string, string, error) {
		var stdout, stderr strings.Builder
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), selfVariable+"=1", "KUBEBUILDER_ASSETS="+assets, "VIRTWRIGHT_CACHE="+cache)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		return stdout.String(), stderr.String(), err
	}
	t.Cleanup(func() {
		if _, stderr, err := run("stop"); err != nil {
			t.Errorf("cannot stop: %v: %s", err, stderr)
		}
	})
	return run
}

func TestStartAndStop(t *testing.T) {
	run := command(t)
	if _, stderr, err := run("kubeconfig"); err == nil || !strings.Contains(stderr, "does not run") {
		t.Errorf("kubeconfig before start: %v, %s", err, stderr)
	}
	out, stderr, err := run("start")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	kubeconfig, _, err := run("kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = strings.TrimSpace(kubeconfig)
	if want := "export KUBECONFIG='" + kubeconfig + "'\n"; out != want {
		t.Errorf("start prints %q, want %q", out, want)
	}
	if again, stderr, err := run("start"); err != nil || again != out || !strings.Contains(stderr, "runs already") {
		t.Errorf("a second start: %v, %q, %s", err, again, stderr)
	}
	got, stderr, err := run("kubectl", "get", "namespaces", "default", "-o", "name")
	if err != nil || got != "namespace/default\n" {
		t.Errorf("kubectl gives %q, %v: %s", got, err, stderr)
	}
	if _, _, err := run("kubectl", "get", "no-such-thing"); err == nil {
		t.Error("the exit code of kubectl is lost")
	}
	if _, stderr, err := run("stop"); err != nil {
		t.Errorf("%v: %s", err, stderr)
	}
	if _, err := os.Stat(filepath.Dir(kubeconfig)); !os.IsNotExist(err) {
		t.Errorf("the data outlived stop: %v", err)
	}
	if _, stderr, err := run("stop"); err != nil || !strings.Contains(stderr, "does not run") {
		t.Errorf("a second stop: %v: %s", err, stderr)
	}
}

func TestStopsWithTheProcessItServes(t *testing.T) {
	run := command(t)
	owner := exec.Command("sleep", "600")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	owned := make(chan struct{})
	go func() {
		_ = owner.Wait()
		close(owned)
	}()
	out, stderr, err := run("start", "--while", strconv.Itoa(owner.Process.Pid))
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-owned
	dir := filepath.Dir(strings.TrimSuffix(strings.TrimPrefix(out, "export KUBECONFIG='"), "'\n"))
	for deadline := time.Now().Add(20 * time.Second); controlplane.InUse(dir); time.Sleep(lookInterval) {
		if time.Now().After(deadline) {
			t.Fatal("the control plane outlived the process it was started for")
		}
	}
}

// TestStartNew checks that of two runs that start a control plane of one name at once, one gets it
// and the other is rejected.
func TestStartNew(t *testing.T) {
	run := command(t)
	type result struct {
		stderr string
		err    error
	}
	results := make(chan result)
	for range 2 {
		go func() {
			_, stderr, err := run("start", "--new")
			results <- result{stderr, err}
		}()
	}
	first, second := <-results, <-results
	if (first.err == nil) == (second.err == nil) {
		t.Fatalf("want one of two to start, got %v and %v: %s%s", first.err, second.err, first.stderr, second.stderr)
	}
	if rejected := first.stderr + second.stderr; !strings.Contains(rejected, `control plane "default" runs already`) {
		t.Errorf("the other says %s", rejected)
	}
	if _, stderr, err := run("start", "--new"); err == nil || !strings.Contains(stderr, `control plane "default" runs already`) {
		t.Errorf("a later one: %v: %s", err, stderr)
	}
	if _, stderr, err := run("kubectl", "get", "namespaces"); err != nil {
		t.Errorf("the control plane of the first is gone: %v: %s", err, stderr)
	}
}

func TestBadUse(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a name that is a path": {args: []string{"--name=../x", "stop"}, want: "want a plain word"},
		"no such command":       {args: []string{"begin"}, want: "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, err := command(t)(test.args...)
			if err == nil || !strings.Contains(stderr, test.want) {
				t.Errorf("got %v, %s; want %q", err, stderr, test.want)
			}
		})
	}
}

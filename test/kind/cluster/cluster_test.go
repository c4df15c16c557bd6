package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/kind/image"
)

// newWorkshop has the true source and a cache of its own.
func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	source, err := sourceDir()
	if err != nil {
		t.Fatal(err)
	}
	return &workshop{source: source, cache: t.TempDir(), progress: io.Discard}
}

func TestOpen(t *testing.T) {
	for _, name := range []string{"", "a/b", "..", ".docker"} {
		if _, err := Open(name, io.Discard); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	t.Setenv("VIRTWRIGHT_CACHE", t.TempDir())
	c, err := Open("dev", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("VIRTWRIGHT_CACHE") + "/kind/run/dev/kubeconfig"; c.Kubeconfig() != want {
		t.Errorf("the kubeconfig is %s, want %s", c.Kubeconfig(), want)
	}
}

// A program that the kernel ended says so, also if another program ran it.
func TestKilled(t *testing.T) {
	for script, want := range map[string]bool{
		"kill -9 $$": true, "echo 'compile: signal: killed' >&2; exit 1": true, "exit 1": false, "kill -15 $$": false,
	} {
		_, err := command{path: "sh", args: []string{"-c", script}}.run(t.Context())
		if err == nil || strings.Contains(err.Error(), "memory ran out") != want {
			t.Errorf("%s: got %v", script, err)
		}
	}
}

// One process is at work at a time.
func TestLock(t *testing.T) {
	w := newWorkshop(t)
	unlock, err := w.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := w.Lock(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock gives %v", err)
	}
	unlock()
	unlock, err = w.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestPrograms(t *testing.T) {
	w := newWorkshop(t)
	for _, p := range []program{kubernetes, coredns, pause, runc, certManager, certManagerWebhook, kind, helm} {
		if sources, err := w.sources(p); err != nil || len(sources) == 0 {
			t.Errorf("%s has no source: %v", p.name, err)
		}
	}
	version, err := w.requires(kubernetes, "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if flags := strings.Join(w.linkerFlags(kubernetes), " "); !strings.Contains(flags, "gitVersion="+version) {
		t.Errorf("%s is not stamped: %s", version, flags)
	}
	if version, err := w.requires(pause, "k8s.io/kubernetes"); err == nil {
		t.Errorf("pause is said to require %s", version)
	}
	one, err := w.requires(certManager, certManagerModule)
	other, otherErr := w.requires(certManagerWebhook, certManagerModule)
	if err := errors.Join(err, otherErr); err != nil || one != other {
		t.Errorf("the parts of cert-manager are of %s and %s: %v", one, other, err)
	}
}

func TestProgramIsBuiltOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	w := newWorkshop(t)
	path, err := w.program(t.Context(), pause)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.program(t.Context(), pause); err != nil || again != path {
		t.Errorf("a second call gives %s, %v", again, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the program was built again: %v", err)
	}
}

func TestNode(t *testing.T) {
	p := parts{kubernetes: "/k/kubernetes", coredns: "/c/coredns", pause: "/p/pause", userland: "/u", version: "v1.2.3", names: map[string]string{
		"kube-apiserver": "r/kube-apiserver:v1.2.3", "kube-controller-manager": "r/kube-controller-manager:v1.2.3",
		"kube-scheduler": "r/kube-scheduler:v1.2.3", "kube-proxy": "r/kube-proxy:v1.2.3",
		"etcd": "r/etcd:1", "coredns": "r/coredns/coredns:v1", "pause": "r/pause:3",
	}}
	files, err := p.files()
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]image.File{}
	for _, file := range files {
		byPath[file.Path] = file
		if strings.Contains(string(file.Content), "@PAUSE@") {
			t.Errorf("%s has something left to fill in", file.Path)
		}
	}
	if mode := byPath["usr/local/bin/entrypoint"].Mode; mode != 0o755 {
		t.Errorf("the entrypoint has mode %o", mode)
	}
	if config := string(byPath["etc/containerd/config.toml"].Content); !strings.Contains(config, `"r/pause:3"`) {
		t.Errorf("containerd does not know which image holds pods:\n%s", config)
	}
	for path, want := range map[string]string{
		"usr/bin/kubelet": "kubernetes",
		"etc/systemd/system/systemd-sysctl.service": "/dev/null",
	} {
		if got := byPath[path].Link; got != want {
			t.Errorf("%s points at %q, want %q", path, got, want)
		}
	}
	var names []string
	for _, image := range p.images() {
		names = append(names, image.Names...)
	}
	if len(names) != len(p.names) {
		t.Errorf("the images are %v, want those of %v", names, p.names)
	}
}

func TestImageNames(t *testing.T) {
	kubeadm := filepath.Join(t.TempDir(), "kubeadm")
	script := "#!/bin/sh\necho r.example/kube-proxy:v1\necho r.example/coredns/coredns:v2\n"
	if err := os.WriteFile(kubeadm, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := imageNames(t.Context(), kubeadm, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"kube-proxy": "r.example/kube-proxy:v1", "coredns": "r.example/coredns/coredns:v2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCommandSaysWhatWasComplainedOf(t *testing.T) {
	_, err := command{path: "sh", args: []string{"-c", "echo out; echo because >&2; exit 3"}}.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "because") {
		t.Errorf("got %v", err)
	}
}

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/filelock"
)

// fakeGo puts a shell script named go first on the PATH. It answers "go env" and does what body
// says for "go build -o $2"; each build adds a line to the returned file.
func fakeGo(t *testing.T, version, body string) (builds string) {
	t.Helper()
	dir := t.TempDir()
	builds = filepath.Join(dir, "builds")
	script := fmt.Sprintf(`#!/bin/sh
if [ "$1" = env ]; then echo %s; exit; fi
echo built >> %s
while [ "$1" != -o ]; do shift; done
%s
`, version, builds, body)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(cacheVariable, t.TempDir())
	t.Setenv(assetsVariable, "")
	return builds
}

func countLines(t *testing.T, path string) int {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(content, []byte("\n"))
}

func TestConcurrentCallersBuildOnce(t *testing.T) {
	finish := filepath.Join(t.TempDir(), "finish")
	builds := fakeGo(t, "go1.0", `until [ -e `+finish+` ]; do sleep 0.1; done; echo program > "$2"`)
	var progress safeBuffer
	var building sync.WaitGroup
	for range 4 {
		building.Go(func() {
			dir, err := Assets(t.Context(), &progress)
			if err != nil {
				t.Error(err)
				return
			}
			for _, name := range parts {
				if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != "program\n" {
					t.Errorf("%s is %q, %v; want the program", name, content, err)
				}
			}
		})
	}
	eventually(t, "three callers wait", func() bool { return strings.Count(progress.String(), "waiting for another process") >= 3 })
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	building.Wait()
	if got := countLines(t, builds); got != 1 {
		t.Errorf("built %d times, want once", got)
	}
	for _, want := range []string{"this happens once", "built the control plane in"} {
		if got := strings.Count(progress.String(), want); got != 1 {
			t.Errorf("%q is said %d times, want once:\n%s", want, got, progress.String())
		}
	}

	fakeGo(t, "go1.1", "exit 1") // also another, empty cache
	if _, err := Assets(t.Context(), &progress); err == nil {
		t.Error("another version of Go used the same program")
	}
}

func TestKeyChangesWithTheSource(t *testing.T) {
	fakeGo(t, "go1.0", "exit 1")
	source := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(source, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func() string {
		key, err := (&build{Module: Module{Source: source}}).key(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go", "README"} {
		write(name, "a")
	}
	before := key()
	write("README", "b")
	if key() != before {
		t.Error("the key changes with a file that is no source")
	}
	seen := map[string]bool{before: true}
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		write(name, "b")
		if seen[key()] {
			t.Errorf("the key does not change with %s", name)
		}
		seen[key()] = true
	}
}

func TestFailedBuildSaysWhy(t *testing.T) {
	builds := fakeGo(t, "go1.0", `echo some/package >&2; echo "main.go:1:1: it is wrong" >&2; exit 1`)
	for range 2 {
		_, err := Assets(t.Context(), &safeBuffer{})
		if err == nil || !strings.Contains(err.Error(), "it is wrong") || strings.Contains(err.Error(), "some/package") {
			t.Errorf("got error %v, want one with the compiler's message alone", err)
		}
	}
	if got := countLines(t, builds); got != 2 {
		t.Errorf("built %d times, want 2: a failed build is tried again", got)
	}
}

func TestProgressCounts(t *testing.T) {
	b := &build{progress: &safeBuffer{}}
	b.follow(strings.NewReader("go: downloading a/b v1\ngo: downloading c v1\nfmt\nk8s.io/api/core/v1\n# k8s.io/x\n./x.go:1:2: wrong\n"))
	if b.downloaded != 2 || b.compiled != 2 || len(b.output) != 2 {
		t.Errorf("counted %d downloads, %d packages and kept %q; want 2, 2 and 2 lines", b.downloaded, b.compiled, b.output)
	}
}

func TestWaitingForABuildEndsWithTheContext(t *testing.T) {
	b := &build{target: t.TempDir(), progress: &safeBuffer{}}
	lock, err := filelock.Try(lockFile(b.target))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.once(ctx); err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("got error %v, want the context's", err)
	}
}

func TestKubebuilderAssets(t *testing.T) {
	skipShort(t)
	built, err := Assets(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cacheVariable, filepath.Join(t.TempDir(), "stays-empty"))
	given := t.TempDir()
	t.Chdir(filepath.Dir(given))
	t.Setenv(assetsVariable, filepath.Base(given)) // a relative path is as good
	if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "has no etcd") {
		t.Errorf("got error %v from an empty folder, want one that names what it lacks", err)
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(given, name)); err != nil {
			t.Fatal(err)
		}
	}
	cp := ForTest(t, Options{})
	if pids := cp.PIDs(); len(pids) != 2 {
		t.Errorf("running: %v, want what the folder has: etcd and kube-apiserver", pids)
	}
	kubectl(t, cp, "", "create", "namespace", "works")
	if exists(os.Getenv(cacheVariable)) {
		t.Errorf("the cache was used although %s is set", assetsVariable)
	}
}

// safeBuffer is a buffer for several writers.
type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

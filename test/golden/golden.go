// Package golden compares output with checked-in files. With UPDATE_GOLDEN=1 in the environment it
// rewrites them instead.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// updateVariable rewrites the files instead of comparing with them.
const updateVariable = "UPDATE_GOLDEN"

// asked holds the absolute path of every file that a test compared with.
var asked sync.Map

// Equal fails t unless the file at path holds got.
func Equal(t testing.TB, path, got string) {
	t.Helper()
	asked.Store(absolute(t, path), true)
	if updating() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make golden writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want, +got (make golden accepts):\n%s", path, diff)
	}
}

// Stale fails t for every file matching the pattern that Equal was not asked for; call it after the
// last of them. The pattern must match expected output only, such as testdata/*.out.yaml: with
// UPDATE_GOLDEN=1 stale files are removed. Nothing is stale when -run selects subtests, nor when t
// has failed and so may have ended before it asked.
func Stale(t testing.TB, pattern string) {
	t.Helper()
	if run := flag.Lookup("test.run"); run != nil && strings.Contains(run.Value.String(), "/") {
		return
	}
	if t.Failed() {
		return
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if _, ok := asked.Load(absolute(t, path)); ok {
			continue
		}
		if !updating() {
			t.Errorf("%s: no test makes this file (make golden removes it)", path)
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func updating() bool { return os.Getenv(updateVariable) != "" }

func absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

package golden

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// recorder is a test that notes its failures instead of failing.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.failures = append(r.failures, format) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record returns the failures of a function, which may end early.
func record(t *testing.T, f func(testing.TB)) []string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failures
}

func TestEqual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "a.out.yaml")
	equal := func(got string) []string {
		return record(t, func(t testing.TB) { Equal(t, path, got) })
	}
	t.Setenv(updateVariable, "")
	if failures := equal("a"); len(failures) != 1 || !strings.Contains(failures[0], "make golden") {
		t.Errorf("a missing file: %q, want one failure that says what to do", failures)
	}
	t.Setenv(updateVariable, "1")
	if failures := equal("a"); len(failures) != 0 {
		t.Errorf("updating: %q", failures)
	}
	t.Setenv(updateVariable, "")
	if failures := equal("a"); len(failures) != 0 {
		t.Errorf("equal content: %q", failures)
	}
	if failures := equal("b"); len(failures) != 1 {
		t.Errorf("other content: %q, want one failure", failures)
	}
}

func TestStale(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"used.out.yaml", "stale.out.yaml", "used.in.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("a"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pattern := filepath.Join(dir, "*.out.yaml")
	t.Setenv(updateVariable, "")
	Equal(t, filepath.Join(dir, "used.out.yaml"), "a")
	if failures := record(t, func(t testing.TB) { Stale(t, pattern) }); len(failures) != 1 {
		t.Errorf("got %q, want one failure for the stale file", failures)
	}
	t.Setenv(updateVariable, "1")
	if failures := record(t, func(t testing.TB) { Stale(t, pattern) }); len(failures) != 0 {
		t.Errorf("updating: %q", failures)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("updating left %q, %v; want all but the stale file", left, err)
	}
}

package installation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Programs that Program knows.
const (
	Manager     = "virtwright-manager"
	helm        = "helm"
	certManager = "certmanager"
)

// Release and Namespace are the name of the installation and where it is.
const (
	Release   = "virtwright"
	Namespace = "virtwright-system"
)

// root is the folder of the Go module.
var root = sync.OnceValue(func() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..")
})

// Chart is the folder of the chart.
func Chart() string { return filepath.Join(root(), "charts", "virtwright") }

// programs are built once for all tests of a package.
var programs = sync.OnceValues(func() (string, error) {
	into, err := os.MkdirTemp("", "virtwright-installation-")
	if err != nil {
		return "", err
	}
	for name, args := range map[string][]string{
		helm:        {"-C", filepath.Join(root(), "test/chart/tool"), "helm.sh/helm/v3/cmd/helm"},
		Manager:     {"-C", root(), "./cmd/virtwright-manager"},
		certManager: {"-C", filepath.Join(root(), "test/kind/bin/certmanager"), "."},
	} {
		args = append([]string{"build", args[0], args[1], "-o", filepath.Join(into, name)}, args[2:]...)
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return into, nil
})

// built says that there is something to remove.
var built atomic.Bool

// Program is the path of a program, which is built on first use.
func Program(t testing.TB, name string) string {
	t.Helper()
	built.Store(true)
	at, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(at, name)
}

// Main runs the tests of a package, and then removes the programs built for them.
func Main(m *testing.M) int {
	code := m.Run()
	if built.Load() {
		at, _ := programs() // which no test could do without
		_ = os.RemoveAll(at)
	}
	return code
}

// Helm runs helm and returns what it said.
func Helm(t testing.TB, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), Program(t, helm), args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

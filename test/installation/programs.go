package installation

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Programs that Program knows.
const (
	Manager     = "virtwright-manager"
	CLI         = "virtwright"
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

// builds are the programs, each built once for all tests of a package.
var builds = map[string]func() (string, error){
	helm:        building(helm, filepath.Join(root(), "test/chart/tool"), "helm.sh/helm/v3/cmd/helm"),
	Manager:     building(Manager, root(), "./cmd/virtwright-manager"),
	CLI:         building(CLI, root(), "./cmd/virtwright"),
	certManager: building(certManager, filepath.Join(root(), "test/kind/bin/certmanager"), "."),
}

// folder is where they are built.
var folder = sync.OnceValues(func() (string, error) {
	built.Store(true)
	return os.MkdirTemp("", "virtwright-installation-")
})

// built says that there is something to remove.
var built atomic.Bool

// building builds a package of a module at its first call, and returns the path of the program.
func building(name, module, pkg string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		into, err := folder()
		if err != nil {
			return "", err
		}
		path := filepath.Join(into, name)
		if out, err := exec.Command("go", "build", "-C", module, "-o", path, pkg).CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot build %s: %w: %s", name, err, out)
		}
		return path, nil
	})
}

// Prepare begins to build the programs that install and run virtwright, in the background.
func Prepare() {
	for _, name := range []string{helm, Manager} {
		go func() { _, _ = builds[name]() }() // Program returns the error
	}
}

// Program is the path of a program, which is built on first use.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := builds[name]()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main runs the tests of a package, and then removes the programs built for them.
func Main(m *testing.M) int {
	code := m.Run()
	if built.Load() {
		at, _ := folder()
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

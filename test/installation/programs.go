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

// sources are the arguments of go build for each program.
var sources = map[string][]string{
	helm:        {"-C", filepath.Join(root(), "test/chart/tool"), "helm.sh/helm/v3/cmd/helm"},
	Manager:     {"-C", root(), "./cmd/virtwright-manager"},
	certManager: {"-C", filepath.Join(root(), "test/kind/bin/certmanager"), "."},
}

// programs are built once for all tests of a package, into a folder.
var programs struct {
	mu     sync.Mutex
	folder string
	built  map[string]error
}

// Program is the path of a program, which is built on first use.
func Program(t testing.TB, name string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if programs.folder == "" {
		folder, err := os.MkdirTemp("", "virtwright-installation-")
		if err != nil {
			t.Fatal(err)
		}
		programs.folder, programs.built = folder, map[string]error{}
	}
	path := filepath.Join(programs.folder, name)
	err, tried := programs.built[name]
	if !tried {
		err = build(path, sources[name])
		programs.built[name] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build(path string, source []string) error {
	args := []string{"build", source[0], source[1], "-o", path, source[2]}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Main runs the tests of a package, and then removes the programs built for them.
func Main(m *testing.M) int {
	code := m.Run()
	if programs.folder != "" {
		_ = os.RemoveAll(programs.folder)
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

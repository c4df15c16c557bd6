package render

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var (
	built    = sync.OnceValues(build)
	builtDir string
)

func TestMain(m *testing.M) {
	code := m.Run()
	if builtDir != "" {
		_ = os.RemoveAll(builtDir)
	}
	os.Exit(code)
}

// program is the command line, built of this tree.
func program(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "virtwright-render-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	path := filepath.Join(dir, "virtwright")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/virtwright").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the command line: %w\n%s", err, out)
	}
	return path, nil
}

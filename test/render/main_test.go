package render

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var (
	virtwright = sync.OnceValues(func() (string, error) { return build("virtwright", "../..", "./cmd/virtwright") })
	kubevirt   = sync.OnceValues(func() (string, error) { return build("kubevirt", "kubevirt", ".") })
	// instancetypes is KubeVirt's code for instancetypes and preferences.
	instancetypes = sync.OnceValues(func() (string, error) { return build("instancetype", "kubevirt", "./instancetype") })
	// legacy is KubeVirt's webhook for VMIs.
	legacy = sync.OnceValues(func() (string, error) { return build("legacy", "kubevirt", "./legacy") })
	folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "virtwright-render-") })
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(0) // every test runs KubeVirt or libvirt
	}
	code := m.Run()
	if dir, err := folder(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program is the command line, built of this tree.
func program(t *testing.T) string {
	t.Helper()
	path, err := virtwright()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds a program of a module.
func build(name, module, pkg string) (string, error) {
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-C", module, "-o", path, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

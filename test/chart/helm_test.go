package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	folder    = root + "/charts/virtwright"
	release   = "virtwright"
	namespace = "virtwright-system"
)

// programs are built once for all tests.
var programs = sync.OnceValues(func() (string, error) {
	into, err := os.MkdirTemp("", "virtwright-chart-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"build", "-C", "tool", "-o", filepath.Join(into, "helm"), "helm.sh/helm/v3/cmd/helm"},
		{"build", "-o", filepath.Join(into, "virtwright-manager"), root + "/cmd/virtwright-manager"},
		{"build", "-C", root + "/test/kind/bin/certmanager", "-o", filepath.Join(into, "certmanager"), "."},
	} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return into, nil
})

func program(t *testing.T, name string) string {
	t.Helper()
	at, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(at, name)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if at, err := programs(); err == nil {
		_ = os.RemoveAll(at)
	}
	os.Exit(code)
}

// helm runs helm and returns what it said.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program(t, "helm"), args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// render is what the chart makes of values, as a.b=c.
func render(t *testing.T, values ...string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	args := []string{"template", release, folder, "--namespace", namespace, "--kube-version", "1.37.0"}
	for _, value := range values {
		args = append(args, "--set-json", value)
	}
	out, stderr, err := helm(t, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr)
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(out, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("%w: %s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/installation"
)

const (
	root      = "../.."
	release   = installation.Release
	namespace = installation.Namespace
)

var folder = installation.Chart()

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

// render is what the chart makes of values, as a.b=c.
func render(t *testing.T, values ...string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	args := []string{"template", release, folder, "--namespace", namespace, "--kube-version", "1.37.0"}
	for _, value := range values {
		args = append(args, "--set-json", value)
	}
	out, stderr, err := installation.Helm(t, args...)
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

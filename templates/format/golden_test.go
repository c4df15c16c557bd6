package format_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
	"github.com/virtwright/virtwright/test/golden"
)

// files are the suffixes of golden files by format.
var files = map[string]string{"openshiftTemplate": "openshift", "virtualMachineTemplate": "vmt", "configMap": "configmap"}

// read decodes a manifest like API servers.
func read(t testing.TB, manifest []byte) map[string]any {
	t.Helper()
	encoded, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(encoded, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no input: %v", err)
	}
	for _, input := range inputs {
		base := strings.TrimSuffix(input, ".in.yaml")
		manifest, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(base), func(t *testing.T) {
			options := blueprint.Options{Rename: strings.HasSuffix(base, "-rename")}
			if strings.Contains(base, "nasty") {
				options.Namespace = "elsewhere"
			}
			b, err := blueprint.FromVM(read(t, manifest), options)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range format.Formats() {
				template, err := f.Encode(b, format.Meta{Name: "made", Namespace: "elsewhere"})
				if err != nil {
					// Errors of a format are golden, too.
					golden.Equal(t, base+"."+files[f.Name]+".out.yaml", "error: "+err.Error()+"\n")
					continue
				}
				if err := f.Verify(template, b); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
				golden.Equal(t, base+"."+files[f.Name]+".out.yaml", manifestOf(t, template.Object))
			}
		})
	}
	golden.Stale(t, "testdata/*.out.yaml")
}

func manifestOf(t testing.TB, content map[string]any) string {
	t.Helper()
	encoded, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.JSONToYAML(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

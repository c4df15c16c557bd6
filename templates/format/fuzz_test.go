package format_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
)

// seeds adds the golden files with a suffix.
func seeds(f *testing.F, ending string) {
	f.Helper()
	paths, err := filepath.Glob("testdata/*" + ending)
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		manifest, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if encoded, err := yaml.YAMLToJSON(manifest); err == nil {
			f.Add(encoded)
		}
	}
}

// FuzzFromVM checks that each JSON object with a blueprint has a template that Verify accepts.
func FuzzFromVM(f *testing.F) {
	seeds(f, ".in.yaml")
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"template":{"spec":{"<<":"\u0085","a":[null,1e400]}}}}`))
	f.Add([]byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"template":{"spec":{"` + strings.Repeat("k", 1100) + `":"x"}}}}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		var vm map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(encoded, &vm) != nil {
			return
		}
		for _, rename := range []bool{false, true} {
			b, err := blueprint.FromVM(vm, blueprint.Options{Rename: rename, Namespace: "elsewhere"})
			if err != nil {
				continue
			}
			for _, form := range format.Formats() {
				template, err := form.Encode(b, format.Meta{Name: "t"})
				var large *format.TooLarge
				if errors.As(err, &large) || err != nil && (strings.Contains(err.Error(), "a key of the VM") || longKey(vm)) {
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", form.Name, err)
				}
				if err := form.Verify(template, b); err != nil {
					t.Fatalf("%s: %v", form.Name, err)
				}
			}
		}
	})
}

// longKey reports whether a key is too long for YAML parsers.
func longKey(vm map[string]any) (long bool) {
	each("", vm, func(_, key string) { long = long || len(key) > 1000 }, func(string, any) {})
	return long
}

// FuzzProcess checks that Process does not panic.
func FuzzProcess(f *testing.F) {
	seeds(f, ".out.yaml")
	f.Add([]byte(`{"apiVersion":"v1","kind":"Template","objects":[{"apiVersion":"v1","kind":"Pod","a":["${{A}}"],"${{A}}":{}}],"parameters":[{"name":"A","value":"null"},{"name":"B","generate":"expression","from":"[z-a]{3}"}]}`))
	f.Fuzz(func(_ *testing.T, encoded []byte) {
		var template map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(encoded, &template) != nil {
			return
		}
		_, _, _ = format.Process(&unstructured.Unstructured{Object: template}, map[string]string{"A": "null", "LABELS": "{}"}, map[string]string{"a": "b"})
	})
}

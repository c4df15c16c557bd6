package format_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
)

// corpusVariable names a folder of foreign manifests.
const corpusVariable = "VIRTWRIGHT_CORPUS"

func TestCorpus(t *testing.T) {
	dir := os.Getenv(corpusVariable)
	if dir == "" {
		t.Skip(corpusVariable + " is unset: it names a folder of manifests of VirtualMachines and VirtualMachineInstances")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, path := range paths {
		manifest, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		vm := asVM(read(t, manifest))
		if vm == nil {
			continue
		}
		tried++
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, rename := range []bool{false, true} {
				roundTrip(t, vm, blueprint.Options{Rename: rename})
			}
		})
	}
	if tried == 0 {
		t.Errorf("no VirtualMachine in %s", dir)
	}
}

// asVM returns a VM, or a VM for a VMI; nil for other kinds.
func asVM(object map[string]any) map[string]any {
	switch object["kind"] {
	case "VirtualMachine":
		return object
	case "VirtualMachineInstance":
		return map[string]any{"apiVersion": object["apiVersion"], "kind": "VirtualMachine", "metadata": object["metadata"],
			"spec": map[string]any{"runStrategy": "Always", "template": map[string]any{"spec": object["spec"]}}}
	}
	return nil
}

// roundTrip makes templates of all formats and checks that each gives the VM.
func roundTrip(t *testing.T, vm map[string]any, options blueprint.Options) {
	t.Helper()
	b, err := blueprint.FromVM(vm, options)
	if err != nil {
		t.Fatal(err)
	}
	n := normal(vm)
	for _, f := range format.Formats() {
		template, err := f.Encode(b, format.Meta{Name: "t"})
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if err := f.Verify(template, b); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		objects, _, err := format.Process(template, b.Secrets(), nil)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if d := unequal("", renamed(n, objects[0].Object, b), objects[0].Object); d != "" {
			t.Errorf("%s: %s", f.Name, d)
		}
	}
}

func TestTooLarge(t *testing.T) {
	vm := read(t, []byte(source))
	vm["metadata"].(map[string]any)["annotations"] = map[string]any{"x": strings.Repeat("x", 1<<20)}
	b, err := blueprint.FromVM(vm, blueprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range format.Formats() {
		_, err := f.Encode(b, format.Meta{Name: "t"})
		var large *format.TooLarge
		if !errors.As(err, &large) || large.Bytes <= large.Most {
			t.Errorf("%s: got %v, want a TooLarge", f.Name, err)
		}
	}
}

func TestMeta(t *testing.T) {
	b, err := blueprint.FromVM(read(t, []byte(source)), blueprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	meta := format.Meta{Name: "t", Namespace: "n", Labels: map[string]string{"a": "b", "template.kubevirt.io/type": "base"}, Annotations: map[string]string{"c": "d", "template.openshift.io/bindable": "true"}}
	for _, f := range format.Formats() {
		template, err := f.Encode(b, meta)
		if err != nil {
			t.Fatal(err)
		}
		labels, annotations := template.GetLabels(), template.GetAnnotations()
		if template.GetName() != "t" || template.GetNamespace() != "n" || template.GroupVersionKind() != f.Kind {
			t.Errorf("%s: %s %s/%s", f.Name, template.GroupVersionKind(), template.GetNamespace(), template.GetName())
		}
		if labels["a"] != "b" || labels["template.kubevirt.io/type"] != "vm" {
			t.Errorf("%s: labels %v", f.Name, labels)
		}
		if annotations["c"] != "d" || annotations["template.openshift.io/bindable"] != "false" || annotations["openshift.io/display-name"] != "vm" {
			t.Errorf("%s: annotations %v", f.Name, annotations)
		}
		var notes []format.Note
		if err := json.Unmarshal([]byte(annotations[format.AnnotationParameters]), &notes); err != nil || len(notes) != len(b.Parameters) {
			t.Errorf("%s: notes %v, %v", f.Name, notes, err)
		}
	}
}

func TestHash(t *testing.T) {
	for _, f := range format.Formats() {
		template, _ := templateOf(t, f, source)
		hash := f.Hash(template)
		if len(hash) != 64 {
			t.Fatalf("%s: hash %q", f.Name, hash)
		}
		stored := template.DeepCopy()
		stored.SetUID("u")
		stored.SetResourceVersion("7")
		stored.SetLabels(map[string]string{"a": "b"})
		withoutEmptyValues(stored.Object)
		if f.Hash(stored) != hash {
			t.Errorf("%s: the hash of the stored template differs", f.Name)
		}
		other, _ := templateOf(t, f, strings.ReplaceAll(source, "cores: 2", "cores: 3"))
		if f.Hash(other) == hash {
			t.Errorf("%s: another template has the same hash", f.Name)
		}
	}
}

// withoutEmptyValues drops empty values, as API servers do.
func withoutEmptyValues(content map[string]any) {
	list, _ := content["parameters"].([]any)
	if spec, ok := content["spec"].(map[string]any); ok {
		list, _ = spec["parameters"].([]any)
	}
	for _, item := range list {
		if p := item.(map[string]any); p["value"] == "" {
			delete(p, "value")
		}
	}
}

// TestVerifyFinds checks that Verify finds changes of templates.
func TestVerifyFinds(t *testing.T) {
	vm := func(template *unstructured.Unstructured) map[string]any {
		if spec, ok := template.Object["spec"].(map[string]any); ok {
			return spec["virtualMachine"].(map[string]any)
		}
		return template.Object["objects"].([]any)[0].(map[string]any)
	}
	parameters := func(template *unstructured.Unstructured) []any {
		if spec, ok := template.Object["spec"].(map[string]any); ok {
			return spec["parameters"].([]any)
		}
		return template.Object["parameters"].([]any)
	}
	domain := func(template *unstructured.Unstructured) map[string]any {
		return vm(template)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["domain"].(map[string]any)
	}
	cases := map[string]struct {
		change func(*unstructured.Unstructured)
		want   string
	}{
		"missing":   {func(u *unstructured.Unstructured) { delete(domain(u), "devices") }, "spec.template.spec.domain.devices: is missing"},
		"extra":     {func(u *unstructured.Unstructured) { domain(u)["clock"] = "x" }, "spec.template.spec.domain.clock: is unexpected"},
		"type":      {func(u *unstructured.Unstructured) { domain(u)["cpu"] = map[string]any{"cores": "${CPU_CORES}"} }, "spec.template.spec.domain.cpu.cores: is a string, not a number"},
		"value":     {func(u *unstructured.Unstructured) { vm(u)["spec"].(map[string]any)["runStrategy"] = "Halted" }, "spec.runStrategy: has a different value"},
		"default":   {func(u *unstructured.Unstructured) { parameters(u)[0].(map[string]any)["value"] = "3" }, "spec.template.spec.domain.cpu.cores: has a different value"},
		"reference": {func(u *unstructured.Unstructured) { domain(u)["cpu"] = "${NOTHING}" }, "spec.template.spec.domain.cpu: reference to undefined parameter NOTHING"},
		"unused":    {func(u *unstructured.Unstructured) { delete(domain(u), "cpu") }, "parameter CPU_CORES is unused"},
		"twice":     {func(u *unstructured.Unstructured) { parameters(u)[1] = parameters(u)[0] }, "parameter CPU_CORES is defined twice"},
		"name":      {func(u *unstructured.Unstructured) { parameters(u)[0].(map[string]any)["name"] = "cores" }, `parameter "cores" has an invalid name`},
		"secret":    {func(u *unstructured.Unstructured) { parameters(u)[1].(map[string]any)["value"] = "xhunter2-hunter2" }, "contains the value of secret parameter VOLUME0_USER_DATA"},
		"nothing":   {func(u *unstructured.Unstructured) { u.Object = map[string]any{} }, "want kind "},
	}
	for name, c := range cases {
		for _, f := range format.Formats()[:2] {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				template, b := templateOf(t, f, source)
				c.change(template)
				err := f.Verify(template, b)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if err != nil && strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error contains a secret: %v", err)
				}
			})
		}
	}
}

func TestNil(t *testing.T) {
	for _, f := range append(format.Formats(), format.Format{}) {
		if _, err := f.Encode(nil, format.Meta{}); err == nil {
			t.Errorf("%s: Encode of nil has no error", f.Name)
		}
		if err := f.Verify(nil, nil); err == nil {
			t.Errorf("%s: Verify of nil has no error", f.Name)
		}
		if hash := f.Hash(nil); hash != "" {
			t.Errorf("%s: nil has the hash %s", f.Name, hash)
		}
	}
	if _, _, err := format.Process(nil, nil, nil); err == nil {
		t.Error("Process of nil has no error")
	}
}

func BenchmarkTemplate(b *testing.B) {
	manifest, err := os.ReadFile("testdata/nasty-rename.in.yaml")
	if err != nil {
		b.Fatal(err)
	}
	vm := read(b, manifest)
	encoded, err := json.Marshal(vm)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range format.Formats() {
		b.Run(f.Name, func(b *testing.B) {
			for b.Loop() {
				made, err := blueprint.FromVM(vm, blueprint.Options{Rename: true})
				if err != nil {
					b.Fatal(err)
				}
				template, err := f.Encode(made, format.Meta{Name: "t"})
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Verify(template, made); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("control", func(b *testing.B) { // decode the VM once
		for b.Loop() {
			if err := json.Unmarshal(encoded, &map[string]any{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

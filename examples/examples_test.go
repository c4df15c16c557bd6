// Package examples_test checks the examples and their README.
package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/validation"
)

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func manifests(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot find manifests in %s: %v", folder, err)
	}
	return files
}

func readmeOf(file string) string {
	if filepath.Dir(file) == "catalogue" {
		return "catalogue/README.md"
	}
	return "README.md"
}

func TestPresetsDecodeStrictly(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, file := range slices.Concat(manifests(t, "presets"), manifests(t, "catalogue")) {
		readme := read(t, readmeOf(file))
		for document := range strings.SplitSeq(read(t, file), "\n---\n") {
			object, err := runtime.Decode(decoder, []byte(document))
			if err != nil {
				t.Errorf("cannot decode %s: %v", file, err)
				continue
			}
			preset := object.(v1alpha1.Preset)
			name := preset.GetName()
			if _, ok := preset.(*v1alpha1.ClusterVirtualMachinePreset); ok {
				name = "cluster/" + name
			}
			if !strings.Contains(readme, "`"+name+"`") {
				t.Errorf("%s does not name preset %s of %s", readmeOf(file), name, file)
			}
		}
	}
}

func TestProfilesAreRight(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, file := range manifests(t, "profiles") {
		object, err := runtime.Decode(decoder, []byte(read(t, file)))
		if err != nil {
			t.Errorf("cannot decode %s: %v", file, err)
			continue
		}
		var frontend []v1alpha1.FrontendProfile
		var backend []v1alpha1.BackendProfile
		switch profile := object.(type) {
		case *v1alpha1.FrontendProfile:
			frontend = append(frontend, *profile)
		case *v1alpha1.BackendProfile:
			backend = append(backend, *profile)
		default:
			t.Errorf("%s holds a %T", file, object)
		}
		if _, errs := domain.CompileProfiles(frontend, backend); len(errs) > 0 {
			t.Errorf("%s: %v", file, errs)
		}
	}
}

func TestREADMELinksEveryFile(t *testing.T) {
	readme := read(t, "README.md")
	for _, folder := range []string{"presets", "profiles", "policies", "vms", "rejected"} {
		for _, file := range manifests(t, folder) {
			if !strings.Contains(readme, "("+filepath.ToSlash(file)+")") {
				t.Errorf("README.md does not link %s", file)
			}
		}
	}
	catalogue := read(t, "catalogue/README.md")
	for _, file := range manifests(t, "catalogue") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if !strings.Contains(catalogue, "["+name+"]("+name+".yaml)") {
			t.Errorf("catalogue/README.md does not link %s", file)
		}
	}
}

// TestEveryVMStartsWithAComment checks that each manifest of these folders begins with a comment.
func TestEveryVMStartsWithAComment(t *testing.T) {
	for _, folder := range []string{"profiles", "policies", "vms", "rejected"} {
		for _, file := range manifests(t, folder) {
			if !strings.HasPrefix(read(t, file), "# ") {
				t.Errorf("%s does not begin with a comment", file)
			}
		}
	}
}

// TestMisspeltVolumeName checks that the misspelt name is the only problem of
// rejected/volume-name.yaml if a preset sets the memory.
func TestMisspeltVolumeName(t *testing.T) {
	var written map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "rejected/volume-name.yaml")), &written); err != nil {
		t.Fatal(err)
	}
	domain := written["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["domain"].(map[string]any)
	domain["memory"] = map[string]any{"guest": "1Gi"} // as preset size-small does
	raw, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	engine := &presets.Engine{Platform: &presets.Platform{}}
	result, err := engine.Resolve(t.Context(), presets.NewSnapshot(nil, nil), presets.Request{Kind: presets.VirtualMachine, Object: raw})
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(result.Object()); err != nil {
		t.Fatal(err)
	}
	machine, err := validation.NewVirtualMachine(raw)
	if err != nil {
		t.Fatal(err)
	}
	problems := (&validation.Config{}).Validate(machine).Errors
	if len(problems) != 1 {
		t.Fatalf("want one problem, got %v", problems)
	}
	if at := problems[0].Field; at != "spec.template.spec.domain.devices.disks[0].name" {
		t.Errorf("the problem is at %s", at)
	}
	if says := problems[0].ErrorBody(); !strings.Contains(says, `did you mean "ledger-disk"?`) {
		t.Errorf("says %s", says)
	}
}

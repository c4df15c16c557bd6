package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

const catalogue = "../../examples/catalogue"

// enabled are the feature gates that the VMs require.
const enabled = "--feature-gates=HostDevices=true,HostDisk=true,WorkloadEncryptionSEV=true"

// TestCatalogue runs the tests of the catalogue, which must cover everything.
func TestCatalogue(t *testing.T) {
	got := call(t, "", "test", "-f", catalogue, "--coverage", "-o", "json")
	var report testReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err, got.err)
	}
	if got.code != exitFine {
		t.Error(call(t, "", "test", "-f", catalogue).out)
	}
	if c := report.Coverage; !c.Full() || c.Forbids.Total == 0 || c.Results.Total == 0 {
		t.Errorf("cases do not cover all of the catalogue: %+v", c)
	}
}

// TestCatalogueTogether lints all presets together, in both modes.
func TestCatalogueTogether(t *testing.T) {
	says(t, call(t, "", "lint", "-f", catalogue).fine(t).out, "presets: 0 errors, 0 warnings, ")
	for _, mode := range []string{"standalone", "addon"} {
		if got := call(t, "", "validate", "-f", catalogue, "--mode", mode).fine(t); !strings.HasSuffix(got.out, ": all fine\n") || got.err != "" {
			t.Errorf("%s: %s%s", mode, got.out, got.err)
		}
	}
}

// TestCatalogueRenders renders the VM of each admitted case with all presets, in both modes.
func TestCatalogueRenders(t *testing.T) {
	files, err := filepath.Glob(catalogue + "/tests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rendered := 0
	for _, file := range files {
		var suite struct {
			Objects []map[string]any
			Cases   []struct {
				Name   string
				VM     map[string]any
				Expect struct{ Rejected []string }
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, file)), &suite); err != nil {
			t.Fatal(err)
		}
		for _, c := range suite.Cases {
			if len(c.Expect.Rejected) > 0 || c.VM["spec"].(map[string]any)["instancetype"] != nil {
				continue // render expands no instancetypes
			}
			c.VM["apiVersion"], c.VM["kind"] = "kubevirt.io/v1", "VirtualMachine"
			c.VM["metadata"].(map[string]any)["name"] = "vm"
			for _, mode := range []string{"standalone", "addon"} {
				got := call(t, listOf(t, append(slices.Clone(suite.Objects), c.VM)), "render", "-f", "-", "-f", catalogue, "--mode", mode, enabled)
				if mode == "standalone" && needsKubeVirt.MatchString(got.err) {
					continue
				}
				if got.code != exitFine || !strings.Contains(got.out, "</domain>") {
					t.Errorf("%s, %s: %s: exit code %d: %s", mode, file, c.Name, got.code, got.err)
				}
				rendered++
			}
		}
	}
	if rendered == 0 {
		t.Error("no case was rendered")
	}
}

// TestCatalogueOnCorpus checks that each VM and VMI of the corpus stays valid without presets, with
// each preset alone and with all combinable presets. Only forbid rules may reject it.
func TestCatalogueOnCorpus(t *testing.T) {
	dir := os.Getenv("VIRTWRIGHT_CORPUS")
	if dir == "" {
		t.Skip("VIRTWRIGHT_CORPUS names no folder with manifests")
	}
	objects, choices := corpusIn(t, dir), choices(t)
	staysAdmissible(t, objects, choices)
	for _, mode := range []string{"standalone", "addon"} {
		for _, name := range slices.Sorted(maps.Keys(choices)) {
			if mode == "standalone" && (strings.HasPrefix(name, "windows") || name == "namespace-network") {
				continue // pods cannot run them, and expand prints no rejected VM
			}
			chosen := choose(objects, choices[name])
			if len(choices[name]) > 1 {
				continue // those of one name have others that act instead
			}
			acted := call(t, listOf(t, chosen), "expand", "-f", "-", "-f", catalogue, "--mode", mode, enabled).out
			for _, p := range choices[name] {
				if spec := p.GetSpec(); spec.Defaults == nil && spec.Overrides == nil {
					continue // it can only reject VMs, which expand leaves out
				}
				if !strings.Contains(acted, `"cluster/`+p.GetName()+"@") {
					t.Errorf("%s, %s: preset %s acts on no VM of the corpus", mode, name, p.GetName())
				}
			}
		}
	}
}

// choices are sets of presets that a VM selects: none, each alone, and all combinable ones.
func choices(t *testing.T) map[string][]v1alpha1.Preset {
	t.Helper()
	out := map[string][]v1alpha1.Preset{"no preset": nil}
	all := cataloguePresets(t)
	for _, p := range all {
		out[p.GetName()] = []v1alpha1.Preset{p}
	}
	for _, system := range []string{"linux", "windows"} {
		out["all with "+system] = slices.DeleteFunc(slices.Clone(all), func(p v1alpha1.Preset) bool {
			labels := p.GetSpec().Match.Labels
			return labels != nil && labels.MatchLabels["os"] != "" && labels.MatchLabels["os"] != system
		})
	}
	return out
}

// needsKubeVirt are problems of VMs that require KubeVirt: pods of VMIs have no secondary networks,
// and no persistent state of a TPM or the firmware.
var needsKubeVirt = regexp.MustCompile(`: Forbidden: not supported: (only the pod network|a pod )`)

// byRule are problems of forbid and require rules of the catalogue.
var byRule = regexp.MustCompile(`\(preset cluster/(hardening|cost-center)`)

// staysAdmissible checks that presets add no problem to a VM, except those of their rules.
func staysAdmissible(t *testing.T, objects []map[string]any, choices map[string][]v1alpha1.Preset) {
	t.Helper()
	for _, mode := range []string{"standalone", "addon"} {
		before := problemsOf(t, mode, objects)
		for _, name := range slices.Sorted(maps.Keys(choices)) {
			for vm, problems := range problemsOf(t, mode, choose(objects, choices[name]), "-f", catalogue) {
				for _, p := range problems {
					if !slices.Contains(before[vm], p) && !byRule.MatchString(p) && (mode != "standalone" || !needsKubeVirt.MatchString(p)) {
						t.Errorf("%s, %s: %s: %s", mode, name, vm, p)
					}
				}
			}
		}
	}
}

func objectsIn(t *testing.T, files ...string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, file := range files {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(read(t, file)), 1<<16)
		for {
			var document map[string]any
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("cannot read %s: %v", file, err)
			}
			if document != nil {
				out = append(out, document)
			}
		}
	}
	return out
}

func corpusIn(t *testing.T, dir string) []map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", dir, err)
	}
	return objectsIn(t, files...)
}

func catalogueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(catalogue + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no presets: %v", err)
	}
	return files
}

func cataloguePresets(t *testing.T) []v1alpha1.Preset {
	t.Helper()
	var out []v1alpha1.Preset
	for _, document := range objectsIn(t, catalogueFiles(t)...) {
		preset := &v1alpha1.ClusterVirtualMachinePreset{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(document, preset); err != nil {
			t.Fatal(err)
		}
		out = append(out, preset)
	}
	return out
}

// choose returns the objects with labels and annotations that select the presets.
func choose(objects []map[string]any, chosen []v1alpha1.Preset) []map[string]any {
	labels, annotations := map[string]any{}, map[string]any{}
	namespace := map[string]any{"name": "default", "labels": map[string]any{}}
	for _, p := range chosen {
		match := p.GetSpec().Match
		if match.Labels != nil {
			for key, value := range match.Labels.MatchLabels {
				labels[key] = value
			}
		}
		if match.Namespaces != nil {
			for key, value := range match.Namespaces.MatchLabels {
				namespace["labels"].(map[string]any)[key] = value
			}
		}
		if match.Explicit {
			annotations[v1alpha1.AnnotationPresets] = "cluster/" + p.GetName()
		}
		if p.GetName() == "namespace-network" {
			namespace["annotations"] = map[string]any{"example.com/vm-network": "vlan-7"}
		}
	}
	out := []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": namespace}}
	for _, o := range objects {
		o = runtime.DeepCopyJSON(o)
		if kind := o["kind"]; kind == "VirtualMachine" || kind == "VirtualMachineInstance" {
			merge(o["metadata"].(map[string]any), "labels", labels)
			merge(o["metadata"].(map[string]any), "annotations", annotations)
		}
		out = append(out, o)
	}
	return out
}

func merge(meta map[string]any, field string, more map[string]any) {
	if meta[field] == nil {
		meta[field] = map[string]any{}
	}
	maps.Copy(meta[field].(map[string]any), more)
}

// problemsOf returns the reasons why VMs are rejected.
func problemsOf(t *testing.T, mode string, objects []map[string]any, args ...string) map[string][]string {
	t.Helper()
	got := call(t, listOf(t, objects), append([]string{"validate", "-f", "-", "-o", "json", "--mode", mode, enabled}, args...)...)
	var report struct {
		Objects []struct {
			Kind, Name string
			Problems   []struct{ Field, Message string }
		}
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err, got.err)
	}
	out := map[string][]string{}
	for _, o := range report.Objects {
		for _, p := range o.Problems {
			out[o.Kind+" "+o.Name] = append(out[o.Kind+" "+o.Name], p.Field+": "+p.Message)
		}
	}
	return out
}

func listOf(t *testing.T, objects []map[string]any) string {
	t.Helper()
	out, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

package presets_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/presets"
	"github.com/virtwright/virtwright/test/presettest"
)

// LaunchKeepsTemplate is true only if Launch returns the template, and it changes nothing.
func TestLaunchesTemplate(t *testing.T) {
	paths, err := filepath.Glob("../examples/vms/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal("no examples", err)
	}
	vms := map[string][]byte{"realistic": presettest.RealisticVM()}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range strings.Split(string(text), "\n---\n") {
			if vms[fmt.Sprint(path, i)], err = yaml.YAMLToJSON([]byte(document)); err != nil {
				t.Fatal(err)
			}
		}
	}
	launch := func(match string) v1alpha1.Preset {
		return presettest.Cluster("launch", "applyAt: Launch\nmatch: "+match+"\ndefaults: {spec: {template: {spec: {terminationGracePeriodSeconds: 7}}}}")
	}
	for name, c := range map[string]struct {
		presets []v1alpha1.Preset
		edit    string // from, to
		want    bool
	}{
		"as it is":                    {want: true},
		"a preset that cannot match":  {presets: []v1alpha1.Preset{launch(`{labels: {matchLabels: {no: vm}}}`)}, want: true},
		"a preset that may match":     {presets: []v1alpha1.Preset{launch(`{}`)}},
		"a default that was removed":  {edit: `"machine":{"type":"q35"}`},
		"presets that the VM selects": {edit: `"annotations":{`, presets: []v1alpha1.Preset{}},
	} {
		t.Run(name, func(t *testing.T) {
			engine := &presets.Engine{Platform: &presets.Platform{}}
			snapshot := presettest.Snapshot(t, c.presets...)
			for path, vm := range vms {
				namespace := presets.Namespace{Name: "default"}
				result, err := engine.Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: vm, Namespace: namespace})
				if err != nil {
					continue // rejected
				}
				raw, err := json.Marshal(result.Object())
				if err != nil {
					t.Fatal(err)
				}
				text := string(raw)
				switch {
				case strings.HasPrefix(c.edit, `"machine"`):
					text = strings.Replace(text, c.edit, `"machine":{}`, 1)
				case c.edit != "":
					text = strings.Replace(text, c.edit, c.edit+`"virtwright.dev/exclude":"x",`, 1)
				}
				var decoded map[string]any
				if err := json.Unmarshal([]byte(text), &decoded); err != nil {
					t.Fatal(err)
				}
				before, err := json.Marshal(decoded)
				if err != nil {
					t.Fatal(err)
				}
				got := engine.LaunchKeepsTemplate(snapshot, decoded, namespace)
				after, err := json.Marshal(decoded)
				if err != nil || string(after) != string(before) {
					t.Errorf("%s was changed (-before +after):\n%s", path, cmp.Diff(string(before), string(after)))
				}
				if path == "realistic" && got != c.want {
					t.Errorf("%s: got %t, want %t", path, got, c.want)
				}
				if got {
					isTemplate(t, engine, snapshot, []byte(text), decoded)
				}
			}
		})
	}
}

// isTemplate checks that the VMI of a VM equals its template.
func isTemplate(t *testing.T, engine *presets.Engine, snapshot *presets.Snapshot, raw []byte, vm map[string]any) {
	t.Helper()
	launched, err := engine.Launch(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Object: raw, Namespace: presets.Namespace{Name: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	var instance map[string]any
	if err := json.Unmarshal(launched, &instance); err != nil {
		t.Fatal(err)
	}
	template := vm["spec"].(map[string]any)["template"].(map[string]any)
	annotations := func(object map[string]any) map[string]any {
		meta, _ := object["metadata"].(map[string]any)
		all, _ := meta["annotations"].(map[string]any)
		out := maps.Clone(all)
		delete(out, v1alpha1.AnnotationProvenance)
		if len(out) == 0 {
			return nil
		}
		return out
	}
	for path, name := range map[string]string{"spec.domain.cpu": "maxSockets", "spec.domain.memory": "maxGuest"} {
		asked, _ := presettest.At(template, path).(map[string]any)
		got, _ := presettest.At(instance, path).(map[string]any)
		if asked[name] == nil {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(template["spec"], instance["spec"]) + cmp.Diff(annotations(template), annotations(instance)); diff != "" {
		t.Errorf("%s (-template +instance):\n%s", raw, diff)
	}
}

// A preset of the launch may override the choice that a default of the definition made.
func TestLaunchOverridesChoice(t *testing.T) {
	engine := &presets.Engine{}
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("bios", "defaults: {spec: {template: {spec: {domain: {firmware: {bootloader: {bios: {}}}}}}}}"),
		presettest.Cluster("efi", "applyAt: Launch\noverrides: {spec: {template: {spec: {domain: {firmware: {bootloader: {efi: {secureBoot: false}}}}}}}}"),
	)
	request := presets.Request{
		Kind: presets.VirtualMachine, Namespace: presets.Namespace{Name: "default"},
		Object: []byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"template":{"spec":{"domain":{}}}}}`),
	}
	result, err := engine.Resolve(t.Context(), snapshot, request)
	if err != nil {
		t.Fatal(err)
	}
	if request.Object, err = json.Marshal(result.Object()); err != nil {
		t.Fatal(err)
	}
	launched, err := engine.Launch(t.Context(), snapshot, request)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"efi": map[string]any{"secureBoot": false}}
	if diff := cmp.Diff(any(want), presettest.At(presettest.Object(launched), "spec.domain.firmware.bootloader")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLaunchRevealsNoStoredValue: the response to the creation of a VMI, which a caller may have
// forged, holds values of the request and of presets, but none of the stored VM.
func TestLaunchRevealsNoStoredValue(t *testing.T) {
	engine := &presets.Engine{Platform: &presets.Platform{}, WarnEverything: true}
	namespace := presets.Namespace{Name: "default"}
	snapshot := presettest.Snapshot(t,
		presettest.Cluster("names", "overrides: {spec: {template: {spec: {hostname: policy, subdomain: policy}}}}\nremove: [spec.template.spec.schedulerName]"),
		presettest.Cluster("launched", "applyAt: Launch\noverrides: {spec: {template: {spec: {hostname: launched}}}}"))
	vm, err := engine.Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachine, Namespace: namespace, Object: []byte(
		`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a", "annotations": {"note": "hidden-0"}}, "spec": {"template": {"spec": {
			"hostname": "hidden-1", "subdomain": "hidden-2", "schedulerName": "hidden-3", "nodeSelector": {"a": "hidden-4"}, "domain": {"memory": {"guest": "1Gi"}}}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(vm.Object())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(stored), "hidden") != 5 {
		t.Fatalf("the stored VM lacks values: %s", stored)
	}
	for _, spec := range []string{`{}`, `{"hostname": "sent", "subdomain": "sent"}`, `{"hostname": "policy", "subdomain": "policy"}`} {
		result, err := engine.Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachineInstance, Namespace: namespace, Owner: stored, Object: []byte(
			`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "a"}, "spec": ` + spec + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		if response := fmt.Sprint(result.Patch, result.Warnings, result.Audit); strings.Contains(response, "hidden") || !strings.Contains(response, "launched") {
			t.Errorf("%s: %s", spec, response)
		}
	}
}

// KubeVirt copies annotations of instancetypes and preferences, which other users write, to VMIs.
func TestInstancesNameOnlyWhatTheirVMNames(t *testing.T) {
	snapshot := presettest.Snapshot(t, presettest.Cluster("late", "{match: {explicit: true}, applyAt: Launch, defaults: {spec: {template: {spec: {hostname: given}}}}}"))
	const names = `"metadata": {"annotations": {"virtwright.dev/presets": "cluster/late"}}, `
	for owner, given := range map[string]bool{"": false, names: true} {
		vm := `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a"}, "spec": {"template": {` + owner + `"spec": {}}}}`
		vmi := `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", ` + names + `"spec": {"domain": {"devices": {}}}}`
		result, err := (&presets.Engine{}).Resolve(t.Context(), snapshot, presets.Request{Kind: presets.VirtualMachineInstance, Object: []byte(vmi), Owner: []byte(vm)})
		if err != nil {
			t.Fatal(err)
		}
		hostname, _, _ := unstructured.NestedString(result.Object(), "spec", "hostname")
		if (hostname == "given") != given {
			t.Errorf("with a VM that has %q, the hostname is %q", owner, hostname)
		}
	}
}

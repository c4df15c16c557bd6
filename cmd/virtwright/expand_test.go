package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/test/golden"
)

func TestExpandExamples(t *testing.T) {
	for _, file := range examples(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			got := call(t, "", "expand", "-f", file, "-f", examplePresets, "-f", exampleNamespaces).fine(t)
			golden.Equal(t, "testdata/"+name+".out.yaml", got.out)
			if got.err != "" {
				golden.Equal(t, "testdata/"+name+".warnings.out.txt", got.err)
			}

			again := call(t, got.out, "expand", "-f", "-", "-f", examplePresets, "-f", exampleNamespaces).fine(t)
			if diff := cmp.Diff(got.out, again.out); diff != "" {
				t.Errorf("the expanded object is expanded further (-once, +twice):\n%s", diff)
			}
		})
	}
	golden.Stale(t, "testdata/*.out.yaml")
	golden.Stale(t, "testdata/*.warnings.out.txt")
}

func TestExpandSeveral(t *testing.T) {
	got := call(t, "", "expand", "-f", exampleVMs, "-f", examplePresets, "-f", exampleNamespaces, "--warnings", "Everything").fine(t)
	if n := strings.Count(got.out, "\n- apiVersion: "); n != len(examples(t)) {
		t.Errorf("%d items for %d objects", n, len(examples(t)))
	}
	says(t, got.err, "Warning: VirtualMachine lab/tiny: preset cluster/size-small set ")
}

func TestExpandFormats(t *testing.T) {
	preset := write(t, "cores.yaml", cores)
	asYAML := call(t, sparse, "expand", "-f", "-", "-f", preset).fine(t)
	asJSON := call(t, sparse, "expand", "-f", "-", "-f", preset, "-o", "json").fine(t)
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal([]byte(asYAML.out), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(asJSON.out), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromYAML, fromJSON); diff != "" {
		t.Errorf("-yaml, +json:\n%s", diff)
	}
	asDiff := call(t, sparse+"spec: {runStrategy: Halted, template: {}}\n", "expand", "-f", "-", "-f", preset, "-o", "diff", "--mode", "addon").fine(t)
	says(t, asDiff.out, "--- VirtualMachine default/vm (standard input, document 1, as sent)\n", "\n+          cores: 7\n", "\n   name: vm\n")
	same := call(t, asYAML.out, "expand", "-f", "-", "-f", preset, "-o", "diff").fine(t)
	if same.out != "" {
		t.Errorf("a diff of an expanded object:\n%s", same.out)
	}
}

// Each form of the input has the same result.
func TestExpandInput(t *testing.T) {
	preset := write(t, "cores.yaml", cores)
	want := call(t, "", "expand", "-f", write(t, "vm.yaml", sparse), "-f", preset).fine(t)
	asJSON := func(text string) string {
		out, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	list := `{"apiVersion":"v1","kind":"List","items":[` + asJSON(sparse) + "," + asJSON(cores) + "]}"
	for name, in := range map[string]struct {
		stdin string
		args  []string
	}{
		"standard input":       {sparse, []string{"-f", "-", "-f", preset}},
		"several documents":    {"---\n# nothing\n---\n" + sparse + "--- # and\n" + cores, []string{"-f", "-"}},
		"windows line ends":    {strings.ReplaceAll(sparse+"---\n"+cores, "\n", "\r\n"), []string{"-f", "-"}},
		"JSON":                 {asJSON(sparse), []string{"-f", "-", "-f", preset}},
		"JSON in a file":       {"", []string{"-f", write(t, "vm.json", asJSON(sparse)), "-f", preset}},
		"several JSON":         {asJSON(sparse) + "\n" + asJSON(cores), []string{"-f", "-"}},
		"flow style":           {"{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm}}", []string{"-f", "-", "-f", preset}},
		"List":                 {list, []string{"-f", "-"}},
		"folder":               {"", []string{"-f", filepath.Dir(write(t, "all.yml", sparse+"---\n"+cores))}},
		"a link to a folder":   {sparse, []string{"-f", "-", "-f", link(t, filepath.Dir(preset))}},
		"one file by two ways": {sparse, []string{"-f", "-", "-f", preset, "-f", filepath.Dir(preset), "-f", "-"}},
		"one file twice":       {sparse, []string{"-f", "-", "-f", preset, "-f", preset}},
		"an unlabelled folder": {sparse, []string{"-f", "-", "-f", filepath.Dir(preset)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, in.stdin, append([]string{"expand"}, in.args...)...).fine(t)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestExpandNamespaces(t *testing.T) {
	web := exampleVMs + "/web.yaml"
	known := call(t, "", "expand", "-f", web, "-f", examplePresets, "-f", exampleNamespaces).fine(t)
	named := call(t, "", "expand", "-f", web, "-f", examplePresets, "--namespace-labels", "tier=prod,secure-boot=required").fine(t)
	if diff := cmp.Diff(known, named, cmp.AllowUnexported(outcome{})); diff != "" {
		t.Errorf("-Namespace, +--namespace-labels:\n%s", diff)
	}
	unknown := call(t, "", "expand", "-f", web, "-f", examplePresets).fine(t)
	says(t, unknown.err, "Note: the labels of namespace shop are unknown", "cluster/secure-boot", "--namespace-labels")

	// Presets and VMs without a namespace are in the same namespace.
	preset := write(t, "cores.yaml", cores+"\n---\n"+strings.ReplaceAll(strings.ReplaceAll(cores, "{name: cores}", "{name: elsewhere, namespace: b}"), "cores: 7", "cores: 9"))
	in := call(t, sparse, "expand", "-f", "-", "-f", preset, "-n", "a").fine(t)
	says(t, in.out, "cores: 7")
	if strings.Contains(in.out, "namespace:") {
		t.Errorf("the object has got a namespace:\n%s", in.out)
	}

	labelled := strings.ReplaceAll(cores, "VirtualMachinePreset", "ClusterVirtualMachinePreset") +
		"  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: a}}}\n"
	labelled = strings.Replace(labelled, "spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 7}, memory: {guest: 1Gi}}}}}}}",
		"spec:\n  defaults: {spec: {template: {spec: {domain: {cpu: {cores: 7}, memory: {guest: 1Gi}}}}}}", 1)
	by := call(t, sparse, "expand", "-f", "-", "-f", write(t, "a.yaml", labelled), "--namespace", "a").fine(t)
	says(t, by.out, "cores: 7")
}

func TestExpandModes(t *testing.T) {
	legacy := write(t, "legacy.yaml", "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstancePreset\nmetadata: {name: old}\nspec: {selector: {}, domain: {cpu: {cores: 3}}}\n")
	instance := "apiVersion: kubevirt.io/v1alpha3\nkind: VirtualMachineInstance\nmetadata: {name: vmi}\nspec: {domain: {memory: {guest: 1Gi}}}\n"
	alone := call(t, instance, "expand", "-f", "-", "-f", legacy).fine(t)
	says(t, alone.out, "cores: 3", "machine:", "virtualmachinepreset.kubevirt.io/old")
	beside := call(t, instance, "expand", "-f", "-", "-f", legacy, "--mode", "addon").fine(t)
	if strings.Contains(beside.out, "cores") || strings.Contains(beside.out, "machine:") {
		t.Errorf("in addon mode KubeVirt does this:\n%s", beside.out)
	}
	says(t, beside.err, "Note: ", "ignored VirtualMachineInstancePreset default/old")
	says(t, call(t, small, "expand", "-f", "-", "--default-cpu-model", "host-passthrough").fine(t).out, "model: host-passthrough")
}

func TestExpandOwned(t *testing.T) {
	owner := write(t, "owner.yaml", "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vmi, labels: {launch: here}}\n")
	launch := write(t, "launch.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: here}\n"+
		"spec: {applyAt: Launch, match: {labels: {matchLabels: {launch: here}}}, defaults: {spec: {template: {spec: {nodeSelector: {pool: a}}}}}}\n")
	instance := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: vmi}\nspec: {domain: {memory: {guest: 1Gi}}}\n"
	owned := call(t, instance, "expand", "-f", "-", "-f", launch, "--owner", owner).fine(t)
	says(t, owned.out, "pool: a")
	if alone := call(t, instance, "expand", "-f", "-", "-f", launch).fine(t); strings.Contains(alone.out, "pool") {
		t.Errorf("without its owner it has no such label:\n%s", alone.out)
	}
}

// A rejected VM does not prevent the output of the others.
func TestExpandGoesOn(t *testing.T) {
	got := call(t, small+"---\n"+strings.Replace(sparse, "{name: vm}", "{name: bad}", 1)+"spec: {template: x}\n---\n"+
		strings.Replace(small, "{name: vm}", "{name: last}", 1), "expand", "-f", "-")
	if got.code != exitRejected {
		t.Errorf("exit code %d, want %d", got.code, exitRejected)
	}
	says(t, got.out, "kind: List\n", "name: vm\n", "name: last\n")
	says(t, got.err, "standard input, document 2: VirtualMachine default/bad is rejected:\n  spec.template: ")
}

func link(t *testing.T, to string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(to, at); err != nil {
		t.Skip(err)
	}
	return at
}

// The namespace of a cluster-scoped object is ignored.
func TestExpandClusterPresetInNamespace(t *testing.T) {
	cluster := strings.Replace(strings.Replace(cores, "VirtualMachinePreset", "ClusterVirtualMachinePreset", 1), "{name: cores}", "{name: cores, namespace: elsewhere}", 1)
	says(t, call(t, sparse+"---\n"+cluster, "expand", "-f", "-").fine(t).out, "cores: 7", `"cluster/cores@1:default"`)
}

// TestExpandDuringRollout says that VMs may get another revision of a preset than the present one.
func TestExpandDuringRollout(t *testing.T) {
	const vm = "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: web, namespace: shop}\nspec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}\n"
	preset := func(generation int) string {
		return fmt.Sprintf("apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: size, uid: u1, generation: %d}\n"+
			"spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}\n", generation)
	}
	rollout := func(stable int) string {
		return fmt.Sprintf("---\napiVersion: virtwright.dev/v1alpha1\nkind: PresetRollout\nmetadata: {name: sizes}\n"+
			"spec: {presets: [cluster/size], waves: [{name: all}]}\nstatus: {presets: [{name: cluster/size, uid: u1, stable: %d, target: 4}]}\n", stable)
	}
	for name, c := range map[string]struct{ text, note string }{
		"not complete":            {preset(4) + rollout(3), "get revision 3 of cluster/size, and not the present one as assumed here"},
		"of a new preset":         {preset(4) + rollout(0), "get nothing of cluster/size, and not the present one as assumed here"},
		"of a preset from a file": {preset(0) + rollout(3), "get revision 3 of cluster/size"},
		"complete":                {preset(4) + rollout(4), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.text+vm, "expand", "-f", "-")
			says(t, got.out, "guest: 2Gi")
			if strings.Contains(got.err, "PresetRollout sizes: ") != (c.note != "") || !strings.Contains(got.err, c.note) {
				t.Errorf("note %q, want %q", got.err, c.note)
			}
		})
	}
}

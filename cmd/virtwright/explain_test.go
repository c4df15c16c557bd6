package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

// oldAppliance is a VM with values that presets of the examples override.
const oldAppliance = "testdata/explain/old-appliance.yaml"

func TestExplainExamples(t *testing.T) {
	for name, file := range map[string]string{"tiny": exampleVMs + "/tiny.yaml", "old-appliance": oldAppliance, "batch": exampleVMs + "/batch.yaml"} {
		t.Run(name, func(t *testing.T) {
			args := []string{"explain", "-f", file, "-f", examplePresets, "-f", exampleNamespaces}
			golden.Equal(t, "testdata/explain/"+name+".out.txt", call(t, "", args...).fine(t).out)
			golden.Equal(t, "testdata/explain/"+name+".out.json", call(t, "", append(args, "-o", "json")...).fine(t).out)
		})
	}
	golden.Stale(t, "testdata/explain/*.out.*")
}

// TestExplainInstancetypes shows the fields of an instancetype and a preference, and held back
// fields.
func TestExplainInstancetypes(t *testing.T) {
	input, _, _ := strings.Cut(read(t, "testdata/validate/instancetype.in.yaml"), "---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: wrong}")
	got := call(t, input, "explain", "-f", "-", "--mode", "addon", "-o", "json")
	golden.Equal(t, "testdata/instancetypes.explain.out.json", got.out)
	says(t, got.err, "VirtualMachine lab/web is rejected:\n  spec.template.spec.domain.devices.tpm: Forbidden: no TPM here")
	allowed := strings.ReplaceAll(input, "labels: {policy: strict}", "labels: {}")
	stored := call(t, allowed, "expand", "-f", "-", "--mode", "addon").fine(t).out
	it, _, _ := strings.Cut(input, "---\napiVersion: virtwright.dev") // what the VMs name, without presets
	says(t, call(t, it+"---\n"+stored, "explain", "-f", "-", "--mode", "addon").fine(t).out, "cluster/base (default)", "VirtualMachinePreference fedora")
	table := call(t, input, "explain", "-f", "-", "--mode", "addon").out
	golden.Equal(t, "testdata/instancetypes.explain.out.txt", table)
	page := call(t, input, "explain", "-f", "-", "--mode", "addon", "-o", "html").out
	says(t, page, "disk.bus: virtio", ">preference fedora<", "VirtualMachinePreference fedora sets this field when the VM starts.", "<h2>Held back</h2>")
}

func TestExplainPath(t *testing.T) {
	preset := write(t, "cores.yaml", cores)
	fields := func(stdin, path string) (paths []string, stderr string) {
		t.Helper()
		got := call(t, stdin, "explain", "-f", "-", "-f", preset, "-o", "json", path).fine(t)
		var x struct{ Fields []struct{ Path, From string } }
		if err := json.Unmarshal([]byte(got.out), &x); err != nil {
			t.Fatal(err)
		}
		for _, f := range x.Fields {
			paths = append(paths, f.Path+" "+f.From)
		}
		return paths, got.err
	}
	const cpu = "spec.template.spec.domain.cpu"
	for name, c := range map[string]struct{ stdin, path, want string }{
		"a field":                   {sparse, cpu + ".cores", cpu + ".cores preset"},
		"a subtree":                 {sparse, cpu, cpu + ".cores preset " + cpu + ".model platform " + cpu + ".sockets platform " + cpu + ".threads platform"},
		"of the user":               {sparse, "metadata.name", "metadata.name user"},
		"each element":              {sparse, "spec.template.spec.networks[*].name", "spec.template.spec.networks[default].name platform"},
		"not the server's":          {sparse + "status: {ready: true}\n", "status", ""},
		"not our namespace":         {sparse, "metadata.namespace", ""},
		"nothing there":             {sparse, "spec.preference", ""},
		"from an instance's root":   {strings.Replace(sparse, "Machine\n", "MachineInstance\n", 1), "spec.domain.cpu.cores", cpu + ".cores preset"},
		"from the root of its form": {strings.Replace(sparse, "Machine\n", "MachineInstance\n", 1), cpu + ".cores", cpu + ".cores preset"},
	} {
		t.Run(name, func(t *testing.T) {
			got, stderr := fields(c.stdin, c.path)
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
			if c.want == "" {
				says(t, stderr, "Note: ", "does not set "+c.path)
			}
		})
	}
	bad := call(t, sparse, "explain", "-f", "-", "spec..cpu")
	if bad.code != exitUsage {
		t.Errorf("exit code %d of a bad path", bad.code)
	}
	says(t, bad.err, `invalid path "spec..cpu"`)
}

// TestExplainStored explains a stored VM without presets.
func TestExplainStored(t *testing.T) {
	stored := call(t, "", "expand", "-f", oldAppliance, "-f", examplePresets, "-f", exampleNamespaces).fine(t).out
	stored = strings.Replace(stored, "metadata:\n", "metadata:\n  uid: 3a\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\n", 1)
	got := call(t, stored, "explain", "-f", "-").fine(t)
	says(t, got.out, "cluster/tier-prod (override)", "user: appliances", "(removed)", "platform (cpu-model)")
	for _, unwanted := range []string{"uid", "creationTimestamp", "PRESET", "provenance"} {
		if strings.Contains(got.out, unwanted) {
			t.Errorf("it says %q:\n%s", unwanted, got.out)
		}
	}
	for line := range strings.Lines(got.out) {
		if strings.TrimRight(line, " \n")+"\n" != line {
			t.Errorf("a line ends in spaces: %q", line)
		}
	}
	forged := sparse[:len(sparse)-2] + ", annotations: {virtwright.dev/provenance: nonsense}}\n"
	refused := call(t, forged, "explain", "-f", "-")
	if refused.code != exitRefused {
		t.Errorf("exit code %d of a record that cannot be read", refused.code)
	}
	says(t, refused.err, "document 1: VirtualMachine default/vm is rejected", "virtwright.dev/provenance")
}

func TestExplainRefused(t *testing.T) {
	got := call(t, "", "explain", "-f", exampleRefused+"/passthrough.yaml", "-f", examplePresets, "-f", exampleNamespaces)
	if got.code != exitRefused || got.out != "" {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, "no passthrough in production")
}

// TestExplainWhatRulesRefuse checks that explain prints the fields of a VM before the reasons why a
// cluster refuses it.
func TestExplainWhatRulesRefuse(t *testing.T) {
	vm := strings.Replace(small, "memory: {guest: 1Gi}", "memory: {guest: 1Gi}, machine: {type: q53}", 1)
	got := call(t, vm, "explain", "-f", "-")
	if got.code != exitRefused {
		t.Errorf("exit code %d, want %d", got.code, exitRefused)
	}
	says(t, single(got.out), "spec.template.spec.domain.machine.type q53 user")
	says(t, got.err, "Error: standard input, document 1: VirtualMachine default/vm is rejected:\n  spec.template.spec.domain.machine.type: Unsupported value: \"q53\"")
	says(t, call(t, misspelt, "explain", "-f", "-", "--validation=warn").fine(t).out, "memory")
}

func TestCell(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"text":       {"a", "a"},
		"empty text": {"", `""`},
		"lines":      {"a\nb", `"a\nb"`},
		"number":     {int64(3), "3"},
		"object":     {map[string]any{}, "{}"},
		"long":       {strings.Repeat("ä", cellWidth+1), strings.Repeat("ä", cellWidth-1) + "…"},
		"just fits":  {strings.Repeat("ä", cellWidth), strings.Repeat("ä", cellWidth)},
	} {
		if got := cell(c.value); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestExplainExcluded names the annotation that excludes a preset.
func TestExplainExcluded(t *testing.T) {
	got := call(t, "", "explain", "-f", exampleVMs+"/netboot.yaml", "-f", examplePresets, "-f", exampleNamespaces).fine(t)
	says(t, got.out, "matches; the annotation virtwright.dev/exclude excludes it")
}

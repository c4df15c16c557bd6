package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/api/v1alpha1"
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
	sparse := call(t, stored, "explain", "-f", "-", "--mode", "addon", "-o", "html").fine(t).out
	says(t, sparse, "<h2>Sparse manifest</h2>", "A create of this manifest gives the same VM.")
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
	says(t, got.out, "cluster/tier-prod (override)", "appliances", "(removed)", "platform (cpu-model)")
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
	rejected := call(t, forged, "explain", "-f", "-")
	if rejected.code != exitRejected {
		t.Errorf("exit code %d of a record that cannot be read", rejected.code)
	}
	says(t, rejected.err, "document 1: VirtualMachine default/vm is rejected", "virtwright.dev/provenance")
}

func TestExplainRejected(t *testing.T) {
	got := call(t, "", "explain", "-f", exampleRejected+"/passthrough.yaml", "-f", examplePresets, "-f", exampleNamespaces)
	if got.code != exitRejected || got.out != "" {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, "no passthrough in production")
}

// TestExplainWhatRulesReject checks that explain prints the fields of a VM before the reasons why a
// cluster rejects it.
func TestExplainWhatRulesReject(t *testing.T) {
	vm := strings.Replace(small, "memory: {guest: 1Gi}", "memory: {guest: 1Gi}, machine: {type: q53}", 1)
	got := call(t, vm, "explain", "-f", "-")
	if got.code != exitRejected {
		t.Errorf("exit code %d, want %d", got.code, exitRejected)
	}
	says(t, single(got.out), "domain.machine.type q53 user")
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
		"wide":       {strings.Repeat("注", cellWidth), strings.Repeat("注", cellWidth/2-1) + "…"},
		"control":    {"a\x1b[2J\u202e", `a\u001b[2J\u202e`},
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
	if strings.Contains(got.out, "instead of") {
		t.Errorf("a value competes that is excluded:\n%s", got.out)
	}
}

// TestExplainPresets checks that presets that did not match are behind --all.
func TestExplainPresets(t *testing.T) {
	args := []string{"explain", "-f", exampleVMs + "/tiny.yaml", "-f", examplePresets, "spec.template.spec.domain.cpu"}
	short := call(t, "", args...).fine(t)
	says(t, short.out, "cluster/size-small", "11 presets did not match: --all lists the reasons")
	if short.err != "" || strings.Contains(short.out, "windows") {
		t.Errorf("a note, or presets that did not match:\n%s%s", short.err, short.out)
	}
	all := call(t, "", append(args, "--all")...).fine(t).out
	says(t, all, "labels do not match os=windows")
	if strings.Index(all, "cluster/size-small") > strings.Index(all, "cluster/windows") || strings.Contains(all, "--all") {
		t.Errorf("presets that matched are not first:\n%s", all)
	}
	// The unknown labels of the namespace matter to other fields.
	says(t, call(t, "", args[:5]...).fine(t).err, "the labels of namespace lab are unknown")
	says(t, call(t, "", append(args[:5:5], "spec.template.spec.nodeSelector")...).fine(t).err, "but preset cluster/node-pool selects")
}

// TestExplainFits checks that tables of fields fit 100 columns, also with wide characters.
func TestExplainFits(t *testing.T) {
	wide := strings.Replace(small, "metadata: {", `metadata: {annotations: {"note": "日本語の注釈 🎉", "long": "`+strings.Repeat("長い", 60)+`"}, `, 1)
	for name, got := range map[string]outcome{
		"examples": call(t, "", "explain", "-f", exampleVMs, "-f", examplePresets, "-f", exampleNamespaces),
		"wide":     call(t, wide, "explain", "-f", "-"),
	} {
		t.Run(name, func(t *testing.T) {
			table, from := false, 0
			for line := range strings.Lines(got.fine(t).out) {
				line = strings.TrimSuffix(line, "\n")
				switch {
				case strings.HasPrefix(line, "FIELD "):
					table, from = true, strings.Index(line, "FROM")
				case line == "":
					table = false
				case table && width(line) > tableWidth && strings.Contains(strings.TrimSpace(line), " "):
					t.Errorf("%d columns: %s", width(line), line)
				case table && strings.HasSuffix(line, " user") && width(strings.TrimSuffix(line, "user")) != from:
					t.Errorf("FROM is not in column %d: %s", from, line)
				}
			}
		})
	}
}

// TestExplainYAML checks that comments do not change the YAML of a VM, except for the record.
func TestExplainYAML(t *testing.T) {
	awkward := strings.Replace(sparse, "metadata: {", `metadata: {annotations: {a: "one\ntwo # three\n", b: "`+strings.Repeat("long | ", 40)+`", c: "#", d: "x\n\n", e: "- |"}, `, 1)
	preset := write(t, "preset.yaml", strings.NewReplacer("defaults:", "overrides:").Replace(cores))
	for name, c := range map[string]struct {
		stdin string
		args  []string
	}{
		"awkward":  {awkward, []string{"-f", "-", "-f", preset}},
		"examples": {"", []string{"-f", exampleVMs, "-f", examplePresets, "-f", exampleNamespaces}},
	} {
		t.Run(name, func(t *testing.T) {
			explained := recordless(t, call(t, c.stdin, append([]string{"explain", "-o", "yaml"}, c.args...)...).fine(t).out)
			expanded := recordless(t, call(t, c.stdin, append([]string{"expand"}, c.args...)...).fine(t).out)
			if diff := cmp.Diff(expanded, explained); diff != "" {
				t.Errorf("expand and explain differ: -expand +explain:\n%s", diff)
			}
		})
	}
	got := call(t, "", "explain", "-o", "yaml", "-f", oldAppliance, "-f", examplePresets, "-f", exampleNamespaces).fine(t).out
	says(t, got, "# VirtualMachine shop/old-appliance (", "# bios: {}", "# removed by cluster/secure-boot (override)",
		`# The user wrote "appliances". An override outranks the user.`, "# platform (cpu-model)", "# virtwright.dev/provenance: ")
}

// recordless returns the VMs of YAML without their records.
func recordless(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		items, isList := object["items"].([]any)
		if !isList {
			items = []any{object}
		}
		for _, item := range items {
			vm, _ := item.(map[string]any)
			meta, _ := vm["metadata"].(map[string]any)
			annotations, _ := meta["annotations"].(map[string]any)
			delete(annotations, v1alpha1.AnnotationProvenance)
			if len(annotations) == 0 {
				delete(meta, "annotations")
			}
			out = append(out, vm)
		}
	}
	return out
}

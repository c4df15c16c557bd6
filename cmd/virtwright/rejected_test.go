package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestBadInput(t *testing.T) {
	t.Setenv("KUBECONFIG", "/does/not/exist")
	preset := func(spec string) string {
		return "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: p}\nspec: " + spec + "\n"
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  []string
	}{
		"nothing":              {"", nil, exitUsage, []string{"-f is required"}},
		"an argument":          {"", []string{"vm.yaml"}, exitUsage, []string{"vm.yaml"}},
		"unknown flag":         {"", []string{"--flie", "x"}, exitUsage, []string{"--flie", "virtwright expand --help"}},
		"unknown format":       {sparse, []string{"-f", "-", "-o", "xml"}, exitUsage, []string{`"yaml"`, `"xml"`}},
		"unknown mode":         {sparse, []string{"-f", "-", "--mode", "solo"}, exitUsage, []string{"standalone", "solo"}},
		"impossible namespace": {sparse, []string{"-f", "-", "-n", "A B"}, exitUsage, []string{`--namespace "A B"`}},
		"impossible label":     {sparse, []string{"-f", "-", "--namespace-labels", "a b=c"}, exitUsage, []string{"--namespace-labels a b=c"}},
		"missing file":         {"", []string{"-f", "missing.yaml"}, exitUsage, []string{"cannot read missing.yaml: no such file"}},
		"empty folder":         {"", []string{"-f", t.TempDir()}, exitUsage, []string{"no *.yaml"}},
		"empty file":           {"", []string{"-f", write(t, "empty.yaml", "# nothing\n")}, exitUsage, []string{"no object"}},
		"no machine":           {cores, []string{"-f", "-"}, exitUsage, []string{"no VirtualMachine"}},
		"file without a supported kind": {"", []string{"-f", write(t, "vm.yaml", sparse), "-f", write(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")}, exitUsage,
			[]string{"pod.yaml, document 1: unsupported kind Pod of v1"}},
		"preset of a misspelt group": {"", []string{"-f", write(t, "group.yaml", sparse+"---\napiVersion: virtwright.io/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: p}\n")}, exitUsage,
			[]string{"group.yaml, document 2: unsupported kind VirtualMachinePreset of virtwright.io/v1alpha1: use virtwright.dev/v1alpha1"}},
		"misspelt kind": {"", []string{"-f", write(t, "typo.yaml", sparse+"---\napiVersion: kubevirt.io/v1\nkind: Virtualmachine\nmetadata: {name: b}\n")}, exitUsage,
			[]string{`document 2: unsupported kind Virtualmachine of kubevirt.io/v1; did you mean "VirtualMachine"?`}},
		"misspelt kind on standard input": {sparse + "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachines\nmetadata: {name: b}\n", []string{"-f", "-"}, exitUsage,
			[]string{`document 2: unsupported kind VirtualMachines of kubevirt.io/v1; did you mean "VirtualMachine"?`}},
		"kind with words in another order": {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachineClusterPreset\nmetadata: {name: p}\n", []string{"-f", "-"}, exitUsage,
			[]string{`did you mean "ClusterVirtualMachinePreset"?`}},
		"abbreviated kind": {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterPreset\nmetadata: {name: p}\n", []string{"-f", "-"}, exitUsage,
			[]string{`document 2: unsupported kind ClusterPreset of virtwright.dev/v1alpha1; did you mean "ClusterVirtualMachinePreset"?`}},
		"shortest kind": {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: Preset\nmetadata: {name: p}\n", []string{"-f", "-"}, exitUsage,
			[]string{`document 2: unsupported kind Preset of virtwright.dev/v1alpha1; did you mean "VirtualMachinePreset"?`}},
		"misspelt preset of KubeVirt": {sparse + "---\napiVersion: kubevirt.io/v1\nkind: VirtualmachineInstancePresets\nmetadata: {name: b}\n", []string{"-f", "-"}, exitUsage,
			[]string{`did you mean "VirtualMachineInstancePreset"?`}},
		"unknown version":                       {strings.Replace(sparse, "/v1", "/v9", 1), []string{"-f", "-"}, exitUsage, []string{"document 1", "unsupported version of kind VirtualMachine: kubevirt.io/v9: use kubevirt.io/v1"}},
		"no kind":                               {"metadata: {name: a}\n", []string{"-f", "-"}, exitUsage, []string{"standard input, document 1", "apiVersion and kind"}},
		"a text":                                {"hello\n", []string{"-f", "-"}, exitUsage, []string{"document 1", "of type string, not an object"}},
		"bad YAML":                              {sparse + "---\n" + sparse + "spec:\n  a: b: c\n", []string{"-f", "-"}, exitUsage, []string{"standard input, document 2, line 9: cannot read the YAML"}},
		"document in the line of its separator": {sparse + "--- {apiVersion: kubevirt.io/v1, kind: VirtualMachine}\n", []string{"-f", "-"}, exitUsage, []string{"document 2, line 4: ", "write it below ---"}},
		"time of an exception":                  {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: PresetException\nmetadata: {name: e}\nspec: {until: '2030-01-01'}\n", []string{"-f", "-"}, exitRejected, []string{`spec.until: Invalid value: "2030-01-01": must be a time such as`}},
		"type in a profile":                     {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: FrontendProfile\nmetadata: {name: f}\nspec: {priority: high}\n", []string{"-f", "-"}, exitRejected, []string{"spec.priority: Invalid value: must be a whole number, not string"}},
		"type in settings of a profile":         {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: BackendProfile\nmetadata: {name: f}\nspec: {balloonStatsSeconds: never}\n", []string{"-f", "-"}, exitRejected, []string{"spec.balloonStatsSeconds: Invalid value: must be a whole number, not string"}},
		"key twice":                             {sparse + "spec: {}\nspec: {}\n", []string{"-f", "-"}, exitUsage, []string{"document 1, line 5: ", `"spec"`}},
		"bad JSON":                              {"", []string{"-f", write(t, "vm.json", "{\n\"a\": 1,\n]")}, exitUsage, []string{"vm.json, document 1, line 3: cannot read the JSON"}},
		"every problem of files":                {"", []string{"-f", "one.yaml", "-f", "two.yaml"}, exitUsage, []string{"one.yaml", "two.yaml"}},

		"misspelt preset": {sparse, []string{"-f", "-", "-f", exampleRejected + "/misspelt.yaml"}, exitRejected,
			[]string{"misspelt.yaml, document 1: ClusterVirtualMachinePreset misspelt is rejected", "spec.defaults.spec.template.spec.domain.memroy", `did you mean "memory"`}},
		"unknown field of a preset": {sparse + "---\n" + preset("{matches: {}}"), []string{"-f", "-"}, exitRejected, []string{"document 2", "spec.matches", "match"}},
		"wrong type in a preset":    {sparse + "---\n" + preset("{priority: high}"), []string{"-f", "-"}, exitRejected, []string{"document 2", "priority"}},
		"null defaults":             {sparse + "---\n" + preset("{defaults: null}"), []string{"-f", "-"}, exitRejected, []string{"spec.defaults", "null"}},
		"nameless preset":           {sparse + "---\n" + strings.Replace(preset("{}"), "{name: p}", "{}", 1), []string{"-f", "-"}, exitRejected, []string{"metadata.name: Required"}},
		"invalid name of a preset":  {sparse + "---\n" + strings.Replace(preset("{}"), "{name: p}", "{name: P_1}", 1), []string{"-f", "-"}, exitRejected, []string{`metadata.name: Invalid value: "P_1"`}},
		"nameless preference":       {sparse + "---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachinePreference\nspec: {}\n", []string{"-f", "-"}, exitRejected, []string{"metadata.name: Required"}},
		"generated name of a preset": {sparse + "---\n" + strings.Replace(preset("{}"), "{name: p}", "{generateName: p-}", 1), []string{"-f", "-"}, exitRejected,
			[]string{"metadata.name: Required value: only a cluster generates names; set the name"}},
		"numbers as names of presets": {sparse + "---\n" + strings.Replace(preset("{}"), "name: p", "name: 1", 1) + "---\n" + strings.Replace(preset("{}"), "name: p", "name: 2", 1), []string{"-f", "-"}, exitRejected,
			[]string{"document 2: ClusterVirtualMachinePreset is rejected:\n  metadata.name: Invalid value: 1: must be a string", "document 3: ClusterVirtualMachinePreset is rejected:\n  metadata.name: Invalid value: 2"}},
		"number as name of a profile": {sparse + "---\napiVersion: virtwright.dev/v1alpha1\nkind: FrontendProfile\nmetadata: {name: 1}\n", []string{"-f", "-"}, exitRejected, []string{"metadata.name: Invalid value: 1: must be a string"}},
		"name and field of a preset":  {sparse + "---\n" + strings.Replace(preset("{mod: Warn}"), "name: p", "name: P_1", 1), []string{"-f", "-"}, exitRejected, []string{"metadata.name: Invalid", "spec.mod: "}},
		"preference twice":            {sparse + strings.Repeat("---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachinePreference\nmetadata: {name: p}\nspec: {}\n", 2), []string{"-f", "-"}, exitRejected, []string{`document 3`, `metadata.name: Duplicate value: "p"`}},
		"namespace twice":             {sparse + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {tier: prod}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", []string{"-f", "-"}, exitRejected, []string{`document 3`, `Duplicate value: "a"`}},
		"nameless namespace":          {sparse + "---\napiVersion: v1\nkind: Namespace\nmetadata: {labels: {tier: prod}}\n", []string{"-f", "-"}, exitRejected, []string{"metadata.name: Required"}},
		"preset twice":                {sparse + "---\n" + cores + "---\n" + cores, []string{"-f", "-"}, exitRejected, []string{"document 3", "standard input, document 2"}},
		"every rejected preset": {sparse + "---\n" + preset("{priority: 9999999}") + "---\n" + strings.Replace(preset("{mode: Loud}"), "name: p", "name: q", 1), []string{"-f", "-"}, exitRejected,
			[]string{"document 2", "spec.priority", "document 3", "spec.mode"}},
		"unknown field of a machine": {misspelt, []string{"-f", "-"}, exitRejected, []string{"VirtualMachine default/vm is rejected", "spec.template.spec.domain.cpu.CORES", `did you mean "cores"?`}},
		"unknown validation":         {sparse, []string{"-f", "-", "--validation", "lax"}, exitUsage, []string{"--validation", `"strict"`}},
		"nameless machine":           {"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n", []string{"-f", "-"}, exitRejected, []string{"metadata.name: Required"}},
		"metadata a text":            {"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: x\n", []string{"-f", "-"}, exitRejected, []string{"metadata: "}},
		"passthrough": {"", []string{"-f", exampleRejected + "/passthrough.yaml", "-f", examplePresets, "-f", exampleNamespaces}, exitRejected,
			[]string{"passthrough.yaml, document 1: VirtualMachine shop/passthrough is rejected:\n  spec.template.spec.domain.devices.hostDevices: Forbidden: no passthrough", "cluster/tier-prod"}},
		"unknown preset named": {strings.Replace(sparse, "{name: vm}", "{name: vm, annotations: {virtwright.dev/presets: cluster/gpu-a01}}", 1),
			[]string{"-f", "-", "-f", examplePresets}, exitRejected, []string{`did you mean "cluster/gpu-a10"`}},
		"instance error paths": {"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a}\nspec: {domain: 3}\n", []string{"-f", "-"}, exitRejected,
			[]string{"\n  spec.domain: "}},
		"owner of another kind": {sparse, []string{"-f", "-", "--owner", exampleNamespaces}, exitUsage, []string{"--owner", "VirtualMachine"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.stdin, append([]string{"expand"}, c.args...)...)
			if got.code != c.code {
				t.Errorf("exit code %d, want %d", got.code, c.code)
			}
			if got.out != "" {
				t.Errorf("standard output:\n%s", got.out)
			}
			says(t, got.err, append(c.want, "Error: ")...)
		})
	}
}

// Other objects of folders and streams are ignored with a note.
func TestOtherKinds(t *testing.T) {
	pods := strings.Repeat("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", 2)
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"stream": {small + pods, []string{"-f", "-"}, "Note: standard input: ignored 2 of kind Pod (v1)\n"},
		"similar to a VMI": {small + "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachineInstanceReplicaSet\nmetadata: {name: r}\n", []string{"-f", "-"},
			"Note: standard input: ignored 1 of kind VirtualMachineInstanceReplicaSet (kubevirt.io/v1)\n"},
		"list without items": {small + "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachineList\nitems:\n", []string{"-f", "-"},
			"Note: standard input: ignored 1 of kind VirtualMachineList (kubevirt.io/v1)\n"},
		"similar to a policy": {small + "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: p}\n", []string{"-f", "-"},
			"Note: standard input: ignored 1 of kind ValidatingWebhookConfiguration (admissionregistration.k8s.io/v1)\n"},
		"folder": {"", []string{"-f", filepath.Dir(write(t, "all.yaml", small+pods))}, "all.yaml: ignored 2 of kind Pod (v1)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, call(t, c.stdin, append([]string{"expand"}, c.args...)...).fine(t).err, c.want)
		})
	}
}

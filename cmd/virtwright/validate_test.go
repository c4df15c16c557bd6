package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

// Each testdata/validate/NAME.in.yaml is validated with the flags of its first line, for example "#
// args: -o json", and compared with NAME.out.txt.
func TestValidate(t *testing.T) {
	files, err := filepath.Glob("testdata/validate/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			first, _, _ := strings.Cut(read(t, file), "\n")
			args := []string{"validate", "-f", file}
			if flags, ok := strings.CutPrefix(first, "# args: "); ok {
				args = append(args, strings.Fields(flags)...)
			}
			got := call(t, "", args...)
			golden.Equal(t, "testdata/validate/"+name+".out.txt",
				fmt.Sprintf("exit code %d\n-- standard output --\n%s-- standard error --\n%s", got.code, got.out, got.err))
		})
	}
	golden.Stale(t, "testdata/validate/*.out.txt")
}

func TestValidateFoundingExample(t *testing.T) {
	got := call(t, "", "validate", "-f", "testdata/validate/founding.in.yaml")
	if got.code != exitRejected {
		t.Errorf("exit code %d, want %d", got.code, exitRejected)
	}
	says(t, got.out, "testdata/validate/founding.in.yaml: VirtualMachine default/myvm: spec.template.spec.domain.devices.disks[0].volumeName: ",
		`"mypcv": `, `did you mean "mypvc"?`)
}

// The VMs of the examples are valid, and those in examples/rejected are rejected.
func TestValidateExamples(t *testing.T) {
	presets := []string{"-f", examplePresets, "-f", exampleNamespaces}
	for _, mode := range []string{"standalone", "addon"} {
		fine := call(t, "", append([]string{"validate", "-f", exampleVMs, "--mode", mode}, presets...)...).fine(t)
		says(t, fine.out, "all fine")
	}
	if all := call(t, "", "validate", "-f", "../../examples"); strings.Contains(all.err, "warning") {
		t.Errorf("the examples cause warnings:\n%s", all.err)
	}
	files, err := filepath.Glob(exampleRejected + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		got := call(t, "", append([]string{"validate", "-f", file}, presets...)...)
		if got.code != exitRejected || !strings.HasPrefix(got.out, file+": ") {
			t.Errorf("%s: exit code %d\n%s%s", file, got.code, got.out, got.err)
		}
	}
}

// The output of expand is valid, for each version.
func TestValidateExpanded(t *testing.T) {
	seed := strings.Replace(read(t, "testdata/validate/founding.in.yaml"), "mypcv", "mypvc", 1)
	for name, in := range map[string]string{"v1alpha2": seed, "v1": read(t, exampleVMs+"/tiny.yaml")} {
		expanded := call(t, in, "expand", "-f", "-", "-f", examplePresets).fine(t)
		if name == "v1alpha2" {
			says(t, expanded.out, "apiVersion: kubevirt.io/v1alpha2", "name: disk0", "volumeName: mypvc")
		}
		says(t, call(t, expanded.out, "validate", "-f", "-", "-f", examplePresets).fine(t).out, "all fine")
		says(t, call(t, in, "explain", "-f", "-", "-f", examplePresets).fine(t).out, "  domain.machine.type")
	}
}

// The owner determines the fields that a VMI gets at launch.
func TestValidateOwned(t *testing.T) {
	owner := write(t, "owner.yaml", "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vmi, labels: {launch: here}}\n")
	launch := write(t, "launch.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: here}\n"+
		"spec: {applyAt: Launch, match: {labels: {matchLabels: {launch: here}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}\n")
	instance := "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: vmi}\nspec: {domain: {devices: {}}}\n"
	call(t, instance, "validate", "-f", "-", "-f", launch, "--owner", owner).fine(t)
	if alone := call(t, instance, "validate", "-f", "-", "-f", launch); alone.code != exitRejected {
		t.Errorf("without its owner it has no memory: %+v", alone)
	}
}

func TestValidateJSON(t *testing.T) {
	got := call(t, "", "validate", "-f", "testdata/validate/founding.in.yaml", "-o", "json")
	var out validated
	if err := json.Unmarshal([]byte(got.out), &out); err != nil {
		t.Fatal(err)
	}
	if got.err != "" || out.Summary.Rejected != 1 || out.Objects[0].Problems[0].Field != "spec.template.spec.domain.devices.disks[0].volumeName" {
		t.Errorf("%+v\n%s", out, got.err)
	}
}

func TestValidateUsage(t *testing.T) {
	t.Setenv("KUBECONFIG", "/does/not/exist")
	for name, c := range map[string]struct {
		stdin string
		args  []string
		want  []string
	}{
		"nothing":         {"", nil, []string{"-f is required"}},
		"an argument":     {"", []string{"vm.yaml"}, []string{"vm.yaml"}},
		"unknown gate":    {sparse, []string{"-f", "-", "--feature-gates", "HostDsk=true"}, []string{`unknown feature gate "HostDsk"; did you mean "HostDisk"?`}},
		"far from a gate": {sparse, []string{"-f", "-", "--feature-gates", "x=true"}, []string{"there are ", "HostDisk, "}},
		"no switch":       {sparse, []string{"-f", "-", "--feature-gates", "HostDisk=maybe"}, []string{"--feature-gates", `not "HostDisk=maybe"`}},
		"every flag":      {sparse, []string{"-f", "-", "--mode", "both", "-o", "yaml"}, []string{"--mode: Unsupported value", `--output: Unsupported value: "yaml": supported values: "text", "json"`}},
		"unknown version": {strings.Replace(sparse, "/v1", "/v9", 1), []string{"-f", "-"}, []string{"kubevirt.io/v9: use"}},
		"no such instances": {strings.Replace(strings.Replace(sparse, "/v1", "/v1alpha2", 1), "VirtualMachine", "VirtualMachineInstance", 1), []string{"-f", "-"},
			[]string{"unsupported version of kind VirtualMachineInstance: kubevirt.io/v1alpha2"}},
		"no seed beside": {"", []string{"-f", "testdata/validate/founding.in.yaml", "--mode", "addon"}, []string{"alongside KubeVirt: kubevirt.io/v1alpha2"}},
		"only others":    {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", []string{"-f", "-"}, []string{"no object to validate", "only objects of unsupported kinds: Pod"}},
		"bad YAML":       {"a: b: c\n", []string{"-f", "-"}, []string{"cannot read the YAML"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, c.stdin, append([]string{"validate"}, c.args...)...)
			if got.code != exitUsage || got.out != "" {
				t.Errorf("exit code %d, want %d; standard output:\n%s", got.code, exitUsage, got.out)
			}
			says(t, got.err, append(c.want, "Error: ")...)
		})
	}
}

// No command drops a namespace that is not a string.
func TestMistypedNamespace(t *testing.T) {
	vm := strings.Replace(sparse, "metadata: {", "metadata: {namespace: 123, ", 1)
	for _, args := range [][]string{{"validate"}, {"expand"}, {"explain"}, {"render"}, {"template", "generate"}} {
		got := call(t, vm, append(args, "-f", "-")...)
		if got.code == 0 || !strings.Contains(got.out+got.err, "metadata.namespace") {
			t.Errorf("%s: exit code %d\n%s%s", args, got.code, got.out, got.err)
		}
	}
}

func TestValidateCompletion(t *testing.T) {
	says(t, call(t, "", "__complete", "validate", "--feature-gates", "").fine(t).out, "HostDisk=true\n")
	says(t, call(t, "", "__complete", "validate", "--output", "").fine(t).out, "text\njson\n")
}

// TestValidateNamesPreset checks that a VMI may name a preset alongside KubeVirt, which sets the
// fields that the VMI lacks.
func TestValidateNamesPreset(t *testing.T) {
	const vmi = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: vmi, annotations: {virtwright.dev/presets: cluster/named}}\n" +
		"spec: {domain: {memory: {guest: 1Gi}, devices: {}}, volumes: [{name: root, containerDisk: {image: example.com/disk}}]}\n"
	named := write(t, "named.yaml", "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: named}\n"+
		"spec: {match: {explicit: true}, defaults: {spec: {template: {spec: {domain: {devices: {rng: {}}}}}}}}\n")
	got := call(t, vmi, "validate", "-f", "-", "-f", named, "--mode", "addon")
	if got.code != exitFine {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
}

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
	"github.com/virtwright/virtwright/simulate/manifest"
)

// process calls template process with a template on standard input.
func process(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return call(t, stdin, append([]string{"template", "process", "-f", "-"}, args...)...)
}

// TestTemplateProcessRoundTrip checks that processing a template of each format gives the VM.
func TestTemplateProcessRoundTrip(t *testing.T) {
	var want map[string]any
	if err := yaml.Unmarshal([]byte(ephemeral), &want); err != nil {
		t.Fatal(err)
	}
	want["metadata"] = map[string]any{"generateName": "vm-ephemeral", "labels": map[string]any{"app": "web"}}
	for _, format := range sspv1alpha1.FormatNames() {
		template := generate(t, ephemeral, "--format", format).fine(t).out
		for _, output := range []string{"yaml", "json"} {
			processed := process(t, template, "-o", output).fine(t)
			var got map[string]any
			if err := yaml.Unmarshal([]byte(processed.out), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want, +got):\n%s", format, diff)
			}
			says(t, processed.err, "kubectl create -f -")
		}
	}
}

// awkward is a VM with texts that plain YAML cannot express.
const awkward = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"awkward","labels":{"app":"web"},
"annotations":{"<<":"merged","example.com/line":"a\u0085b","example.com/delete":"a\u007fb","example.com/none":"a\ufffeb"}},
"spec":{"template":{"spec":{"domain":{"devices":{}}}}}}`

// TestTemplateReadsBack checks that the output reads back as the same object for all texts.
func TestTemplateReadsBack(t *testing.T) {
	var want map[string]any
	if err := json.Unmarshal([]byte(awkward), &want); err != nil {
		t.Fatal(err)
	}
	want["metadata"].(map[string]any)["generateName"] = "awkward"
	delete(want["metadata"].(map[string]any), "name")
	for _, format := range sspv1alpha1.FormatNames() {
		template := generate(t, awkward, "--format", format).fine(t).out
		var got map[string]any
		if err := yaml.Unmarshal([]byte(process(t, template).fine(t).out), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", format, diff)
		}
	}
	plain := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"plain"},"spec":{"template":{"spec":{"domain":{"devices":{}}}}}}`
	out := generate(t, `{"apiVersion":"v1","kind":"List","items":[`+awkward+","+plain+","+awkward+"]}").fine(t).out
	if got, err := manifest.Read(strings.NewReader(out), []string{"-"}, true); err != nil || len(got) != 3 {
		t.Errorf("got %d templates: %v", len(got), err)
	}
	decoder := apiyaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096) // kubectl's
	var list struct{ Items []struct{ Kind string } }
	if err := decoder.Decode(&list); err != nil || len(list.Items) != 3 || list.Items[2].Kind != "Template" {
		t.Errorf("got %+v: %v", list, err)
	}
}

// vmOf is the part of a VM that tests compare.
type vmOf struct {
	Metadata struct {
		GenerateName string
		Labels       map[string]string
	}
	Spec struct {
		Template struct {
			Spec struct {
				Domain struct {
					CPU struct{ Cores int }
				}
				Volumes []struct {
					CloudInitNoCloud struct{ UserData string }
				}
			}
		}
	}
}

func vmIn(t *testing.T, out string) vmOf {
	t.Helper()
	var vm vmOf
	if err := yaml.Unmarshal([]byte(out), &vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestTemplateProcessValues(t *testing.T) {
	template := generate(t, ephemeral).fine(t).out
	given := vmIn(t, process(t, template, "-p", "CPU_CORES=8", "-p", `LABELS={"team":"blue"}`, "-l", "app=other,tier=test").fine(t).out)
	if given.Spec.Template.Spec.Domain.CPU.Cores != 8 {
		t.Errorf("%+v", given)
	}
	if diff := cmp.Diff(map[string]string{"app": "other", "tier": "test", "team": "blue"}, given.Metadata.Labels); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}

	file := write(t, "values.env", "# more of everything\nCPU_CORES=4\nREQUESTS_MEMORY=1Gi\n")
	both := process(t, template, "--param-file", file, "-p", "CPU_CORES=6").fine(t)
	if cores := vmIn(t, both.out).Spec.Template.Spec.Domain.CPU.Cores; cores != 6 {
		t.Errorf("-p does not override the file: %d", cores)
	}
	says(t, both.out, "memory: 1Gi\n")

	// A value of several lines with texts that look like references.
	const data = "#cloud-config\nruncmd:\n- echo ${HOME} ${{LABELS}} ${VOLUME0_USER_DATA}\n"
	secret := generate(t, confidential).fine(t).out
	if got := vmIn(t, process(t, secret, "-p", "VOLUME0_USER_DATA="+data).fine(t).out); got.Spec.Template.Spec.Volumes[0].CloudInitNoCloud.UserData != data {
		t.Errorf("got %+v", got)
	}
}

// TestTemplateProcessRejected checks that all problems are reported at once, by parameter.
func TestTemplateProcessRejected(t *testing.T) {
	template := generate(t, strings.Replace(confidential, "domain: {devices: {}}", "domain: {cpu: {cores: 2}, devices: {}}", 1)).fine(t).out
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"missing":   {nil, []string{"VOLUME0_USER_DATA"}},
		"unknown":   {[]string{"-p", "VOLUME0_USER_DATA=x", "-p", "VOLUME0_USR_DATA=x"}, []string{"VOLUME0_USR_DATA"}},
		"no number": {[]string{"-p", "VOLUME0_USER_DATA=x", "-p", "CPU_CORES=many"}, []string{"CPU_CORES"}},
		"no labels": {[]string{"-p", "VOLUME0_USER_DATA=x", "-p", "LABELS=a=b"}, []string{"LABELS"}},
		"all": {[]string{"-p", "CPU_CORES=many", "-p", "LABELS=[1]", "-p", "NOTHING=1"}, []string{
			"VOLUME0_USER_DATA", "CPU_CORES", "LABELS", "NOTHING"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := process(t, template, test.args...)
			if got.code != exitRejected || got.out != "" {
				t.Errorf("exit code %d, output %q", got.code, got.out)
			}
			says(t, got.err, append(test.want, "Error: standard input, document 1: cannot process Template secretive-template:\n  ")...)
		})
	}
}

// several is a template written by hand.
const several = `
apiVersion: template.openshift.io/v1
kind: Template
metadata: {name: pair}
message: "both of ${WHO}"
objects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: "a-${WHO}"}, data: {who: "${WHO}-${MADE}", much: "${WHO}"}}
- {apiVersion: v1, kind: Secret, metadata: {name: "b-${WHO}", labels: {example.com/who: "${WHO}"}}}
parameters:
- {name: WHO, required: true}
- {name: MADE, generate: expression, from: "[a-c]{3}"}
- {name: IDLE, value: "text of\nlines"}
`

func TestTemplateProcessSeveral(t *testing.T) {
	got := process(t, several, "-p", "WHO=me").fine(t)
	says(t, got.out, "kind: List\n", "name: a-me\n", "name: b-me\n")
	if got.err != "both of me\n" {
		t.Errorf("got %q", got.err)
	}
}

func TestTemplateProcessParameters(t *testing.T) {
	const want = `NAME   TYPE     DEFAULT               REQUIRED   PATH
WHO    string                         yes        objects[0].data.much, objects[0].data.who, objects[0].metadata.name, objects[1].metadata.labels["example.com/who"], objects[1].metadata.name, message
MADE   string   generated: [a-c]{3}   no         objects[0].data.who
IDLE   string   "text of\nlines"      no
`
	if diff := cmp.Diff(want, process(t, several, "--parameters").fine(t).out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	for _, format := range sspv1alpha1.FormatNames() {
		const want = `NAME              TYPE      DEFAULT                                            REQUIRED   PATH
CPU_CORES         integer   2                                                  no         spec.template.spec.domain.cpu.cores
DISK0_BUS         string    virtio                                             no         spec.template.spec.domain.devices.disks[0].disk.bus
REQUESTS_MEMORY   string    128Mi                                              no         spec.template.spec.domain.resources.requests.memory
VOLUME0_IMAGE     string    registry:5000/kubevirt/cirros-container-disk-de…   no         spec.template.spec.volumes[0].containerDisk.image
LABELS            object    {"app":"web"}                                      no         metadata.labels
`
		template := generate(t, ephemeral, "--format", format).fine(t).out
		if diff := cmp.Diff(want, process(t, template, "--parameters").fine(t).out); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", format, diff)
		}
	}
}

// TestTemplateParametersRejected checks that a template that cannot be processed is not listed.
func TestTemplateParametersRejected(t *testing.T) {
	const head = "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: t}\n"
	const held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: t}\ndata: "
	for template, want := range map[string]string{
		head: "objects must be a list",
		head + "objects: []\nparameters: {A: b}\n":                      "parameters must be a list",
		head + "objects: []\nparameters: [A]\n":                         "parameters[0]: ",
		head + "objects: []\nparameters: [{name: A, value: 8}]\n":       "parameters[0]: ",
		head + "objects: []\nparameters: [{value: x}]\n":                `"": invalid parameter name: use letters, digits and underscores`,
		head + "objects: []\nparameters: [{name: A B}]\n":               `"A B": invalid parameter name: use letters, digits and underscores`,
		head + "objects: []\nparameters: [{name: A}, {name: A}]\n":      "A: Duplicate value: the template defines this parameter twice",
		strings.Replace(head, "io/v1", "io/v2", 1) + "objects: []\n":    "template.openshift.io/v2",
		held + "{template.yaml: ''}\n":                                  "cannot read the template: ",
		held + "{template.yaml: '{'}\n":                                 "template.yaml",
		held + "{template.yaml: '[]'}\n":                                "template.yaml",
		held + "{template.yaml: '{apiVersion: v1, kind: ConfigMap}'}\n": "template.yaml",
		held + "{template.yaml: '{apiVersion: v1, kind: Pod}'}\n":       "Pod",
		held + "{template.yaml: '{apiVersion: v1, kind: Template}'}\n":  "objects must be a list",
		"apiVersion: template.kubevirt.io/v1alpha1\nkind: VirtualMachineTemplate\nmetadata: {name: t}\nspec: {parameters: []}\n": "spec.virtualMachine must be an object",
	} {
		listed, processed := process(t, template, "--parameters"), process(t, template)
		if listed.code != exitRejected || listed.out != "" {
			t.Errorf("%s: exit code %d, output %q", template, listed.code, listed.out)
		}
		says(t, listed.err, want)
		if diff := cmp.Diff(processed, listed, cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%s (-processed, +listed):\n%s", template, diff)
		}
	}
}

// TestTemplateParametersPlaces checks references outside of values.
func TestTemplateParametersPlaces(t *testing.T) {
	const template = `
apiVersion: template.openshift.io/v1
kind: Template
metadata: {name: places}
message: "${SAID}"
labels: {app: "${LABEL}", "${LABEL_KEY}": x}
objects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {"${KEY}": x, "b-${KEY}": x}}
parameters: [{name: KEY}, {name: LABEL}, {name: LABEL_KEY}, {name: SAID}, {name: NOWHERE}]
`
	const want = `NAME        TYPE     DEFAULT   REQUIRED   PATH
KEY         string             no         data (key)
LABEL       string             no         labels.app
LABEL_KEY   string             no         labels (key)
SAID        string             no         message
NOWHERE     string             no
`
	if diff := cmp.Diff(want, process(t, template, "--parameters").fine(t).out); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestTemplateProcessInput(t *testing.T) {
	other := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n"
	template := generate(t, ephemeral).fine(t).out
	named := call(t, "", "template", "process", "-f", write(t, "all.yaml", template+"---\n"+other))
	if named.code != exitUsage || named.out != "" {
		t.Errorf("exit code %d, output %q", named.code, named.out)
	}
	says(t, named.err, "all.yaml, document 2: unsupported kind ConfigMap of v1: want a Template of template.openshift.io/v1, a VirtualMachineTemplate")
	says(t, process(t, template+"---\n"+other).fine(t).err, "Note: standard input: ignored 1 of kind ConfigMap (v1)\n")
	for stdin, want := range map[string]string{
		other:                           "found 0 templates in -f -: want one",
		template + "---\n" + template:   "found 2 templates in -f -: want one",
		"a: b: c\n":                     "standard input, document 1, line 1: cannot read the YAML",
		"kind: Template\nobjects: []\n": "apiVersion and kind",
	} {
		got := process(t, stdin)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("exit code %d, output %q", got.code, got.out)
		}
		says(t, got.err, want)
	}
	broken := strings.Replace(other, "a: b", "template.yaml: '{'", 1)
	for _, args := range [][]string{nil, {"--parameters"}} {
		if got := process(t, broken, args...); got.code == exitFine || got.out != "" || !strings.Contains(got.err, "template.yaml") {
			t.Errorf("%v", got)
		}
	}
}

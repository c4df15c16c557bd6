package format_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/lifecycle/templates/blueprint"
	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

const source = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm, labels: {app: a}}
spec:
  runStrategy: Always
  template:
    spec:
      hostname: h
      terminationGracePeriodSeconds: 30
      domain:
        cpu: {cores: 2}
        memory: {guest: 1Gi}
        firmware: {bootloader: {efi: {secureBoot: false}}}
        devices: {disks: [{name: c, disk: {bus: virtio}}]}
      volumes: [{name: c, cloudInitNoCloud: {userData: hunter2-hunter2}}]
`

func templateOf(t testing.TB, f format.Format, manifest string) (*unstructured.Unstructured, *blueprint.Blueprint) {
	t.Helper()
	b, err := blueprint.Of(read(t, []byte(manifest)), blueprint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	template, err := f.Encode(b, format.Meta{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return template, b
}

func TestProcess(t *testing.T) {
	given := map[string]string{"VOLUME0_USER_DATA": "${HOME}", "CPU_CORES": "8", "EFI_SECURE_BOOT": "true", "LABELS": `{"team":"x"}`}
	labels := map[string]string{"app": "mine", "extra": "e"}
	for _, f := range format.Formats() {
		t.Run(f.Name, func(t *testing.T) {
			template, _ := templateOf(t, f, source)
			before := template.DeepCopy()
			objects, message, err := format.Process(template, given, labels)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(before, template) {
				t.Error("the template is changed")
			}
			if !strings.Contains(message, "kubectl create -f -") || strings.Contains(message, "${") {
				t.Errorf("message: %s", message)
			}
			want := read(t, []byte(source))
			want["metadata"] = map[string]any{"generateName": "vm", "labels": map[string]any{"app": "mine", "extra": "e", "team": "x"}}
			spec := want["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			domain := spec["domain"].(map[string]any)
			spec["hostname"] = ""
			spec["volumes"].([]any)[0].(map[string]any)["cloudInitNoCloud"].(map[string]any)["userData"] = "${HOME}"
			domain["cpu"].(map[string]any)["cores"] = int64(8)
			domain["firmware"].(map[string]any)["bootloader"].(map[string]any)["efi"].(map[string]any)["secureBoot"] = true
			if len(objects) != 1 {
				t.Fatalf("%d objects", len(objects))
			}
			if diff := cmp.Diff(want, objects[0].Object); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}

func TestProblemsOfValues(t *testing.T) {
	const secret = "VOLUME0_USER_DATA"
	cases := map[string]struct {
		reason string
		given  map[string]string
		labels map[string]string
		want   []string
	}{
		"missing":         {"what is required must be given", nil, nil, []string{secret + ": a value must be given, as " + secret + "=VALUE"}},
		"all at once":     {"every problem is told", map[string]string{"CPU_CORES": "many", "CPU_CORE": "1"}, nil, []string{`CPU_CORES: "many" is not an integer`, "CPU_CORE: the template has no such parameter; near it are CPU_CORES", secret}},
		"unlike":          {"what is like nothing", map[string]string{secret: "x", "ZZZZZZ": "1"}, nil, []string{"ZZZZZZ: the template has no such parameter; it has CPU_CORES, DISK0_BUS, EFI_SECURE_BOOT, HOSTNAME, LABELS and 3 more"}},
		"empty integer":   {"an empty text is none", map[string]string{secret: "x", "CPU_CORES": ""}, nil, []string{`CPU_CORES: "" is not an integer`}},
		"fraction":        {"fractions are none", map[string]string{secret: "x", "CPU_CORES": "2.5"}, nil, []string{`CPU_CORES: "2.5" is not an integer`}},
		"padded":          {"OpenShift would make it a text", map[string]string{secret: "x", "CPU_CORES": "08"}, nil, []string{`CPU_CORES: "08" is not an integer`}},
		"inexact":         {"OpenShift would round it", map[string]string{secret: "x", "CPU_CORES": "9007199254740993"}, nil, []string{"CPU_CORES: \"9007199254740993\" is beyond the integers"}},
		"boolean":         {"only true and false", map[string]string{secret: "x", "EFI_SECURE_BOOT": "yes"}, nil, []string{`EFI_SECURE_BOOT: "yes" is not true or false`}},
		"range":           {"the type of the field", map[string]string{secret: "x", "CPU_CORES": "-1"}, nil, []string{`CPU_CORES: "-1" is not an integer that uint32 holds (spec.template.spec.domain.cpu.cores)`}},
		"quantity":        {"types that read themselves", map[string]string{secret: "x", "MEMORY_GUEST": "much"}, nil, []string{`MEMORY_GUEST: "much" is not a valid Quantity (spec.template.spec.domain.memory.guest)`}},
		"wrong and short": {"a short value for a secret hides no name", map[string]string{secret: "c", "MEMORY_GUEST": "much"}, nil, []string{`MEMORY_GUEST: "much" is not a valid Quantity (spec.template.spec.domain.memory.guest)`}},
		"types too": {"what only processing shows is told with the rest", map[string]string{"MEMORY_GUEST": "lots", "CPU_CORES": "many", "X": "y"}, nil, []string{
			secret + ": a value must be given", `MEMORY_GUEST: "lots" is not a valid Quantity`, `CPU_CORES: "many" is not an integer`, "X: the template has no such parameter",
		}},
		"labels":       {"a list of pairs is no object", map[string]string{secret: "x", "LABELS": "a=b"}, nil, []string{`LABELS: the value is not a JSON object of labels; right is LABELS={"team":"x"}`}},
		"no labels":    {"an empty text is no object", map[string]string{secret: "x", "LABELS": ""}, nil, []string{"LABELS: the value is not a JSON object of labels"}},
		"label number": {"values of labels are texts", map[string]string{secret: "x", "LABELS": `{"team":1}`}, nil, []string{`LABELS: the label "team" must be a text, in quotes`}},
		"label value":  {"of some characters", map[string]string{secret: "x", "LABELS": `{"team":"a b"}`}, nil, []string{`LABELS: the label "team" is invalid`}},
		"more labels":  {"those beside the template's too", map[string]string{secret: "x"}, map[string]string{"a b": "c"}, []string{"label a b: "}},
	}
	for name, c := range cases {
		for _, f := range format.Formats() {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				template, _ := templateOf(t, f, source)
				_, _, err := format.Process(template, c.given, c.labels)
				if err == nil {
					t.Fatalf("%s: no error", c.reason)
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: got %v, want %q", c.reason, err, want)
					}
				}
			})
		}
	}
}

func TestProblemsOfTemplates(t *testing.T) {
	template := func(objects, rest string) string {
		return "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: t}\nobjects: [" + objects + "]\n" + rest
	}
	kubevirt := func(vm, parameters string) string {
		return "apiVersion: template.kubevirt.io/v1alpha1\nkind: VirtualMachineTemplate\nmetadata: {name: t}\nspec: {virtualMachine: " + vm + ", parameters: [" + parameters + "]}"
	}
	cases := map[string]struct {
		manifest, want string
		given          map[string]string
		labels         bool
	}{
		"kind":                {manifest: "apiVersion: v1\nkind: Pod", want: `v1 "Pod" is no Template`},
		"config map":          {manifest: "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}", want: `data["template.yaml"]`},
		"no yaml":             {manifest: "apiVersion: v1\nkind: ConfigMap\ndata: {template.yaml: '{'}", want: "no object in YAML"},
		"itself":              {manifest: "apiVersion: v1\nkind: ConfigMap\ndata: {template.yaml: '{apiVersion: v1, kind: ConfigMap}'}", want: "another ConfigMap"},
		"objects":             {manifest: "apiVersion: template.openshift.io/v1\nkind: Template\nobjects: x", want: "objects is no list"},
		"object":              {manifest: template("x", ""), want: "objects[0] is no object"},
		"no kind":             {manifest: template("{apiVersion: v1}", ""), want: "objects[0] is no object with a kind"},
		"value":               {manifest: template("", "parameters: [{name: A, value: 4}]"), want: "parameters[0]: name, value, generate and from must be texts"},
		"twice":               {manifest: template("", "parameters: [{name: A}, {name: A}]"), want: "A: the template has two parameters of this name"},
		"invalid name":        {manifest: template("", "parameters: [{name: a-b}]"), want: `"a-b": names of parameters`},
		"generator":           {manifest: template("", "parameters: [{name: A, generate: dice, from: x}]"), want: `A: cannot generate a value of the parameter A: there is no generator "dice"`},
		"expression":          {manifest: template("", "parameters: [{name: A, generate: expression, from: '[z-a]{3}'}]"), want: "its expression is invalid"},
		"null in a list":      {manifest: template(`{apiVersion: v1, kind: Pod, a: ["${{A}}"]}`, "parameters: [{name: A, value: x}]"), given: map[string]string{"A": "null"}, want: "A: null cannot stand at a[0]"},
		"object for a key":    {manifest: template(`{apiVersion: v1, kind: Pod, a: {"${{A}}": x}}`, "parameters: [{name: A, value: '{}'}]"), want: "A: ${{A}} stands for a key in a, and keys are texts: write ${A}"},
		"no such parameter":   {manifest: kubevirt(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, a: "${A}"}`, ""), want: "A: a refers to it, and the template has no such parameter"},
		"null for kubevirt":   {manifest: kubevirt(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, a: "${{A}}"}`, "{name: A, value: 'null'}"), want: "A: null cannot stand at a"},
		"no kind, kubevirt":   {manifest: kubevirt(`{apiVersion: kubevirt.io/v1}`, ""), want: "spec.virtualMachine is no object with a kind"},
		"no version":          {manifest: kubevirt(`{kind: VirtualMachine}`, ""), want: "spec.virtualMachine is no object with an apiVersion"},
		"label":               {manifest: template(`{apiVersion: v1, kind: Pod, metadata: {labels: {a: b, c: 1}}}`, ""), labels: true, want: `objects[0]: the label "c" is no text`},
		"labels are none":     {manifest: template(`{apiVersion: v1, kind: Pod, metadata: {labels: x}}`, ""), labels: true, want: "objects[0]: metadata.labels is no object"},
		"foreign suffix":      {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {dataVolumeTemplates: [{metadata: {name: "root-${S}"}}]}}`, "parameters: [{name: S, generate: expression, from: '[a-z]{3}'}]"), given: map[string]string{"S": "A_"}, want: `S: the value cannot end the names of disks; right is a text of a-z, 0-9 and - between them, as S=a1b2c`},
		"foreign":             {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {running: x}}`, ""), want: "spec.running is not true or false"},
		"foreign parameter":   {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {running: "${A}"}}`, "parameters: [{name: A, value: 'true'}]"), want: `A: "true" is not true or false (spec.running)`},
		"foreign list":        {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {dataVolumeTemplates: "${{A}}"}}`, "parameters: [{name: A, value: '[]'}]"), given: map[string]string{"A": "{}"}, want: `A: "{}" is not a JSON list`},
		"foreign is no label": {manifest: template(`{apiVersion: v1, kind: Pod, metadata: {labels: "${{A}}"}}`, "parameters: [{name: A, value: x}]"), want: `right is A={"team":"x"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var labels map[string]string
			if c.labels {
				labels = map[string]string{"more": "x"}
			}
			_, _, err := format.Process(&unstructured.Unstructured{Object: read(t, []byte(c.manifest))}, c.given, labels)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTemplatesOfOthers(t *testing.T) {
	cases := map[string]struct {
		reason, manifest string
		given            map[string]string
		want             map[string]any
	}{
		"legacy": {
			reason:   "the group was empty once; values are joined, and unknown references stay",
			manifest: "{apiVersion: v1, kind: Template, objects: [{apiVersion: v1, kind: Pod, a: '${A}-${B}', m: '${{M}}'}], parameters: [{name: A, value: x}, {name: M, value: '7'}], message: 'm ${A}'}",
			want:     map[string]any{"apiVersion": "v1", "kind": "Pod", "a": "x-${B}", "m": int64(7)},
		},
		"labels": {
			reason:   "labels of the template are those of every object",
			manifest: "{apiVersion: template.openshift.io/v1, kind: Template, labels: {a: '${A}'}, objects: [{apiVersion: v1, kind: Pod, metadata: {name: p}}], parameters: [{name: A, value: x}], message: 'm ${A}'}",
			given:    map[string]string{"A": "y"},
			want:     map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "labels": map[string]any{"a": "y"}}},
		},
		"fields of the future": {
			reason:   "KubeVirt may have fields that we do not know",
			manifest: "{apiVersion: template.kubevirt.io/v1alpha1, kind: VirtualMachineTemplate, spec: {virtualMachine: {apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {hover: '${A}'}}, parameters: [{name: A, value: x}], message: 'm ${A}'}}",
			want:     map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": map[string]any{"hover": "x"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			objects, message, err := format.Process(&unstructured.Unstructured{Object: read(t, []byte(c.manifest))}, c.given, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{c.want}, []any{objects[0].Object}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", c.reason, diff)
			}
			if !strings.HasPrefix(message, "m ") || strings.Contains(message, "$") {
				t.Errorf("message %q", message)
			}
		})
	}
}

// TestProcessTellsNoSecret gives secrets where nothing can be right.
func TestProcessTellsNoSecret(t *testing.T) {
	const secret = "hunter3-hunter3"
	template, _ := templateOf(t, format.Formats()[0], strings.ReplaceAll(source, "guest: 1Gi", "guest: hunter2-hunter2"))
	_, _, err := format.Process(template, map[string]string{"MEMORY_GUEST": secret, "VOLUME0_USER_DATA": secret, "CPU_CORES": secret, "LABELS": secret, "EFI_SECURE_BOOT": "x" + secret}, map[string]string{"a": secret + " "})
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "CPU_CORES") {
		t.Errorf("got %v", err)
	}
	_, _, err = format.Process(template, map[string]string{"MEMORY_GUEST": secret, "VOLUME0_USER_DATA": secret}, nil)
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "MEMORY_GUEST: the value is not a valid Quantity") {
		t.Errorf("got %v", err)
	}
}

// TestSuffixes gives the suffix of names of disks, which is generated otherwise.
func TestSuffixes(t *testing.T) {
	vm := read(t, []byte(source))
	vm["spec"].(map[string]any)["dataVolumeTemplates"] = []any{map[string]any{"metadata": map[string]any{"name": "root"}}}
	b, err := blueprint.Of(vm, blueprint.Options{Rename: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range format.Formats() {
		template, err := f.Encode(b, format.Meta{Name: "t"})
		if err != nil {
			t.Fatal(err)
		}
		for value, valid := range map[string]bool{"a": true, "0": true, "blue-2": true, "": false, "-a": false, "a-": false, "A": false, "a.b": false, "a_b": false, "a b": false, strings.Repeat("a", 64): false} {
			objects, _, err := format.Process(template, map[string]string{"VOLUME0_USER_DATA": "x", "DATA_VOLUME_SUFFIX": value}, nil)
			if (err == nil) != valid {
				t.Errorf("%s: %q: %v", f.Name, value, err)
			}
			if err != nil && !strings.Contains(err.Error(), "DATA_VOLUME_SUFFIX: ") || valid && !strings.Contains(textOf(objects[0].Object), "root-"+value) {
				t.Errorf("%s: %q gives %v, %v", f.Name, value, objects, err)
			}
		}
	}
	foreign := "{apiVersion: template.openshift.io/v1, kind: Template, objects: [{apiVersion: v1, kind: Secret, password: '${P}'}], parameters: [{name: P, generate: expression, from: '[a-z]{3}'}]}"
	if _, _, err := format.Process(&unstructured.Unstructured{Object: read(t, []byte(foreign))}, map[string]string{"P": "Any Thing!"}, nil); err != nil {
		t.Errorf("a value that is generated for something else: %v", err)
	}
}

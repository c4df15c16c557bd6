package format_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtwright/virtwright/templates/blueprint"
	"github.com/virtwright/virtwright/templates/format"
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
	b, err := blueprint.FromVM(read(t, []byte(manifest)), blueprint.Options{})
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
				t.Error("Process changes the template")
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
		"missing":         {"a secret has no default", nil, nil, []string{secret + ": Required value: give " + secret + "=VALUE"}},
		"all at once":     {"all problems are reported", map[string]string{"CPU_CORES": "many", "CPU_CORE": "1"}, nil, []string{`CPU_CORES: "many" is not an integer`, "CPU_CORE: undefined parameter; did you mean CPU_CORES?", secret}},
		"no suggestion":   {"no name is similar", map[string]string{secret: "x", "ZZZZZZ": "1"}, nil, []string{"ZZZZZZ: undefined parameter; the template defines CPU_CORES, DISK0_BUS, EFI_SECURE_BOOT, HOSTNAME, LABELS and 3 more"}},
		"empty integer":   {"an empty text is no integer", map[string]string{secret: "x", "CPU_CORES": ""}, nil, []string{`CPU_CORES: "" is not an integer`}},
		"fraction":        {"a fraction is no integer", map[string]string{secret: "x", "CPU_CORES": "2.5"}, nil, []string{`CPU_CORES: "2.5" is not an integer`}},
		"padded":          {"OpenShift would make it a string", map[string]string{secret: "x", "CPU_CORES": "08"}, nil, []string{`CPU_CORES: "08" is not an integer`}},
		"inexact":         {"OpenShift would round it", map[string]string{secret: "x", "CPU_CORES": "9007199254740993"}, nil, []string{"CPU_CORES: \"9007199254740993\" is beyond the integers"}},
		"boolean":         {"only true and false", map[string]string{secret: "x", "EFI_SECURE_BOOT": "yes"}, nil, []string{`EFI_SECURE_BOOT: "yes" is not true or false`}},
		"range":           {"the type of the field", map[string]string{secret: "x", "CPU_CORES": "-1"}, nil, []string{`CPU_CORES: "-1" must be a whole number from 0 to 2147483647 (spec.template.spec.domain.cpu.cores)`}},
		"quantity":        {"types with UnmarshalJSON", map[string]string{secret: "x", "MEMORY_GUEST": "much"}, nil, []string{`MEMORY_GUEST: "much" must be a quantity such as 2Gi or 500m (spec.template.spec.domain.memory.guest)`}},
		"huge":            {"quantities that take hours to parse", map[string]string{secret: "x", "MEMORY_GUEST": "1e-99999999"}, nil, []string{`MEMORY_GUEST: "1e-99999999" must be a quantity such as 2Gi or 500m, of at most 64 characters`}},
		"wrong and short": {"a short value of a secret occurs in names", map[string]string{secret: "c", "MEMORY_GUEST": "much"}, nil, []string{`MEMORY_GUEST: "much" must be a quantity such as 2Gi or 500m (spec.template.spec.domain.memory.guest)`}},
		"types too": {"problems of objects are reported with the rest", map[string]string{"MEMORY_GUEST": "lots", "CPU_CORES": "many", "X": "y"}, nil, []string{
			secret + ": Required value", `MEMORY_GUEST: "lots" must be a quantity such as 2Gi or 500m`, `CPU_CORES: "many" is not an integer`, "X: undefined parameter",
		}},
		"labels":       {"pairs are no object", map[string]string{secret: "x", "LABELS": "a=b"}, nil, []string{`LABELS: the value must be a JSON object of labels, for example LABELS={"team":"x"}`}},
		"no labels":    {"an empty text is no object", map[string]string{secret: "x", "LABELS": ""}, nil, []string{"LABELS: the value must be a JSON object of labels"}},
		"label number": {"values of labels are strings", map[string]string{secret: "x", "LABELS": `{"team":1}`}, nil, []string{`LABELS: label "team" must be a string, in quotes`}},
		"label value":  {"labels have a restricted character set", map[string]string{secret: "x", "LABELS": `{"team":"a b"}`}, nil, []string{`LABELS: label "team" is invalid`}},
		"more labels":  {"labels of the caller are checked, too", map[string]string{secret: "x"}, map[string]string{"a b": "c"}, []string{"label a b: "}},
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
		"kind":                {manifest: "apiVersion: v1\nkind: Pod", want: `unsupported kind "Pod" of "v1": want Template`},
		"config map":          {manifest: "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}", want: `data["template.yaml"]`},
		"no yaml":             {manifest: "apiVersion: v1\nkind: ConfigMap\ndata: {template.yaml: '{'}", want: "must be an object in YAML"},
		"itself":              {manifest: "apiVersion: v1\nkind: ConfigMap\ndata: {template.yaml: '{apiVersion: v1, kind: ConfigMap}'}", want: "must not be a ConfigMap"},
		"objects":             {manifest: "apiVersion: template.openshift.io/v1\nkind: Template\nobjects: x", want: "objects must be a list"},
		"object":              {manifest: template("x", ""), want: "objects[0] must be an object"},
		"no kind":             {manifest: template("{apiVersion: v1}", ""), want: "objects[0].kind: Required value"},
		"value":               {manifest: template("", "parameters: [{name: A, value: 4}]"), want: "parameters[0]: name, value, generate and from must be strings"},
		"twice":               {manifest: template("", "parameters: [{name: A}, {name: A}]"), want: "A: Duplicate value: the template defines this parameter twice"},
		"invalid name":        {manifest: template("", "parameters: [{name: a-b}]"), want: `"a-b": invalid parameter name`},
		"generator":           {manifest: template("", "parameters: [{name: A, generate: dice, from: x}]"), want: `A: cannot generate a value for parameter A: unsupported generator "dice"`},
		"expression":          {manifest: template("", "parameters: [{name: A, generate: expression, from: '[z-a]{3}'}]"), want: "invalid expression"},
		"null in a list":      {manifest: template(`{apiVersion: v1, kind: Pod, a: ["${{A}}"]}`, "parameters: [{name: A, value: x}]"), given: map[string]string{"A": "null"}, want: "A: null is not allowed at a[0]"},
		"object for a key":    {manifest: template(`{apiVersion: v1, kind: Pod, a: {"${{A}}": x}}`, "parameters: [{name: A, value: '{}'}]"), want: "A: ${{A}} cannot be a key in a, because keys are strings: write ${A}"},
		"undefined parameter": {manifest: kubevirt(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, a: "${A}"}`, ""), want: "A: undefined parameter, to which a refers"},
		"null for kubevirt":   {manifest: kubevirt(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, a: "${{A}}"}`, "{name: A, value: 'null'}"), want: "A: null is not allowed at a"},
		"empty kind":          {manifest: kubevirt(`{apiVersion: kubevirt.io/v1, kind: ""}`, ""), want: "spec.virtualMachine.kind: Required value"},
		"later version":       {manifest: "apiVersion: template.kubevirt.io/v9\nkind: VirtualMachineTemplate", want: "template.kubevirt.io/v1alpha1 or v1beta1"},
		"label":               {manifest: template(`{apiVersion: v1, kind: Pod, metadata: {labels: {a: b, c: 1}}}`, ""), labels: true, want: `objects[0].metadata.labels["c"] must be a string`},
		"labels":              {manifest: template(`{apiVersion: v1, kind: Pod, metadata: {labels: x}}`, ""), labels: true, want: "objects[0].metadata.labels must be an object"},
		"long expression":     {manifest: template("", "parameters: [{name: A, generate: expression, from: '"+strings.Repeat("[a-z]{255}", 200)+"'}]"), want: "parameter A: from has 2000 characters; at most 1000 are supported"},
		"many of a resource":  {manifest: template("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {template: {spec: {domain: {resources: {requests: {cpu: '${{CPU}}'}}}}}}}", `parameters: [{name: CPU, value: "1"}]`), given: map[string]string{"CPU": "many"}, want: `CPU: "many"`},
		"foreign suffix":      {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {dataVolumeTemplates: [{metadata: {name: "root-${S}"}}]}}`, "parameters: [{name: S, generate: expression, from: '[a-z]{3}'}]"), given: map[string]string{"S": "A_"}, want: `S: the value is not a valid suffix for disk names: use a-z, 0-9 and "-", and begin and end with a letter or digit, for example S=a1b2c`},
		"foreign":             {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {running: x}}`, ""), want: "spec.running must be true or false"},
		"foreign parameter":   {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {running: "${A}"}}`, "parameters: [{name: A, value: 'true'}]"), want: `A: "true" must be true or false (spec.running)`},
		"foreign list":        {manifest: template(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, spec: {dataVolumeTemplates: "${{A}}"}}`, "parameters: [{name: A, value: '[]'}]"), given: map[string]string{"A": "{}"}, want: `A: "{}" is not a JSON list`},
		"foreign is no label": {manifest: template(`{apiVersion: v1, kind: Pod, metadata: {labels: "${{A}}"}}`, "parameters: [{name: A, value: x}]"), want: `for example A={"team":"x"}`},
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
			reason:   "OpenShift once served templates in the core group, and keeps undefined references",
			manifest: "{apiVersion: v1, kind: Template, objects: [{apiVersion: v1, kind: Pod, a: '${A}-${B}', m: '${{M}}'}], parameters: [{name: A, value: x}, {name: M, value: '7'}], message: 'm ${A}'}",
			want:     map[string]any{"apiVersion": "v1", "kind": "Pod", "a": "x-${B}", "m": int64(7)},
		},
		"labels": {
			reason:   "labels of the template are added to every object",
			manifest: "{apiVersion: template.openshift.io/v1, kind: Template, labels: {a: '${A}'}, objects: [{apiVersion: v1, kind: Pod, metadata: {name: p}}], parameters: [{name: A, value: x}], message: 'm ${A}'}",
			given:    map[string]string{"A": "y"},
			want:     map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "labels": map[string]any{"a": "y"}}},
		},
		"no kind": {
			reason:   "a VirtualMachineTemplate may omit what every VM in it has",
			manifest: "{apiVersion: template.kubevirt.io/v1alpha1, kind: VirtualMachineTemplate, spec: {virtualMachine: {metadata: {name: '${A}'}}, parameters: [{name: A, value: x}], message: 'm ${A}'}}",
			want:     map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "x"}},
		},
		"v1beta1": {
			reason:   "both versions have the same fields",
			manifest: "{apiVersion: template.kubevirt.io/v1beta1, kind: VirtualMachineTemplate, spec: {virtualMachine: {kind: VirtualMachine, metadata: {name: '${A}'}}, parameters: [{name: A, value: x}], message: 'm ${A}'}}",
			want:     map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "x"}},
		},
		"fields of the future": {
			reason:   "newer versions of KubeVirt have more fields",
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

// TestProcessHidesSecrets gives secrets as invalid values.
func TestProcessHidesSecrets(t *testing.T) {
	const secret = "hunter3-hunter3"
	template, _ := templateOf(t, format.Formats()[0], strings.ReplaceAll(source, "guest: 1Gi", "guest: hunter2-hunter2"))
	_, _, err := format.Process(template, map[string]string{"MEMORY_GUEST": secret, "VOLUME0_USER_DATA": secret, "CPU_CORES": secret, "LABELS": secret, "EFI_SECURE_BOOT": "x" + secret}, map[string]string{"a": secret + " "})
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "CPU_CORES") {
		t.Errorf("got %v", err)
	}
	_, _, err = format.Process(template, map[string]string{"MEMORY_GUEST": secret, "VOLUME0_USER_DATA": secret}, nil)
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "MEMORY_GUEST: the value must be a quantity") {
		t.Errorf("got %v", err)
	}
}

// TestSuffixes gives a suffix of disk names instead of generating one.
func TestSuffixes(t *testing.T) {
	vm := read(t, []byte(source))
	vm["spec"].(map[string]any)["dataVolumeTemplates"] = []any{map[string]any{"metadata": map[string]any{"name": "root"}}}
	b, err := blueprint.FromVM(vm, blueprint.Options{Rename: true})
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
		t.Errorf("a generated value that is no suffix: %v", err)
	}
}

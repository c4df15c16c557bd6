package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

// ephemeral is a VM without secrets.
const ephemeral = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm-ephemeral, namespace: lab, labels: {app: web}}
spec:
  runStrategy: Halted
  template:
    spec:
      domain:
        cpu: {cores: 2}
        devices: {disks: [{name: containerdisk, disk: {bus: virtio}}]}
        resources: {requests: {memory: 128Mi}}
      volumes:
      - name: containerdisk
        containerDisk: {image: "registry:5000/kubevirt/cirros-container-disk-demo:devel"}
`

// confidential is a VM with a secret.
const confidential = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: secretive}
spec:
  template:
    spec:
      domain: {devices: {}}
      volumes:
      - {name: init, cloudInitNoCloud: {userData: "#cloud-config\npassword: ${HOME} sweet home\n"}}
`

// generate calls template generate with manifests on standard input.
func generate(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return call(t, stdin, append([]string{"template", "generate", "-f", "-"}, args...)...)
}

func TestTemplateGenerateFormats(t *testing.T) {
	for format, want := range map[string][]string{
		"openshiftTemplate":      {"kind: Template\n", "memory: ${REQUESTS_MEMORY}\n"},
		"virtualMachineTemplate": {"kind: VirtualMachineTemplate\n", "memory: ${REQUESTS_MEMORY}\n"},
		"configMap":              {"kind: ConfigMap\n", "template.yaml: |\n", "kind: Template\n", "memory: ${REQUESTS_MEMORY}\n"},
	} {
		got := generate(t, ephemeral, "--format", format, "--label", "a=b,c=d").fine(t)
		says(t, got.out, append(want, "    a: b\n    c: d\n", "name: DISK0_BUS\n", "name: VOLUME0_IMAGE\n", "cores: ${{CPU_CORES}}\n")...)
		if got.err != "" {
			t.Errorf("%s: %s", format, got.err)
		}
	}
	if got := generate(t, ephemeral).fine(t); got.out != generate(t, ephemeral, "--format", "openshiftTemplate").fine(t).out {
		t.Errorf("the default differs:\n%s", got.out)
	}
}

// metadataOf returns name and namespace of the only template in an output.
func metadataOf(t *testing.T, out string) (name, namespace string) {
	t.Helper()
	var template struct {
		Metadata struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal([]byte(out), &template); err != nil {
		t.Fatal(err)
	}
	return template.Metadata.Name, template.Metadata.Namespace
}

func TestTemplateGenerateNames(t *testing.T) {
	for args, want := range map[string][2]string{
		"":                     {"vm-ephemeral-template", "lab"},
		"--name golden":        {"golden", "lab"},
		"-n elsewhere -o json": {"vm-ephemeral-template", "elsewhere"},
	} {
		name, namespace := metadataOf(t, generate(t, ephemeral, strings.Fields(args)...).fine(t).out)
		if got := [2]string{name, namespace}; got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
	if _, namespace := metadataOf(t, generate(t, confidential).fine(t).out); namespace != "" {
		t.Errorf("the template of a VM without a namespace is in %s", namespace)
	}
	if name, _ := metadataOf(t, generate(t, strings.Replace(confidential, "name: secretive", "generateName: web-", 1)).fine(t).out); name != "web-template" {
		t.Errorf("the template of a VM with generateName is %s", name)
	}
	says(t, generate(t, strings.Replace(ephemeral, "/v1\n", "/v1alpha3\n", 1)).fine(t).out, "apiVersion: kubevirt.io/v1\n")
	old := strings.Replace(strings.Replace(ephemeral, "/v1\n", "/v1alpha2\n", 1), "{name: containerdisk, disk", "{name: d, volumeName: containerdisk, disk", 1)
	says(t, generate(t, old).fine(t).out, "apiVersion: kubevirt.io/v1\n", "name: containerdisk\n")
}

func TestTemplateGenerateSeveral(t *testing.T) {
	got := generate(t, ephemeral+"---"+confidential).fine(t)
	says(t, got.out, "kind: List\n", "name: vm-ephemeral-template\n", "name: secretive-template\n")
	says(t, got.err, "Note: VirtualMachine secretive: parameters that require a value: VOLUME0_USER_DATA\n")
}

func TestTemplateGenerateSecrets(t *testing.T) {
	for _, format := range sspv1alpha1.FormatNames() {
		got := generate(t, confidential, "--format", format).fine(t)
		if strings.Contains(got.out+got.err, "sweet home") {
			t.Errorf("%s\n%s", got.out, got.err)
		}
		if want := "Note: parameters that require a value: VOLUME0_USER_DATA\n"; got.err != want {
			t.Errorf("got %q, want %q", got.err, want)
		}
	}
}

func TestTemplateGenerateDataVolumes(t *testing.T) {
	disk := strings.Replace(ephemeral, "  runStrategy", "  dataVolumeTemplates: [{metadata: {name: root}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}}]\n  runStrategy", 1)
	disk = strings.Replace(disk, `containerDisk: {image: "registry:5000/kubevirt/cirros-container-disk-demo:devel"}`, "dataVolume: {name: root}", 1)
	kept := generate(t, disk).fine(t)
	says(t, kept.err, "Warning: ", "root")
	says(t, kept.out, "name: root\n")
	renamed := generate(t, disk, "--data-volumes", "Rename").fine(t)
	says(t, renamed.out, "name: root-${DATA_VOLUME_SUFFIX}\n")
	if renamed.err != "" {
		t.Errorf("unexpected warning: %s", renamed.err)
	}
}

func TestTemplateGenerateExamples(t *testing.T) {
	for _, file := range examples(t) {
		if filepath.Base(file) == "batch.yaml" { // a VMI
			continue
		}
		expanded := call(t, "", "expand", "-f", file, "-f", examplePresets, "-f", exampleNamespaces).fine(t)
		for _, volumes := range dataVolumes() {
			first := generate(t, expanded.out, "--data-volumes", volumes).fine(t)
			if diff := cmp.Diff(first.out, generate(t, expanded.out, "--data-volumes", volumes).fine(t).out); diff != "" {
				t.Errorf("%s gives different templates:\n%s", file, diff)
			}
		}
	}
}

// TestTemplateGenerateNamespaces checks that -n is also the namespace of a VM without one.
func TestTemplateGenerateNamespaces(t *testing.T) {
	const vm = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm}
spec: {template: {spec: {domain: {devices: {}}, volumes: [{name: a, configMap: {name: c}}]}}}
`
	for _, args := range []string{"", "-n shop", "-n shop --format configMap"} {
		if got := generate(t, vm, strings.Fields(args)...).fine(t); got.err != "" {
			t.Errorf("%s: got %q", args, got.err)
		}
	}
	elsewhere := strings.Replace(vm, "name: vm", "name: vm, namespace: lab", 1)
	says(t, generate(t, elsewhere, "-n", "shop").fine(t).err, "Warning: ", "shop", "configMap c")
	if got := generate(t, elsewhere, "-n", "lab").fine(t); got.err != "" {
		t.Errorf("got %q", got.err)
	}
}

// TestTemplateGenerateGoesOn checks that an error in one VM does not affect the others.
func TestTemplateGenerateGoesOn(t *testing.T) {
	got := generate(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: bad, namespace: lab}\nspec: {}\n---"+ephemeral)
	if got.code != exitRejected {
		t.Errorf("exit code %d, want %d", got.code, exitRejected)
	}
	says(t, got.out, "name: vm-ephemeral-template\n")
	says(t, got.err, "Error: standard input, document 1: VirtualMachine lab/bad:\n  ", "spec.template.spec")
}

func TestTemplateGenerateInput(t *testing.T) {
	pod := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	named := call(t, "", "template", "generate", "-f", write(t, "pod.yaml", ephemeral+pod))
	if named.code != exitUsage || named.out != "" {
		t.Errorf("exit code %d, output %q", named.code, named.out)
	}
	says(t, named.err, "pod.yaml, document 2: unsupported kind Pod of v1: want VirtualMachine of kubevirt.io/v1")
	if left := generate(t, ephemeral+pod).fine(t); left.err != "Note: standard input: ignored 1 of kind Pod (v1)\n" {
		t.Errorf("got %q", left.err)
	}
	for stdin, want := range map[string]string{
		pod:              "no VirtualMachine in -f -",
		"a: b: c\n":      "standard input, document 1, line 1: cannot read the YAML",
		"kind: Template": "apiVersion and kind",
	} {
		got := generate(t, stdin)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("exit code %d, output %q", got.code, got.out)
		}
		says(t, got.err, want)
	}
	two := generate(t, ephemeral+"---"+confidential, "--name", "golden")
	if two.code != exitUsage || two.out != "" {
		t.Errorf("exit code %d, output %q", two.code, two.out)
	}
	says(t, two.err, "cannot use --name for 2 templates: omit it, or give one VM")
}

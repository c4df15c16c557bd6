package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

const (
	importedFixtures = "../../fleet/testdata/import/"
	exampleImport    = "../../examples/import/fedora.yaml"
)

// TestImport prints presets without findings of lint and validate, and VMs that these presets
// expand.
func TestImport(t *testing.T) {
	for name, code := range map[string]int{"instancetypes": exitRejected, "legacy": exitRejected, "example": exitFine, "policies": exitFine} {
		t.Run(name, func(t *testing.T) {
			file := importedFixtures + name + ".in.yaml"
			if name == "example" {
				file = exampleImport
			}
			got := call(t, "", "import", "-f", file)
			if got.code != code {
				t.Errorf("exit code %d, want %d", got.code, code)
			}
			golden.Equal(t, "testdata/import/"+name+".out.yaml", got.out)
			golden.Equal(t, "testdata/import/"+name+".out.txt", strings.ReplaceAll(got.err, file, "FILE"))
			if again := call(t, "", "import", "-f", file); again != got {
				t.Error("a second import prints something else")
			}
			presets := write(t, "presets.yaml", got.out)
			call(t, "", "validate", "-f", presets).fine(t)
			if found := call(t, "", "lint", "-f", presets); found.code != exitFine && name != "legacy" { // two presets of it conflict
				t.Errorf("lint finds:\n%s", found.out)
			}
			vms := call(t, "", "import", "-f", file, "--vms").out
			if vms == "" {
				return
			}
			for _, mode := range []string{"standalone", "addon"} {
				if mode == "standalone" && strings.Contains(vms, "preference: windows") {
					continue // no pod keeps the state of a TPM
				}
				whole := call(t, "", "expand", "-f", write(t, "vms.yaml", vms), "-f", presets, "--mode", mode).fine(t)
				says(t, whole.out, "kind: VirtualMachine", "sockets: ")
			}
			golden.Equal(t, "testdata/import/"+name+".vms.out.yaml", vms)
		})
	}
}

// TestImportBesideOthers compares VMs with other presets of the input, which have a higher priority
// and also match VMs without an instancetype.
func TestImportBesideOthers(t *testing.T) {
	const preset = "---\napiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: NAME}\nspec: {priority: 1000, "
	others := strings.Replace(preset, "NAME", "unsized", 1) + "match: {labels: {matchExpressions: [{key: cluster-instancetype, operator: DoesNotExist}]}}, defaults: {spec: {template: {spec: {hostname: org}}}}}\n" +
		strings.Replace(preset, "NAME", "size", 1) + "match: {namespaces: {matchLabels: {tier: prod}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}}}\n" +
		strings.Replace(preset, "NAME", "excepted", 1) + "match: {}, overrides: {spec: {template: {spec: {subdomain: wrong}}}}}\n" +
		"---\napiVersion: virtwright.dev/v1alpha1\nkind: PresetException\nmetadata: {name: a, namespace: shop}\nspec: {presets: [cluster/excepted], vmSelector: {}, reason: a test}\n" +
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {tier: prod}}\n"
	file := write(t, "all.yaml", strings.NewReplacer("NAME", "u1.small", "1Gi", "8Gi").Replace(unusedInstancetype)+others+
		"---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm, namespace: shop}\nspec: {runStrategy: Halted, instancetype: {name: u1.small}, template: {spec: {domain: {devices: {}}}}}\n")
	imported := write(t, "imported.yaml", call(t, "", "import", "-f", file).fine(t).out)
	got := call(t, "", "import", "-f", file, "--vms").fine(t)
	says(t, got.err, `VirtualMachine shop/vm: --vms sets spec.template.spec.hostname: "org"`, "1 of 1 VM would start as before")
	whole := call(t, "", "expand", "-f", write(t, "vms.yaml", got.out), "-f", imported, "-f", write(t, "others.yaml", others), "--mode", "addon").fine(t)
	says(t, whole.out, "guest: 8Gi", "hostname: org", "cluster-instancetype: u1.small")
	if strings.Contains(whole.out, "wrong") {
		t.Error(whole.out)
	}
	// A preset may forbid fields that import writes into a VM.
	forbids := strings.Replace(preset, "NAME", "forbids", 1) + "match: {}, forbid: [{path: spec.template.spec.hostname, message: no names}]}\n"
	rejected := call(t, "", "import", "-f", file, "-f", write(t, "forbids.yaml", forbids), "--vms")
	says(t, rejected.err, "VirtualMachine shop/vm: not compared: a preset currently rejects it: ", "0 of 1 VM")
}

func TestImportUsage(t *testing.T) {
	file := exampleImport
	for args, want := range map[string]string{
		"import -f " + exampleVMs + "/tiny.yaml":             "no VirtualMachineInstancePreset, instancetype, preference or mutating policy for VMs in -f",
		"import -f " + file + " --label-prefix UPPER..CASE/": `--label-prefix "UPPER..CASE/":`,
		"import -f " + file + " --label-prefix example.com":  `--label-prefix "example.com": must end with "/": use example.com/`,
		"import -f " + file + " -o table":                    "--output: Unsupported value",
		"import " + file:                                     "use -f for each file",
	} {
		if got := call(t, "", strings.Fields(args)...); got.code != exitUsage || !strings.Contains(got.err, want) {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.err)
		}
	}
	misspelt := strings.NewReplacer("NAME", "small", "guest: 1}, memory", "cores: 1}, memory").Replace(unusedInstancetype)
	if got := call(t, misspelt, "import", "-f", "-"); got.code != exitRejected || !strings.Contains(got.err, `VirtualMachineClusterInstancetype small is rejected:`) || !strings.Contains(got.err, `spec.cpu.cores: Invalid value: "cores": unknown field "cores"; known fields: `) {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	prefixed := call(t, "", "import", "-f", file, "--label-prefix", "example.com/", "-o", "json").fine(t)
	says(t, prefixed.out, `"kind": "List"`, `"example.com/cluster-instancetype": "u1.small"`)
	says(t, call(t, "", "import", "-f", file, "--label-prefix", "example.com/", "--vms").fine(t).out, "example.com/cluster-instancetype: u1.small")
	generated := strings.Replace(small, "{name: vm}", "{generateName: vm-}", 1) + "---\n"
	says(t, call(t, strings.Repeat(generated, 2)+read(t, file), "import", "-f", "-").err, "3 of 3 VMs would start as before")
}

// TestImportOfCorpus imports manifests of other projects. KubeVirt rejects some of their VMs.
func TestImportOfCorpus(t *testing.T) {
	corpus := os.Getenv("VIRTWRIGHT_CORPUS")
	if corpus == "" {
		t.Skip("VIRTWRIGHT_CORPUS names no folder")
	}
	got := call(t, "", "import", "-f", corpus)
	presets := filepath.Join(t.TempDir(), "presets.yaml")
	if err := os.WriteFile(presets, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, "", "lint", "-f", presets).fine(t)
	says(t, got.out, "name: instancetype-csmall", "name: instancetype-clarge")
	says(t, call(t, "", "import", "-f", corpus, "--mode", "standalone").out, "name: vmi-preset-small")
	says(t, got.err, `vmi-preset-small: not expressed: spec.domain.memory.guest: "128Mi": KubeVirt ignores this field`, "memory.guest, which its instancetype owns", "of 16 VMs would start as before")
}

// imports reads the objects that VMs of the cluster reference. KubeVirt's kinds have no schema
// here.
func (g *ground) imports(t *testing.T) {
	for kind, scope := range map[string]string{"VirtualMachineInstancetype": "Namespaced", "VirtualMachineClusterInstancetype": "Cluster", "VirtualMachineClusterPreference": "Cluster"} {
		g.kubectl(crd(kind, scope), "create", "-f", "-")
		plural := strings.ToLower(kind) + "s.instancetype.kubevirt.io"
		t.Cleanup(func() { g.kubectl("", "delete", "crd", plural) })
		g.kubectl("", "wait", "--for=condition=Established", "crd", plural)
	}
	file := exampleImport
	g.kubectl("", "create", "-f", file)
	defer g.kubectl("", "delete", "-f", file)
	g.kubectl(strings.Replace(unusedInstancetype, "NAME", "unused", 1), "create", "-f", "-")
	got := call(t, "", "import", "-n", "shop").fine(t)
	if want := read(t, "testdata/import/example.out.yaml"); got.out != want {
		t.Errorf("import of a cluster prints\n%s\nimport of its files\n%s", got.out, want)
	}
	says(t, got.err, "ignored 1 instancetype or preferences of the cluster: no VM references them", "\n3 presets; ")
	// A VM with an older revision is not converted.
	uid := g.kubectl("", "get", "virtualmachineclusterinstancetypes", "u1.small", "-o", "jsonpath={.metadata.uid}")
	for revision, want := range map[string]string{"1": "--vms sets", "7": "it uses revision fedora-u1.small-v1beta1-" + uid + "-7 of VirtualMachineClusterInstancetype u1.small"} {
		g.kubectl("", "patch", "vm", "fedora", "-n", "shop", "--type=merge", "--subresource=status", "-p",
			`{"status": {"instancetypeRef": {"name": "u1.small", "controllerRevisionRef": {"name": "fedora-u1.small-v1beta1-`+uid+"-"+revision+`"}}}}`)
		says(t, call(t, "", "import", "-n", "shop", "--vms").err, want)
	}
}

const unusedInstancetype = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: NAME}\n" +
	"spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n"

func crd(kind, scope string) string {
	name := strings.ToLower(kind)
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "s.instancetype.kubevirt.io}\n" +
		"spec: {group: instancetype.kubevirt.io, scope: " + scope + ", names: {plural: " + name + "s, singular: " + name + ", kind: " + kind + "},\n" +
		"  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n"
}

// TestImportSpreadConflict: vCPUs that KubeVirt cannot spread give no preset with fewer.
func TestImportSpreadConflict(t *testing.T) {
	out := call(t, `
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: three}
spec: {cpu: {guest: 3}, memory: {guest: 1Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: spread}
spec: {cpu: {preferredCPUTopology: spread}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: shop}
spec: {runStrategy: Halted, instancetype: {name: three}, preference: {name: spread}, template: {spec: {domain: {devices: {}}}}}
`, "import", "-f", "-")
	says(t, out.err, "KubeVirt rejects a VM with both: the number of vCPUs of its instancetype, 3, is not divisible by 2", "VirtualMachine shop/web: not compared: KubeVirt rejects it")
	if strings.Contains(out.out, "sockets: 1") {
		t.Errorf("a preset has other vCPUs:\n%s", out.out)
	}
}

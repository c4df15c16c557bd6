package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/controlplane"
)

const (
	liveDefault = "apiVersion: virtwright.dev/v1alpha1\nkind: ClusterVirtualMachinePreset\nmetadata: {name: size}\n" +
		"spec: {match: {namespaces: {matchLabels: {tier: prod}}}, defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}}}}}}}\n"
	liveShop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {tier: prod}}\n---\n" +
		"apiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: cores, namespace: shop}\n" +
		"spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 7}}}}}}}\n"
)

func liveVM(name, namespace, labels string) string {
	return fmt.Sprintf("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: %s, namespace: %s, labels: {%s}}\n"+
		"spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}\n", name, namespace, labels)
}

// TestLiveCluster reads a real API server.
func TestLiveCluster(t *testing.T) {
	g := &ground{controlplane.ForTest(t, controlplane.Options{}), t}
	if err := g.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	g.kubectl(liveDefault+"---\n"+liveShop, "create", "-f", "-")
	g.kubectl(liveVM("web", "shop", "app: web")+"---\n"+liveVM("db", "shop", "app: db")+"---\n"+liveVM("web", "default", "app: web"), "create", "-f", "-")
	t.Setenv("KUBECONFIG", g.Kubeconfig())
	t.Run("what is read", g.reads)
	t.Run("files replace", g.filesReplace)
	t.Run("offline stays offline", g.staysOffline)
	t.Run("stored from a preset", g.explainsRecord)
	t.Run("plans", g.plans)
	t.Run("rights", g.readRights)
	t.Run("usage", g.liveUsage)
	t.Run("beside KubeVirt", g.findsMode)
	t.Run("many", g.readsMany)
}

// machinesIn are the names of VMs in YAML.
func machinesIn(out string) string {
	var found []string
	for _, word := range []string{"default/web", "shop/web", "shop/db"} {
		if strings.Contains(out, "VirtualMachine "+word+" ") {
			found = append(found, word)
		}
	}
	return strings.Join(found, " ")
}

func (g *ground) reads(t *testing.T) {
	for args, want := range map[string]string{
		"explain":                                 "default/web",
		"explain -n shop":                         "shop/web shop/db",
		"explain -A":                              "default/web shop/web shop/db",
		"explain -A -l app=web":                   "default/web shop/web",
		"explain vm/web -n shop":                  "shop/web",
		"explain vm web db -n shop":               "shop/web shop/db",
		"explain virtualmachines.kubevirt.io/web": "default/web",
		"explain vm -n shop":                      "shop/web shop/db",
		"explain vm/web -n shop spec.template.spec.domain.memory": "shop/web",
		"explain vm/web -n shop --context virtwright":             "shop/web",
	} {
		got := call(t, "", strings.Fields(args)...).fine(t)
		if found := machinesIn(got.out); found != want {
			t.Errorf("%s: explained %s, want %s", args, found, want)
		}
		says(t, got.out, "(cluster virtwright)")
	}
	// Presets and namespaces come from the cluster, the VM from the file.
	vm := write(t, "vm.yaml", strings.Replace(liveVM("new", "shop", ""), ", memory: {guest: 1Gi}", "", 1))
	says(t, call(t, "", "expand", "-f", vm, "--live").fine(t).out, "cores: 7", "guest: 2Gi")
	got := call(t, "", "validate", "-f", vm, "--live").fine(t)
	says(t, got.out, "1 object: all fine")
	// The presets of a cluster are judged only where they are asked for.
	says(t, call(t, "", "validate", "vm/web", "-n", "shop").fine(t).out, "1 object: all fine")
	says(t, call(t, "", "validate", "-A").fine(t).out, "5 objects: all fine")
	says(t, call(t, "", "validate", "cvmpreset/size").fine(t).out, "1 object: all fine")
	// A reapply of a stored VM.
	says(t, call(t, "", "expand", "vm/db", "-n", "shop", "--reapply").fine(t).out, "cores: 7", "guest: 1Gi")
}

func (g *ground) filesReplace(t *testing.T) {
	edited := write(t, "preset.yaml", strings.Replace(liveShop, "cores: 7", "cores: 9", 1))
	says(t, call(t, "", "expand", "-f", edited, "vm/db", "-n", "shop", "--reapply").fine(t).out, "cores: 9")
	vm := write(t, "vm.yaml", liveVM("db", "shop", "from: file"))
	got := call(t, "", "expand", "-f", vm, "-n", "shop", "-A").fine(t)
	if strings.Count(got.out, "from: file") != 1 || strings.Contains(got.out, "app: db") || strings.Count(got.out, "kind: VirtualMachine") != 3 {
		t.Errorf("got\n%s", got.out)
	}
	// Files that name a namespace get its presets; VMs are read from -n.
	got = call(t, "", "expand", "-f", write(t, "vm.yaml", liveVM("new", "shop", "")), "--live", "-n", "absent").fine(t)
	says(t, got.out, "cores: 7", "name: new")
	says(t, call(t, "", "explain", "-f", edited, "--live").fine(t).out, "VirtualMachine default/web")
	// A kustomization.
	dir := t.TempDir()
	for name, text := range map[string]string{"vm.yaml": liveVM("kust", "shop", ""), "kustomization.yaml": "resources: [vm.yaml]\nnamePrefix: big-\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says(t, call(t, "", "expand", "-k", dir, "--live").fine(t).out, "name: big-kust", "cores: 7")
	says(t, call(t, "", "explain", "-k", dir).fine(t).out, "VirtualMachine shop/big-kust")
}

func (g *ground) staysOffline(t *testing.T) {
	vm := write(t, "vm.yaml", liveVM("new", "shop", ""))
	if got := call(t, "", "expand", "-f", vm).fine(t); strings.Contains(got.out, "cores: 7") {
		t.Errorf("read the cluster:\n%s", got.out)
	}
}

// explainsRecord has a VM with the record that a webhook would have made.
func (g *ground) explainsRecord(t *testing.T) {
	preset := write(t, "preset.yaml", liveShop)
	vm := write(t, "vm.yaml", liveVM("recorded", "shop", ""))
	g.kubectl(call(t, "", "expand", "-f", vm, "-f", preset).fine(t).out, "create", "-f", "-")
	t.Cleanup(func() { g.kubectl("", "delete", "vm", "recorded", "-n", "shop") })
	g.kubectl("", "patch", "vmpreset", "cores", "-n", "shop", "--type=merge", "-p", `{"spec":{"defaults":{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":8}}}}}}}}`)
	got := call(t, "", "explain", "vm/recorded", "-n", "shop").fine(t)
	says(t, got.out, "cores (default)", "OUTDATED", "spec.template.spec.domain.cpu.cores   7        8")
}

// plans compares VMs of the cluster and of files, with no more rights than it needs.
func (g *ground) plans(t *testing.T) {
	path, err := g.UserKubeconfig("planner")
	if err != nil {
		t.Fatal(err)
	}
	g.kubectl("", "create", "clusterrole", "planner", "--verb=get,list", "--resource=namespaces,virtualmachines.kubevirt.io,"+
		"virtualmachineinstancepresets.kubevirt.io,virtualmachinepresets.virtwright.dev,clustervirtualmachinepresets.virtwright.dev,presetexceptions.virtwright.dev")
	g.kubectl("", "create", "clusterrolebinding", "planner", "--clusterrole=planner", "--user=planner")
	preset := write(t, "preset.yaml", strings.ReplaceAll(liveShop, "cpu: {cores: 7}", "firmware: {serial: x}"))
	vm := write(t, "vm.yaml", liveVM("new", "shop", "app: web"))
	for flags, want := range map[string]string{
		"":                   "VMs: 3 of 4 VMs change",
		"-n shop":            "VMs: 3 of 3 VMs change",
		"-n shop -l app=web": "VMs: 2 of 2 VMs change",
	} {
		got := call(t, "", append([]string{"plan", "-f", preset, "-f", vm, "--kubeconfig", path}, strings.Fields(flags)...)...)
		if got.code != exitRefused || got.err != "" {
			t.Errorf("%s: exit code %d: %s", flags, got.code, got.err)
		}
		says(t, got.out, want)
	}
}

func (g *ground) readRights(t *testing.T) {
	path, err := g.UserKubeconfig("mallory")
	if err != nil {
		t.Fatal(err)
	}
	got := call(t, "", "expand", "vm/web", "-n", "shop", "--kubeconfig", path)
	if got.code != exitUsage || got.out != "" {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, `User "mallory" cannot get resource "virtualmachines" in API group "kubevirt.io" in the namespace "shop"`,
		`User "mallory" cannot list resource "clustervirtualmachinepresets" in API group "virtwright.dev" at the cluster scope`)
	// The right to read namespaces may be missing.
	g.kubectl("", "create", "clusterrole", "reader", "--verb=get,list",
		"--resource=virtualmachines.kubevirt.io,virtualmachineinstances.kubevirt.io,virtualmachineinstancepresets.kubevirt.io,virtualmachinepresets.virtwright.dev,clustervirtualmachinepresets.virtwright.dev")
	g.kubectl("", "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=mallory")
	for args, right := range map[string]string{"vm/web": `cannot get resource "namespaces"`, "-A": `cannot list resource "namespaces"`} {
		got = call(t, "", "expand", args, "-n", "shop", "--kubeconfig", path).fine(t)
		says(t, got.err, "Note: the labels of namespaces are unknown: ", right, "Note: BackendProfiles are unknown: ")
	}
}

func (g *ground) liveUsage(t *testing.T) {
	for args, want := range map[string]string{
		"expand pod/web":               `pod: Unsupported value: supported types: "vm", "vmi", "vmpreset", "cvmpreset"`,
		"expand vm/web db":             "db: give each object as TYPE/NAME, or one TYPE and names",
		"expand vm/absent":             `virtualmachines.kubevirt.io "absent" not found`,
		"expand vm/web -A":             "-A and names exclude each other",
		"expand -l app=web vm/web":     "-l and names exclude each other",
		"expand -A -l =":               "cannot understand the selector",
		"expand -n empty":              "there is no VirtualMachine or VirtualMachineInstance in namespace empty of cluster virtwright",
		"expand --context absent":      `context "absent" does not exist`,
		"explain vm/web spec.tmplate":  "path does not exist",
		"expand vm.yaml":               "vm.yaml: give each file its own -f",
		"expand vm/web --kubeconfig x": "cannot tell which cluster to ask: stat x",
	} {
		got := call(t, "", strings.Fields(args)...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.out)
		}
		says(t, got.err, want)
	}
}

// findsMode has the kind by which KubeVirt is known.
func (g *ground) findsMode(t *testing.T) {
	const platform = "architecture: amd64"
	vm := write(t, "vm.yaml", liveVM("new", "shop", ""))
	says(t, call(t, "", "expand", "-f", vm, "--live").fine(t).out, platform)
	g.kubectl("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kubevirts.kubevirt.io}\n"+
		"spec: {group: kubevirt.io, scope: Namespaced, names: {plural: kubevirts, singular: kubevirt, kind: KubeVirt, listKind: KubeVirtList},\n"+
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n", "create", "-f", "-")
	g.kubectl("", "wait", "--for=condition=Established", "crd/kubevirts.kubevirt.io")
	defer g.kubectl("", "delete", "crd", "kubevirts.kubevirt.io")
	if got := call(t, "", "expand", "-f", vm, "--live").fine(t); strings.Contains(got.out, platform) {
		t.Errorf("standalone beside KubeVirt:\n%s", got.out)
	}
	says(t, call(t, "", "expand", "-f", vm, "--live", "--mode", "standalone").fine(t).out, platform)
}

// readsMany reads more than one page.
func (g *ground) readsMany(t *testing.T) {
	var all strings.Builder
	all.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: many}\n")
	const count = 620
	for i := range count {
		all.WriteString("---\n" + liveVM(fmt.Sprintf("vm-%03d", i), "many", ""))
	}
	g.kubectl(all.String(), "create", "-f", "-")
	got := call(t, "", "validate", "vm", "-n", "many").fine(t)
	says(t, got.out, fmt.Sprintf("%d objects: all fine", count))
}

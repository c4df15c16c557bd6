package main

import (
	"context"
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

// TestLiveCluster reads from a real API server.
func TestLiveCluster(t *testing.T) {
	g := &ground{controlplane.ForTest(t, controlplane.Options{}), t}
	if err := g.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	g.kubectl(liveDefault+"---\n"+liveShop, "create", "-f", "-")
	g.kubectl(liveVM("web", "shop", "app: web")+"---\n"+liveVM("db", "shop", "app: db")+"---\n"+liveVM("web", "default", "app: web"), "create", "-f", "-")
	t.Setenv("KUBECONFIG", g.Kubeconfig())
	t.Run("reads objects", g.reads)
	t.Run("files replace", g.filesReplace)
	t.Run("offline stays offline", g.staysOffline)
	t.Run("stored from a preset", g.explainsRecord)
	t.Run("tests", g.tests)
	t.Run("plans", g.plans)
	t.Run("reapplies", g.reapplies)
	t.Run("rights", g.readRights)
	t.Run("playground", g.playground)
	t.Run("usage", g.liveUsage)
	t.Run("alongside KubeVirt", g.findsMode)
	t.Run("imports", g.imports)
	t.Run("many", g.readsMany)
	t.Run("mutating policies", g.mutatingPolicies)
	t.Run("policies", g.policies) // late: API servers forget policies some time after their deletion
	t.Run("an older virtwright", g.isOlder)
}

// isOlder takes away what a version before --only does not have.
func (g *ground) isOlder(t *testing.T) {
	g.kubectl("", "delete", "crd", "presetrollouts.virtwright.dev")
	got := call(t, "", "reapply", "-A", "--only", "cluster/size")
	says(t, got.err, "virtwright in the cluster is older than --only, and would apply all presets: upgrade it first")
	if got.code != exitUsage {
		t.Errorf("exit code %d", got.code)
	}
}

// vmsIn returns the names of VMs in YAML.
func vmsIn(out string) string {
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
		if found := vmsIn(got.out); found != want {
			t.Errorf("%s: explained %s, want %s", args, found, want)
		}
		says(t, got.out, "(cluster virtwright)")
	}
	// Presets and namespaces come from the cluster, the VM from the file.
	vm := write(t, "vm.yaml", strings.Replace(liveVM("new", "shop", ""), ", memory: {guest: 1Gi}", "", 1))
	says(t, call(t, "", "expand", "-f", vm, "--live").fine(t).out, "cores: 7", "guest: 2Gi")
	got := call(t, "", "validate", "-f", vm, "--live").fine(t)
	says(t, got.out, "1 object: all fine")
	// Presets of a cluster are validated only if the user asks for them.
	says(t, call(t, "", "validate", "vm/web", "-n", "shop").fine(t).out, "1 object: all fine")
	says(t, call(t, "", "validate", "-A").fine(t).out, "5 objects: all fine")
	says(t, call(t, "", "validate", "cvmpreset/size").fine(t).out, "1 object: all fine")
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
	// Files that set a namespace get its presets; VMs are read from -n.
	got = call(t, "", "expand", "-f", write(t, "vm.yaml", liveVM("new", "shop", "")), "--live", "-n", "absent").fine(t)
	says(t, got.out, "cores: 7", "name: new")
	says(t, call(t, "", "explain", "-f", edited, "--live").fine(t).out, "VirtualMachine default/web")
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

// explainsRecord explains a VM with a record, like that of a webhook.
func (g *ground) explainsRecord(t *testing.T) {
	preset := write(t, "preset.yaml", liveShop)
	vm := write(t, "vm.yaml", liveVM("recorded", "shop", ""))
	g.kubectl(call(t, "", "expand", "-f", vm, "-f", preset).fine(t).out, "create", "-f", "-")
	t.Cleanup(func() { g.kubectl("", "delete", "vm", "recorded", "-n", "shop") })
	g.kubectl("", "patch", "vmpreset", "cores", "-n", "shop", "--type=merge", "-p", `{"spec":{"defaults":{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":8}}}}}}}}`)
	got := call(t, "", "explain", "vm/recorded", "-n", "shop").fine(t)
	says(t, got.out, "cores (default)", "OUTDATED", "spec.template.spec.domain.cpu.cores   7        8")
}

// tests runs cases with the presets of the cluster; files replace some of them.
func (g *ground) tests(t *testing.T) {
	const suite = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtwrightTest\nmetadata: {name: shop}\nfiles: [%s]\ncases:\n" +
		"- {name: a, vm: {metadata: {namespace: shop}}, expect: {vm: {spec: {template: {spec: {domain: {cpu: {cores: %d}, memory: {guest: 2Gi}}}}}}}}\n"
	says(t, call(t, "", "test", "--live", "-f", write(t, "test.yaml", fmt.Sprintf(suite, "", 8))).fine(t).out, "1 case: all passed")
	edited := write(t, "preset.yaml", strings.Replace(liveShop, "cores: 7", "cores: 9", 1))
	says(t, call(t, "", "test", "--live", "-f", write(t, "test.yaml", fmt.Sprintf(suite, edited, 9))).fine(t).out, "1 case: all passed")
	offline := call(t, "", "test", "-f", write(t, "test.yaml", fmt.Sprintf(suite, edited, 9)))
	says(t, offline.out, "memory-given") // the preset of the cluster gives it
}

// plans compares VMs of the cluster and of files, with minimal permissions.
func (g *ground) plans(t *testing.T) {
	path, err := g.UserKubeconfig("planner")
	if err != nil {
		t.Fatal(err)
	}
	g.kubectl("", "create", "clusterrole", "planner", "--verb=get,list", "--resource=namespaces,virtualmachines.kubevirt.io,"+
		"virtualmachineinstancepresets.kubevirt.io,virtualmachinepresets.virtwright.dev,clustervirtualmachinepresets.virtwright.dev,presetexceptions.virtwright.dev,presetrollouts.virtwright.dev,"+
		"validatingadmissionpolicies.admissionregistration.k8s.io,validatingadmissionpolicybindings.admissionregistration.k8s.io")
	g.kubectl("", "create", "clusterrolebinding", "planner", "--clusterrole=planner", "--user=planner")
	preset := write(t, "preset.yaml", strings.ReplaceAll(liveShop, "cpu: {cores: 7}", "firmware: {serial: x}"))
	vm := write(t, "vm.yaml", liveVM("new", "shop", "app: web"))
	for flags, want := range map[string]string{
		"":                   "VMs: 3 of 4 VMs change",
		"-n shop":            "VMs: 3 of 3 VMs change",
		"-n shop -l app=web": "VMs: 2 of 2 VMs change",
	} {
		got := call(t, "", append([]string{"plan", "-f", preset, "-f", vm, "--kubeconfig", path}, strings.Fields(flags)...)...)
		if got.code != exitRejected || got.err != "" {
			t.Errorf("%s: exit code %d: %s", flags, got.code, got.err)
		}
		says(t, got.out, want)
	}
	// The API server validates existing VMs of files as updates, and skips existing VMIs.
	existing := write(t, "existing.yaml", liveVM("web", "shop", "app: web")+"---\napiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\n"+
		"metadata: {name: alone, namespace: shop}\nspec: {domain: {devices: {}, memory: {guest: 1Gi}}}\n")
	got := call(t, "", "plan", "-f", preset, "-f", existing, "-n", "shop", "--dry-run=server")
	if got.code != exitRejected || got.err != "" {
		t.Errorf("exit code %d: %s%s", got.code, got.err, got.out)
	}
	says(t, got.out, "VMs: 3 of 3 VMs change", "shop/alone, shop/db, shop/web")
}

// reapplies selects VMs by the effects of presets, and counts the results.
func (g *ground) reapplies(t *testing.T) {
	for args, want := range map[string]struct {
		code     int
		out, err string
	}{
		"vm/web vm/absent vm/web -n shop": {exitUsage, "vm/web: unchanged\nreapplied 1 VM: 0 changed, 1 unchanged; 1 failed\n", `Error: vm/absent: virtualmachines.kubevirt.io "absent" not found`},
		"--preset cores -n shop":          {exitFine, "vm/db: unchanged\nvm/web: unchanged\nreapplied 2 VMs: 0 changed, 2 unchanged\n", ""},
		"--preset cluster/size -A":        {exitFine, "reapplied 2 VMs: 0 changed, 2 unchanged\n", ""},
		"--preset cluster/size -l app=db": {exitFine, "reapplied 0 VMs: 0 changed, 0 unchanged\n", ""},
		"--preset cluster/sise -A":        {exitUsage, "", `--preset cluster/sise: the cluster has no such preset, and no VM has values of it; did you mean "cluster/size"?`},
		"--preset size":                   {exitUsage, "", `did you mean "cluster/size"?`},
	} {
		got := call(t, "", append([]string{"reapply"}, strings.Fields(args)...)...)
		if got.code != want.code {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.err)
		}
		says(t, got.out, want.out)
		says(t, got.err, want.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	if code := run(ctx, []string{"virtwright", "reapply", "vm/web", "vm/db", "-n", "shop"}, streams{strings.NewReader(""), &out, &errs}); code != exitUsage {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	says(t, out.String(), "reapplied 0 VMs: 0 changed, 0 unchanged; 2 not done\n")
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
	says(t, call(t, "", "exceptions", "-n", "shop", "--kubeconfig", path).err, `Error: cannot list presetexceptions: `)
	// The permission to read cluster presets may be missing.
	g.kubectl("", "create", "role", "local", "-n", "shop", "--verb=get,list",
		"--resource=virtualmachines.kubevirt.io,virtualmachineinstances.kubevirt.io,virtualmachinepresets.virtwright.dev,presetexceptions.virtwright.dev")
	g.kubectl("", "create", "rolebinding", "local", "-n", "shop", "--role=local", "--user=mallory")
	const unknown, because = "Note: the existing presets for VMs, ", " are unknown: cannot list clustervirtualmachinepresets: "
	got = call(t, "", "explain", "vm/web", "-n", "shop", "--kubeconfig", path).fine(t)
	says(t, got.err, unknown, because)
	says(t, got.out, "metadata.labels.app     web              user")
	says(t, call(t, "", "exceptions", "-n", "shop", "--kubeconfig", path).fine(t).err, unknown, because, "no PresetException in namespace shop")
	says(t, call(t, "", "lint", "-n", "shop", "--kubeconfig", path).err, "ask for a ClusterRoleBinding to the ClusterRole virtwright-presets-view")
	g.kubectl("", "create", "clusterrolebinding", "presets", "--clusterrole=presets", "--user=mallory")
	g.kubectl("", "create", "clusterrole", "presets", "--verb=get", "--resource=clustervirtualmachinepresets.virtwright.dev")
	says(t, call(t, "", "history", "cluster/size", "--kubeconfig", path).err, `cannot list resource "controllerrevisions"`, "they are in virtwright's namespace: name it with -n")
	says(t, call(t, "", "reapply", "--preset", "cluster/absent", "-n", "shop", "--kubeconfig", path).err, "Error: cannot list clustervirtualmachinepresets: ")
	says(t, call(t, "", "import", "-n", "shop", "--kubeconfig", path).err, "Error: no VirtualMachineInstancePreset, instancetype, preference or mutating policy")
	// The permission to read namespaces may be missing.
	g.kubectl("", "create", "clusterrole", "reader", "--verb=get,list",
		"--resource=virtualmachines.kubevirt.io,virtualmachineinstances.kubevirt.io,virtualmachineinstancepresets.kubevirt.io,virtualmachinepresets.virtwright.dev,clustervirtualmachinepresets.virtwright.dev")
	g.kubectl("", "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=mallory")
	for _, args := range []string{"vm/web", "-A"} {
		got = call(t, "", "expand", args, "-n", "shop", "--kubeconfig", path).fine(t)
		says(t, got.err, "Note: FrontendProfiles, BackendProfiles, ", "the labels of namespaces, ValidatingAdmissionPolicies, "+
			"bindings of ValidatingAdmissionPolicies, MutatingAdmissionPolicies, PresetRollouts are unknown: cannot list ")
		if n := strings.Count(got.err, "forbidden"); n != 1 {
			t.Errorf("%d errors, want one: %s", n, got.err)
		}
	}
}

func (g *ground) liveUsage(t *testing.T) {
	for args, want := range map[string]string{
		"expand pod/web":               `pod: unsupported type: supported types: "vm", "vmi", "vmpreset", "cvmpreset"`,
		"expand vm/web vm db":          "vm: use TYPE/NAME for each object, or one TYPE followed by names",
		"expand vm/absent":             `virtualmachines.kubevirt.io "absent" not found`,
		"expand vm/web -A":             "-A and names are mutually exclusive",
		"expand -l app=web vm/web":     "-l and names are mutually exclusive",
		"expand -A -l =":               "invalid selector",
		"expand -n empty":              "no VirtualMachine or VirtualMachineInstance in namespace empty of cluster virtwright",
		"expand --context absent":      `context "absent" does not exist`,
		"explain vm/web spec.tmplate":  "path does not exist",
		"expand vm.yaml":               "vm.yaml: use -f for each file",
		"expand vm/web --kubeconfig x": "cannot read the kubeconfig: stat x",
	} {
		got := call(t, "", strings.Fields(args)...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.out)
		}
		says(t, got.err, want)
	}
}

// findsMode creates the kind that identifies KubeVirt.
func (g *ground) findsMode(t *testing.T) {
	const platform = "architecture: amd64"
	vm := write(t, "vm.yaml", liveVM("new", "shop", ""))
	says(t, call(t, "", "expand", "-f", vm, "--live").fine(t).out, platform)
	g.kubectl("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: kubevirts.kubevirt.io}\n"+
		"spec: {group: kubevirt.io, scope: Namespaced, names: {plural: kubevirts, singular: kubevirt, kind: KubeVirt, listKind: KubeVirtList},\n"+
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n", "create", "-f", "-")
	g.kubectl("", "wait", "--for=condition=Established", "crd/kubevirts.kubevirt.io")
	defer g.kubectl("", "delete", "crd", "kubevirts.kubevirt.io")
	if got := call(t, "", "expand", "-f", vm, "--live").fine(t); strings.Contains(got.out, platform) {
		t.Errorf("standalone alongside KubeVirt:\n%s", got.out)
	}
	says(t, call(t, "", "expand", "-f", vm, "--live", "--mode", "standalone").fine(t).out, platform)
	g.readsStrategy(t)
}

// readsStrategy validates a VM that only the rollout strategy LiveUpdate rejects.
func (g *ground) readsStrategy(t *testing.T) {
	vm := write(t, "vm.yaml", strings.Replace(liveVM("grows", "shop", ""), "{guest: 1Gi}", "{guest: 2Gi, maxGuest: 1Gi}", 1))
	validate := func(args ...string) outcome {
		return call(t, "", append([]string{"validate", "-f", vm, "--live"}, args...)...)
	}
	if got := validate(); got.code != exitRejected {
		t.Errorf("without a KubeVirt: %d %s", got.code, got.out)
	}
	g.kubectl("apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: shop}\nspec: {configuration: {vmRolloutStrategy: Stage}}\n", "create", "-f", "-")
	validate().fine(t)
	if got := validate("--vm-rollout-strategy", "LiveUpdate"); got.code != exitRejected {
		t.Errorf("with a flag: %d %s", got.code, got.out)
	}
}

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

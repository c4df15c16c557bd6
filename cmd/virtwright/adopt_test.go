package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/controlplane"
)

// TestAdopt goes through the steps on a real API server without webhooks, so that sparse manifests
// stay sparse. The tutorial goes through them with webhooks.
func TestAdopt(t *testing.T) {
	g := &ground{controlplane.ForTest(t, controlplane.Options{}), t}
	if err := g.InstallCRDs(t.Context(), "../../charts/virtwright/files/crds"); err != nil {
		t.Fatal(err)
	}
	vm := func(name, memory string) string {
		return fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, labels: {tier: web}}, spec: {runStrategy: Halted, template: {spec: {"+
			"domain: {memory: {guest: %s}, devices: {inputs: [{name: tablet, type: tablet, bus: usb}]}}}}}}", name, memory)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		g.kubectl(vm(name, "4Gi"), "create", "-f", "-")
	}
	g.kubectl(strings.Replace(vm("owned", "4Gi"), "name: owned,", "name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: o, uid: o}],", 1), "create", "-f", "-")
	g.kubectl("", "annotate", "vm", "b", "virtwright.dev/reapply=1")
	folder := filepath.Join(t.TempDir(), "fleet")
	adopt := func(flags ...string) outcome {
		return call(t, "", append([]string{"adopt", folder, "--kubeconfig", g.Kubeconfig(), "-A", "--namespaced"}, flags...)...)
	}
	apply := func() { g.kubectl("", "apply", "-R", "-f", filepath.Join(folder, "presets")) }
	expect := func(r outcome, want ...string) {
		t.Helper()
		says(t, strings.Join(strings.Fields(strings.ReplaceAll(r.out+r.err, folder, "fleet")), " "), want...)
	}

	expect(adopt("--enforce"), "Error: cannot set mode Enforce: there is no folder fleet")
	expect(adopt().fine(t), "learn done 1 preset in fleet", "plan done 0 of 5 VMs change", "audit next 0 of 1 preset", "sparse - 0 of 4 VMs get fields from presets; left to the objects that own them: VirtualMachine default/owned", "Next: kubectl apply -R -f fleet/presets")
	if exists(filepath.Join(folder, "vms", "default", "owned.yaml")) {
		t.Error("a manifest of a VM with an owner, which could not be replaced")
	}
	if strings.Contains(read(t, filepath.Join(folder, "vms", "default", "b.yaml")), "reapply") {
		t.Error("a manifest asks for a reapply that was done")
	}
	expect(adopt("--enforce"), "audit next 0 of 1 preset", "Error: cannot set mode Enforce: step audit is not done")
	file := filepath.Join(folder, "presets", "default", "every-vm.yaml")
	expect(call(t, "", "adopt", folder, "--kubeconfig", g.Kubeconfig(), "-n", "gone"), "Error: no VirtualMachine of namespace gone in fleet")
	replaceIn(t, file, "  namespace: default\n", "")
	expect(adopt().fine(t), "audit next 0 of 1 preset", "enforce - 0 of 1 preset")
	elsewhere := call(t, "", "adopt", folder, "--kubeconfig", g.Kubeconfig(), "-n", "kube-public")
	expect(elsewhere.fine(t), "plan done 0 of 5 VMs change")
	apply()
	expect(adopt().fine(t), "audit done 1 of 1 preset", "enforce next 0 of 1 preset", "then run the command again with --enforce")

	replaceIn(t, file, "  mode: Audit\n", "  mode: \"Audit\" # at first\n")
	expect(adopt("--enforce").fine(t), "enforce next 0 of 1 preset", "Next: kubectl apply -R -f fleet/presets")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "  mode: \"Enforce\" # at first\n") {
		t.Errorf("the file is not edited in place: %v\n%s", err, text)
	}
	apply()
	expect(adopt().fine(t), "enforce done 1 of 1 preset", "sparse next 0 of 4 VMs get fields", "kubectl replace -R -f fleet/vms")

	g.kubectl(vm("e", "4Gi"), "create", "-f", "-")
	g.kubectl("", "patch", "vm", "a", "--type=merge", "-p", `{"spec":{"template":{"spec":{"hostname":"a"}}}}`)
	r := adopt()
	if r.code != exitRejected {
		t.Errorf("another manifest: got exit code %d", r.code)
	}
	expect(r, "the manifests do not give the stored VMs: VirtualMachine default/a; not in the folder: VirtualMachine default/e",
		"VirtualMachine default/a: the stored VM has another spec.template.spec.hostname", "what virtwright sparsify prints for these VMs")
	moved := folder + "-moved"
	if err := os.Rename(filepath.Join(folder, "vms"), moved); err != nil {
		t.Fatal(err)
	}
	expect(adopt().fine(t), "sparse next 0 of 0 VMs get fields from presets; not in the folder: VirtualMachine default/a", "Next: write what virtwright sparsify prints")
	if err := os.Rename(moved, filepath.Join(folder, "vms")); err != nil {
		t.Fatal(err)
	}

	replaceIn(t, file, "guest: 4Gi", "guest: 8Gi\n            cores: 2")
	r = adopt()
	if r.code != exitRejected {
		t.Errorf("an unknown field: got exit code %d", r.code)
	}
	expect(r, "lint next 1 preset: 1 error", "every-vm.yaml", `unknown field "cores"`, "Next: correct the presets in fleet/presets")
	replaceIn(t, file, "guest: 8Gi\n            cores: 2", "guest: 4Gi\n              hugepages: {pageSize: 2Mi}")
	r = adopt()
	if r.code != exitRejected {
		t.Errorf("a preset that changes VMs: got exit code %d", r.code)
	}
	expect(r, "plan next 6 of 6 VMs change", "spec.template.spec.domain.memory.hugepages.pageSize", "Next: change the presets in fleet/presets")
}

func replaceIn(t *testing.T, file, before, after string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), before) {
		t.Fatalf("%s lacks %q: %v\n%s", file, before, err, text)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), before, after, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

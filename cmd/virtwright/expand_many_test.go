package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestExpandMany expands more VMs than fit in memory, with the same result and order.
func TestExpandMany(t *testing.T) {
	const count = 450
	dir := manyVMs(t, count)
	// A duplicate name, a duplicate MAC address, and an object that is not a VM.
	again := "---\n" + strings.Replace(small, "{name: vm}", "{name: vm-000007, namespace: shop}", 1)
	for _, name := range []string{"one", "two"} {
		again += "---\n" + strings.Replace(sparse, "{name: vm}", "{name: "+name+", namespace: shop}", 1) +
			"spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: default, macAddress: \"02:00:00:00:00:01\", masquerade: {}}]}}, networks: [{name: default, pod: {}}]}}}\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "zz.yaml"), []byte(again+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call(t, "", "expand", "-f", dir, "-f", examplePresets, "-f", exampleNamespaces)
	if got.code != exitRejected {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.err, "zz.yaml, document 1: VirtualMachine shop/vm-000007 is rejected:\n  metadata.name: Duplicate value: \"vm-000007\", also in "+dir+"/000000.yaml, document 8",
		"zz.yaml: ignored 1 of kind Pod (v1)", "Warning: VirtualMachine shop/two: spec.template.spec.domain.devices.interfaces[default].macAddress: MAC address 02:00:00:00:00:01 is also used by one")
	var list struct{ Items []map[string]any }
	if err := yaml.Unmarshal([]byte(got.out), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, fmt.Sprint(item["metadata"].(map[string]any)["name"]))
	}
	var want []string
	for i := range count {
		want = append(want, fmt.Sprintf("vm-%06d", i))
	}
	if got, want := strings.Join(names, " "), strings.Join(append(want, "one", "two"), " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// From standard input, as JSON, and as a difference.
	var all strings.Builder
	for first := 0; first < count; first += 100 {
		all.WriteString(read(t, fmt.Sprintf("%s/%06d.yaml", dir, first)))
	}
	stdin := call(t, all.String(), "expand", "-f", "-", "-f", examplePresets, "-f", exampleNamespaces, "-o", "json").fine(t)
	if got := strings.Count(stdin.out, "\n      \"kind\": \"VirtualMachine\""); got != count {
		t.Errorf("%d VMs", got)
	}
	if err := yaml.Unmarshal([]byte(stdin.out), &list); err != nil || len(list.Items) != count {
		t.Errorf("%d items: %v", len(list.Items), err)
	}
	differences := call(t, all.String(), "expand", "-f", "-", "-f", examplePresets, "-f", exampleNamespaces, "-o", "diff").fine(t)
	if got := strings.Count(differences.out, "\n+++ VirtualMachine shop/"); got != count {
		t.Errorf("%d differences", got)
	}
	// Namespaces are read before VMs are expanded.
	says(t, call(t, all.String(), "expand", "-f", "-", "-f", examplePresets).fine(t).err, "Note: the labels of namespace shop are unknown")
	// An invalid document does not hide the others.
	broken := all.String() + "---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: a: b\n"
	got = call(t, broken, "expand", "-f", "-", "-f", examplePresets, "-f", exampleNamespaces)
	if got.code != exitUsage || strings.Count(got.out, "\n  kind: VirtualMachine\n") != count {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.err, "standard input, document 451, line ", "cannot read the YAML")
}
